// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// TestInactiveTokensAreRefused checks disabled and expired tokens. Cloudflare answers the
// verification of such a token with status 200 and the state of the token.
func TestInactiveTokensAreRefused(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	for _, status := range []string{"disabled", "expired"} {
		fixture.control(t, http.MethodPut, "/token", map[string]string{"status": status}, nil)
		if zones, err := fixture.Provider().Check(t.Context()); err == nil {
			t.Errorf("Check accepts a token that is %s, and counts %d zones", status, zones)
		}
		if _, err := fixture.Provider().Zone(t.Context(), zone); err == nil {
			t.Errorf("Zone accepts a token that is %s", status)
		}
	}
	fixture.control(t, http.MethodPut, "/token", map[string]string{"status": "active"}, nil)
	if zones, err := fixture.Provider().Check(t.Context()); err != nil || zones != 1 {
		t.Errorf("Check with the token that is active again: %d zones, %v, want 1", zones, err)
	}
}

// customerToken returns the token that the simulator creates for a customer.
func (f *fixture) customerToken(t *testing.T, customer string) string {
	t.Helper()
	var out struct {
		Secrets map[string]string `json:"secrets"`
	}
	f.control(t, http.MethodPost, "/credentials", map[string]string{"customer": customer}, &out)
	return out.Secrets["api_token"]
}

// TestEachCustomerHasItsOwnToken checks that the tokens of two customers have access to the same
// zone, that each token has its own limit, and that an unknown and an empty token are refused.
func TestEachCustomerHasItsOwnToken(t *testing.T) {
	fixture := newFixture(t)
	zone := fixture.NewZone(t)
	acmeToken, globexToken := fixture.customerToken(t, "acme"), fixture.customerToken(t, "globex")
	if acmeToken == globexToken || acmeToken != fixture.customerToken(t, "acme") {
		t.Fatalf("the tokens are %q for acme and %q for globex, want different tokens, and always the same token for acme", acmeToken, globexToken)
	}
	for token, isAccepted := range map[string]bool{acmeToken: true, globexToken: true, acmeToken + "x": false, "": false} {
		provider, err := fixture.newProvider(fixture.connection(token))
		if err == nil {
			_, err = provider.Zone(t.Context(), zone)
		}
		if (err == nil) != isAccepted {
			t.Errorf("token %q: %v, want accepted: %v", token, err, isAccepted)
		}
	}
	statuses := map[string]int{}
	for range maxCalls {
		statuses[acmeToken] = fixture.verifyStatus(acmeToken)
	}
	statuses[globexToken] = fixture.verifyStatus(globexToken)
	if statuses[acmeToken] != http.StatusTooManyRequests || statuses[globexToken] != http.StatusOK {
		t.Errorf("after %d calls with one token the statuses are %v, want 429 for %q and 200 for %q", maxCalls, statuses, acmeToken, globexToken)
	}
}

// verifyStatus returns the status of the simulator's answer to the verification of a token. It
// calls the simulator without HTTP, because many calls are needed to reach the limit.
func (f *fixture) verifyStatus(token string) (status int) {
	req := httptest.NewRequest(http.MethodGet, f.ready.Settings["api_url"]+"/user/tokens/verify", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	answer := httptest.NewRecorder()
	f.simulator.ServeHTTP(answer, req)
	return answer.Code
}

// TestBlockOfATokenEndsAfterItsWindow checks that a token that exceeded its limit is accepted after
// the window, even if the simulated clock was moved back meanwhile.
func TestBlockOfATokenEndsAfterItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		fixture := &fixture{simulator: sim, ready: ready}
		moveClock := func(duration string) {
			body := strings.NewReader(`{"advance":"` + duration + `"}`)
			sim.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/_control/clock", body))
		}
		moveClock("24h")
		for range maxCalls {
			if status := fixture.verifyStatus(simulator.Token); status != http.StatusOK {
				t.Fatalf("a call below the limit: %d, want 200", status)
			}
		}
		if status := fixture.verifyStatus(simulator.Token); status != http.StatusTooManyRequests {
			t.Errorf("a call beyond the limit: %d, want 429", status)
		}
		moveClock("-24h")
		time.Sleep(rateWindow)
		if status := fixture.verifyStatus(simulator.Token); status != http.StatusOK {
			t.Errorf("a call after the window: %d, want 200", status)
		}
	})
}
