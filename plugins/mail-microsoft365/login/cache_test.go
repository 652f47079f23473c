// SPDX-License-Identifier: Apache-2.0

package login

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

// newTokenIssuer starts a login host that issues the tokens t1, t2 and so on. Each token is valid
// for the given number of seconds. The token source takes the time from the returned pointer.
func newTokenIssuer(t *testing.T, seconds int) (TokenSource, *fakeLogin, *time.Time) {
	t.Helper()
	fake := newFakeLogin(t)
	issued := 0
	fake.answer = func(url.Values) (int, any) {
		issued++
		return http.StatusOK, map[string]any{"access_token": fmt.Sprintf("t%d", issued), "expires_in": seconds}
	}
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	host := fake.host()
	host.Now = func() time.Time { return now }
	return TokenSource{Host: host, Tokens: &TokenCache{Now: host.Now}, Connection: "c1", Tenant: guid, Scope: graphScope}, fake, &now
}

func (s TokenSource) expectToken(t *testing.T, want string) {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil || got.Value.Reveal() != want {
		t.Fatalf("got the token %s, %v, want %s", got.Value.Reveal(), err, want)
	}
}

func TestTokensAreUsedUntilFiveMinutesBeforeTheyExpire(t *testing.T) {
	source, _, now := newTokenIssuer(t, 3600)
	source.expectToken(t, "t1")
	*now = now.Add(55*time.Minute - time.Second)
	source.expectToken(t, "t1")
	*now = now.Add(time.Second)
	source.expectToken(t, "t2")
}

func TestShortLivedTokensAreUsedForFourFifthsOfTheirLifetime(t *testing.T) {
	source, _, now := newTokenIssuer(t, 10)
	source.expectToken(t, "t1")
	*now = now.Add(7 * time.Second)
	source.expectToken(t, "t1")
	*now = now.Add(time.Second)
	source.expectToken(t, "t2")
}

func TestTokensAreCachedByConnectionTenantAndScope(t *testing.T) {
	source, _, _ := newTokenIssuer(t, 3600)
	source.expectToken(t, "t1")
	differentConnection, differentTenant, differentScope := source, source, source
	differentConnection.Connection = "c2"
	differentConnection.expectToken(t, "t2")
	differentTenant.Tenant = "11111111-6a0e-4a55-8f0e-0c2f5b6a9d11"
	differentTenant.expectToken(t, "t3")
	differentScope.Scope = "https://outlook.office365.com/.default"
	differentScope.expectToken(t, "t4")
	source.expectToken(t, "t1")
}

func TestConcurrentCallersShareOneTokenRequest(t *testing.T) {
	source, fake, _ := newTokenIssuer(t, 3600)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := source.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(fake.forms) != 1 {
		t.Fatalf("%d tokens were requested, want 1", len(fake.forms))
	}
}

func TestRenewReplacesOnlyOldTokens(t *testing.T) {
	source, _, now := newTokenIssuer(t, 3600)
	source.expectToken(t, "t1")
	*now = now.Add(9 * time.Second)
	source.Renew(10 * time.Second)
	source.expectToken(t, "t1")
	*now = now.Add(time.Second)
	source.Renew(10 * time.Second)
	source.expectToken(t, "t2")
}

func TestARefusedCachedTokenIsReplacedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		status   int
		isCached bool
		wantSent string // the tokens that Do sends
		wantNext string // the token of the next call
	}{
		"401 for a cached token": {http.StatusUnauthorized, true, "t1 t2 ", "t2"},
		"403 for a cached token": {http.StatusForbidden, true, "t1 t2 ", "t2"},
		"401 for a new token":    {http.StatusUnauthorized, false, "t1 ", "t1"},
		"403 for a new token":    {http.StatusForbidden, false, "t1 ", "t1"},
		"404":                    {http.StatusNotFound, true, "t1 ", "t1"},
	} {
		t.Run(name, func(t *testing.T) {
			source, _, now := newTokenIssuer(t, 3600)
			if tc.isCached {
				source.expectToken(t, "t1")
				*now = now.Add(time.Second)
			}
			sent := ""
			resp, err := source.Do(t.Context(), func(token Token) (call.Response, error) {
				sent += token.Value.Reveal() + " "
				return call.Response{Status: tc.status}, nil
			})
			if err != nil || resp.Status != tc.status || sent != tc.wantSent {
				t.Fatalf("sent %q, want %q; got the status %d, %v, want %d", sent, tc.wantSent, resp.Status, err, tc.status)
			}
			source.expectToken(t, tc.wantNext)
		})
	}
}

func TestExpiredTokensAreRemoved(t *testing.T) {
	source, _, now := newTokenIssuer(t, 60)
	for n := range sweepThreshold {
		source.Connection = fmt.Sprint(n)
		source.Tokens.entry(source.key()).token = Token{Expires: *now}
	}
	source.Connection = "new"
	source.expectToken(t, "t1")
	if n := len(source.Tokens.entries); n != 1 {
		t.Fatalf("%d tokens are cached, want only the new token", n)
	}
}
