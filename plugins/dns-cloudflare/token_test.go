// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestTokensThatEnded: verify answers for a token that is switched off or has
// ended, and its status says no.
func TestTokensThatEnded(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	for _, status := range []string{"disabled", "expired"} {
		w.control(t, http.MethodPut, "/token", map[string]string{"status": status}, nil)
		if n, err := w.Provider().Check(t.Context()); err == nil {
			t.Errorf("%s: %d zones", status, n)
		}
		if _, err := w.Provider().Zone(t.Context(), zone); err == nil {
			t.Errorf("a token that is %s finds zones", status)
		}
	}
	w.control(t, http.MethodPut, "/token", map[string]string{"status": "active"}, nil)
	if n, err := w.Provider().Check(t.Context()); err != nil || n != 1 {
		t.Errorf("active again: %d, %v", n, err)
	}
}

// given is the token of a customer.
func (w *world) given(t *testing.T, customer string) string {
	t.Helper()
	var out struct {
		Secrets map[string]string `json:"secrets"`
	}
	w.control(t, http.MethodPost, "/credentials", map[string]string{"customer": customer}, &out)
	return out.Secrets["api_token"]
}

// TestTokensOfCustomers checks that each customer has a token of their own. All
// tokens reach the same zones, each has its own limit, and others are refused.
func TestTokensOfCustomers(t *testing.T) {
	w := newWorld(t)
	zone := w.NewZone(t)
	one, other := w.given(t, "one"), w.given(t, "other")
	if one == other || one != w.given(t, "one") {
		t.Fatal(one, other)
	}
	for token, reaches := range map[string]bool{one: true, other: true, one + "x": false, "": false} {
		c := sdk.Connection{Settings: w.ready.Settings, Secrets: map[string]secret.Text{"api_token": secret.New(token)}}
		p, err := w.make(c)
		if err == nil {
			_, err = p.Zone(t.Context(), zone)
		}
		if (err == nil) != reaches {
			t.Errorf("%q: %v", token, err)
		}
	}
	statuses := map[string]int{}
	for range limit {
		statuses[one] = w.verify(one)
	}
	statuses[other] = w.verify(other)
	if statuses[one] != http.StatusTooManyRequests || statuses[other] != http.StatusOK {
		t.Errorf("after %d calls with one token the statuses are %v", limit, statuses)
	}
}

// verify calls the simulator directly, since the limit takes many calls to reach.
func (w *world) verify(token string) (status int) {
	req := httptest.NewRequest(http.MethodGet, w.ready.Settings["api_url"]+"/user/tokens/verify", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	w.inner.ServeHTTP(answer, req)
	return answer.Code
}
