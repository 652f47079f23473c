// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	for _, form := range []string{"live", "trial"} {
		t.Run(form, func(t *testing.T) {
			c := common(t).newCaller(object{"key_form": form})
			if !strings.HasPrefix(c.key, "tny_"+form+"_") {
				t.Fatal("the key has another form")
			}
			path := "/api-key/rotate?user_email="
			c.expect("POST", "/api-key/rotate", nil, 400, "invalid_request")
			c.expect("POST", path+"a&user_email=b", nil, 400, "invalid_request")
			c.expect("POST", path+"stranger@e2e.example", nil, 403, "access_denied")
			c.expect("POST", path+url.QueryEscape(common(t).email), nil, 403, "access_denied")

			got := c.raw("POST", path+url.QueryEscape(strings.ToUpper(c.email)), "", map[string]string{"Idempotency-Key": ""})
			has(t, "rotate", got.object, "status api_key key_hint rotated_at")
			fresh := got.text("api_key")
			if got.text("status") != "rotated" || !regexp.MustCompile(`^tny_(live|trial)_[0-9a-f]{48}$`).MatchString(fresh) ||
				fresh == c.key || !strings.HasSuffix(fresh, got.text("key_hint")) || got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%d without a good key: %v", got.status, got.header)
			}
			c.expect("GET", "/v1/tenants", nil, 401, "invalid_api_key")
			c.expect("POST", path+url.QueryEscape(c.email), nil, 401, "invalid_api_key")
			c.key = fresh
			c.get("/v1/tenants")
		})
	}
}
