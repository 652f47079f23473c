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

// issuer hands out tokens t1, t2, … and tells how many.
func issuer(t *testing.T, seconds int) (Source, *double, *time.Time) {
	t.Helper()
	d := newDouble(t)
	n := 0
	d.answer = func(url.Values) (int, any) {
		n++
		return http.StatusOK, map[string]any{"access_token": fmt.Sprintf("t%d", n), "expires_in": seconds}
	}
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	h := d.host()
	h.Now = func() time.Time { return now }
	return Source{Host: h, Tokens: &Tokens{Now: h.Now}, Connection: "c1", Tenant: guid, Scope: graphScope}, d, &now
}

func (s Source) mustToken(t *testing.T, want string) Token {
	t.Helper()
	got, err := s.Token(t.Context())
	if err != nil || got.Value.Reveal() != want {
		t.Fatalf("got %s, %v, want %s", got.Value.Reveal(), err, want)
	}
	return got
}

func TestTokensAreKeptUntilFiveMinutesBeforeTheirEnd(t *testing.T) {
	s, _, now := issuer(t, 3600)
	s.mustToken(t, "t1")
	*now = now.Add(55*time.Minute - time.Second)
	s.mustToken(t, "t1")
	*now = now.Add(time.Second)
	s.mustToken(t, "t2")
}

func TestShortTokensAreKeptForMostOfTheirLife(t *testing.T) {
	s, _, now := issuer(t, 10)
	s.mustToken(t, "t1")
	*now = now.Add(7 * time.Second)
	s.mustToken(t, "t1")
	*now = now.Add(time.Second)
	s.mustToken(t, "t2")
}

func TestTokensAreKeptApart(t *testing.T) {
	s, _, _ := issuer(t, 3600)
	s.mustToken(t, "t1")
	other := s
	other.Connection = "c2"
	other.mustToken(t, "t2")
	other = s
	other.Tenant = "11111111-6a0e-4a55-8f0e-0c2f5b6a9d11"
	other.mustToken(t, "t3")
	other = s
	other.Scope = "https://outlook.office365.com/.default"
	other.mustToken(t, "t4")
	s.mustToken(t, "t1")
}

func TestOneFetchForManyCallers(t *testing.T) {
	s, d, _ := issuer(t, 3600)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Token(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(d.forms) != 1 {
		t.Fatalf("%d tokens were fetched", len(d.forms))
	}
}

func TestRenewForgetsOnlyOldTokens(t *testing.T) {
	s, _, now := issuer(t, 3600)
	s.mustToken(t, "t1")
	*now = now.Add(9 * time.Second)
	s.Renew(10 * time.Second)
	s.mustToken(t, "t1")
	*now = now.Add(time.Second)
	s.Renew(10 * time.Second)
	s.mustToken(t, "t2")
}

func TestARefusedKeptTokenIsReplacedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		kept   bool
		sent   string // the tokens that were sent
		after  string // the token of the next call
	}{
		"401 of a kept one": {http.StatusUnauthorized, true, "t1 t2 ", "t2"},
		"403 of a kept one": {http.StatusForbidden, true, "t1 t2 ", "t2"},
		"401 of a new one":  {http.StatusUnauthorized, false, "t1 ", "t2"},
		"403 of a new one":  {http.StatusForbidden, false, "t1 ", "t1"},
		"404":               {http.StatusNotFound, true, "t1 ", "t1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, now := issuer(t, 3600)
			if tt.kept {
				s.mustToken(t, "t1")
				*now = now.Add(time.Second)
			}
			sent := ""
			a, err := s.Do(t.Context(), func(tok Token) (call.Answer, error) {
				sent += tok.Value.Reveal() + " "
				return call.Answer{Status: tt.status}, nil
			})
			if err != nil || a.Status != tt.status || sent != tt.sent {
				t.Fatalf("sent %q, %v", sent, err)
			}
			s.mustToken(t, tt.after)
		})
	}
}

func TestEndedTokensAreSwept(t *testing.T) {
	s, _, now := issuer(t, 60)
	for n := range sweepAt {
		s.Connection = fmt.Sprint(n)
		s.Tokens.entry(s.key()).token = Token{Expires: *now}
	}
	s.Connection = "one more"
	s.mustToken(t, "t1")
	if n := len(s.Tokens.entries); n != 1 {
		t.Fatalf("%d are kept", n)
	}
}
