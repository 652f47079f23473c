// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestGuardedClientRefusesPrivateAddresses uses private addresses, and a name that resolves to a
// loopback address.
func TestGuardedClientRefusesPrivateAddresses(t *testing.T) {
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests++ }))
	defer server.Close()
	localhostURL := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	get := func(url string, allowPrivate bool) error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := sdk.NewGuardedHTTPClient(4*time.Minute, allowPrivate).Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err
	}
	for _, url := range []string{server.URL, localhostURL, "http://169.254.169.254/", "http://[::1]:1/"} {
		if err := get(url, false); !errors.Is(err, sdk.ErrPrivateAddress) {
			t.Errorf("%s: got %v, want ErrPrivateAddress", url, err)
		}
	}
	if requests > 0 {
		t.Fatalf("the server got %d requests, want none", requests)
	}
	if err := get(server.URL, true); err != nil || requests != 1 {
		t.Fatalf("with allowPrivate: %v, %d requests, want one", err, requests)
	}
}
