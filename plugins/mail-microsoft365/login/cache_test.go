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

// newTokenIssuer starts a login host that issues the tokens t1, t2 and so on, each valid for this
// number of seconds. The token source takes the time from the returned pointer.
func newTokenIssuer(t *testing.T, seconds int) (TokenSource, *fakeLogin, *time.Time) {
	t.Helper()
	fake := newFakeLogin(t)
	n := 0
	fake.answer = func(url.Values) (int, any) {
		n++
		return http.StatusOK, map[string]any{"access_token": fmt.Sprintf("t%d", n), "expires_in": seconds}
	}
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	h := fake.host()
	h.Now = func() time.Time { return now }
	return TokenSource{Host: h, Tokens: &TokenCache{Now: h.Now}, Connection: "c1", Tenant: guid, Scope: graphScope}, fake, &now
}

func (s TokenSource) expectToken(t *testing.T, want string) {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil || got.Value.Reveal() != want {
		t.Fatalf("got the token %s, %v, want %s", got.Value.Reveal(), err, want)
	}
}

func TestTokensAreUsedUntilFiveMinutesBeforeTheyExpire(t *testing.T) {
	s, _, now := newTokenIssuer(t, 3600)
	s.expectToken(t, "t1")
	*now = now.Add(55*time.Minute - time.Second)
	s.expectToken(t, "t1")
	*now = now.Add(time.Second)
	s.expectToken(t, "t2")
}

func TestShortLivedTokensAreUsedForFourFifthsOfTheirLifetime(t *testing.T) {
	s, _, now := newTokenIssuer(t, 10)
	s.expectToken(t, "t1")
	*now = now.Add(7 * time.Second)
	s.expectToken(t, "t1")
	*now = now.Add(time.Second)
	s.expectToken(t, "t2")
}

func TestTokensAreCachedByConnectionTenantAndScope(t *testing.T) {
	s, _, _ := newTokenIssuer(t, 3600)
	s.expectToken(t, "t1")
	otherSource := s
	otherSource.Connection = "c2"
	otherSource.expectToken(t, "t2")
	otherSource = s
	otherSource.Tenant = "11111111-6a0e-4a55-8f0e-0c2f5b6a9d11"
	otherSource.expectToken(t, "t3")
	otherSource = s
	otherSource.Scope = "https://outlook.office365.com/.default"
	otherSource.expectToken(t, "t4")
	s.expectToken(t, "t1")
}

func TestConcurrentCallersShareOneTokenRequest(t *testing.T) {
	s, fake, _ := newTokenIssuer(t, 3600)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(fake.forms) != 1 {
		t.Fatalf("%d tokens were fetched, want 1", len(fake.forms))
	}
}

func TestRenewReplacesOnlyOldTokens(t *testing.T) {
	s, _, now := newTokenIssuer(t, 3600)
	s.expectToken(t, "t1")
	*now = now.Add(9 * time.Second)
	s.Renew(10 * time.Second)
	s.expectToken(t, "t1")
	*now = now.Add(time.Second)
	s.Renew(10 * time.Second)
	s.expectToken(t, "t2")
}

func TestARefusedCachedTokenIsReplacedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		status   int
		isCached bool
		sent     string // tokens that were sent
		after    string // token of the next call
	}{
		"401 for a cached token": {http.StatusUnauthorized, true, "t1 t2 ", "t2"},
		"403 for a cached token": {http.StatusForbidden, true, "t1 t2 ", "t2"},
		"401 for a new token":    {http.StatusUnauthorized, false, "t1 ", "t1"},
		"403 for a new token":    {http.StatusForbidden, false, "t1 ", "t1"},
		"404":                    {http.StatusNotFound, true, "t1 ", "t1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, now := newTokenIssuer(t, 3600)
			if tc.isCached {
				s.expectToken(t, "t1")
				*now = now.Add(time.Second)
			}
			sent := ""
			resp, err := s.Do(t.Context(), func(tok Token) (call.Response, error) {
				sent += tok.Value.Reveal() + " "
				return call.Response{Status: tc.status}, nil
			})
			if err != nil || resp.Status != tc.status || sent != tc.sent {
				t.Fatalf("sent %q, want %q; status %d, %v, want %d", sent, tc.sent, resp.Status, err, tc.status)
			}
			s.expectToken(t, tc.after)
		})
	}
}

func TestExpiredTokensAreRemoved(t *testing.T) {
	s, _, now := newTokenIssuer(t, 60)
	for n := range sweepThreshold {
		s.Connection = fmt.Sprint(n)
		s.Tokens.entry(s.key()).token = Token{Expires: *now}
	}
	s.Connection = "one more"
	s.expectToken(t, "t1")
	if n := len(s.Tokens.entries); n != 1 {
		t.Fatalf("%d tokens are kept, want 1", n)
	}
}
