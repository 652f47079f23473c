// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/app/tenants"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
)

func (env *testEnv) allowReturnHost(t *testing.T, owner testAccount, host string) {
	t.Helper()
	_, err := env.store.ChangeSettings(t.Context(), owner.account.ID, func(s access.Settings) (access.Settings, error) {
		s.ReturnHosts = []string{host}
		return s, nil
	})
	must(t, err)
}

func TestConnectLinkParametersAreChecked(t *testing.T) {
	env := newTestEnv(t)
	env.allowReturnHost(t, env.accountA, "app.acme.example")
	client := serve(t, env.handler(t))
	returnURL := url.QueryEscape("https://app.acme.example/done?x=1")
	for _, tc := range []struct {
		query        string
		wantStatus   int
		wantCode     string
		wantLifetime time.Duration
	}{
		{"", 200, "", 15 * time.Minute},
		{"?ttl_minutes=1", 200, "", time.Minute},
		{"?ttl_minutes=10080&return_url=" + returnURL + "&state=" + strings.Repeat("%C3%BC", 256), 200, "", 7 * 24 * time.Hour},
		{"?unknown=1", 200, "", 15 * time.Minute},
		{"?ttl_minutes=0", 400, "invalid_request", 0},
		{"?ttl_minutes=10081", 400, "invalid_request", 0},
		{"?ttl_minutes=-1", 400, "invalid_request", 0},
		{"?ttl_minutes=1.5", 400, "invalid_request", 0},
		{"?ttl_minutes=%2B5", 400, "invalid_request", 0},
		{"?ttl_minutes=005", 400, "invalid_request", 0},
		{"?ttl_minutes=99999999999999999999", 400, "invalid_request", 0},
		{"?ttl_minutes=x", 400, "invalid_request", 0},
		{"?ttl_minutes=1&ttl_minutes=2", 400, "invalid_request", 0},
		{"?state=" + strings.Repeat("x", 257), 400, "invalid_request", 0},
		{"?return_url=" + url.QueryEscape("http://app.acme.example/"), 400, "invalid_return_url", 0},
		{"?return_url=" + url.QueryEscape("https://evil.example/"), 400, "invalid_return_url", 0},
		{"?return_url=x", 400, "invalid_return_url", 0},
		{"?return_url=", 400, "invalid_return_url", 0},
		{"?return_url", 400, "invalid_return_url", 0},
		{"?return_url=" + returnURL + "&return_url=" + returnURL, 400, "invalid_request", 0},
	} {
		got := client.expect(call{method: "GET", path: "/v1/tenants/connect-url" + tc.query, key: env.accountA.key}, tc.wantStatus, tc.wantCode)
		if tc.wantStatus != 200 {
			continue
		}
		expiresAt, err := time.Parse(time.RFC3339, got.body["expires_at"].(string))
		if lifetime := time.Until(expiresAt); err != nil || lifetime > tc.wantLifetime || lifetime < tc.wantLifetime-testTimeout {
			t.Errorf("%s: the link expires in %v, want about %v (%v)", tc.query, lifetime, tc.wantLifetime, err)
		}
		session := client.expect(call{method: "GET", path: "/v1/connect-sessions/" + got.body["id"].(string), key: env.accountA.key}, 200, "")
		if session.body["status"] != "pending" || session.body["tenant_id"] != nil || session.body["expires_at"] != got.body["expires_at"] || len(session.body) != 3 {
			t.Errorf("%s: the session is %s, want a pending session with the expiry of the link and no tenant", tc.query, session.raw)
		}
	}
	client.expect(call{method: "GET", path: "/v1/tenants/connect-url?return_url=" + returnURL, key: env.accountB.key}, 400, "invalid_return_url")
}

func TestRenewedLinkIsReplayed(t *testing.T) {
	env := newTestEnv(t)
	id := env.addConnectSession(t, env.accountA)
	client := serve(t, env.handler(t))
	renew := call{method: "POST", path: "/v1/connect-sessions/" + id + "/renew", key: env.accountA.key, headers: map[string]string{"Idempotency-Key": "renew-1"}}
	renewed := client.expect(renew, 200, "")
	if renewed.body["id"] != id || renewed.header.Get("X-RateLimit-Bucket") != "write" || renewed.header.Get("X-RateLimit-Limit") != "240" {
		t.Errorf("the renewal is answered %s %v, want the id of the session and the bucket write with the limit 240", renewed.raw, renewed.header)
	}
	repeated := client.expect(renew, 200, "")
	if repeated.raw != renewed.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the repetition got %s, want a replay of %s", repeated.raw, renewed.raw)
	}
	renew.headers = nil // the client uses a new Idempotency-Key
	if renewedAgain := client.expect(renew, 200, ""); renewedAgain.body["connect_url"] == renewed.body["connect_url"] {
		t.Error("a second renewal returns the link of the first renewal, want a new link")
	}
	renew.headers = map[string]string{"Idempotency-Key": ""}
	client.expect(renew, 400, "idempotency_key_required")
}

// TestConnectCookieLivesUntilTheLinkExpires checks that the browser keeps the cookie of a connect
// flow as long as the service accepts the flow.
func TestConnectCookieLivesUntilTheLinkExpires(t *testing.T) {
	env := newTestEnv(t)
	env.serveConnectPages()
	now := time.Now().Truncate(time.Second)
	env.options.Tenants.Now = func() time.Time { return now }
	handler := env.handler(t)
	for _, tc := range []struct {
		name                   string
		lifetime, consentAfter time.Duration
		wantMaxAge             int // in seconds
	}{
		{"the default lifetime", tenant.DefaultLinkLifetime, 0, 15 * 60},
		{"a day", 24 * time.Hour, 0, 24 * 60 * 60},
		{"consent after an hour", 24 * time.Hour, time.Hour, 23 * 60 * 60},
		{"consent in the last second", time.Minute, time.Minute - time.Millisecond, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			link, err := env.options.Tenants.ConnectURL(t.Context(), env.accountA.account, tenants.LinkRequest{Lifetime: tc.lifetime})
			must(t, err)
			consent, err := env.platform.Visit(link.URL, env.accountA.administrator(), true)
			must(t, err)
			now = link.ExpiresAt.Add(tc.consentAfter - tc.lifetime)
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/connect/microsoft365/callback?"+consent, nil))
			cookies := recorder.Result().Cookies()
			if recorder.Code != http.StatusSeeOther || len(cookies) != 1 || cookies[0].MaxAge != tc.wantMaxAge {
				t.Fatalf("the callback is answered %d with the cookies %v, want 303 with one cookie for %d s", recorder.Code, cookies, tc.wantMaxAge)
			}
		})
	}
}
