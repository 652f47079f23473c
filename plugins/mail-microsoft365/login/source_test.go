// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
)

func fixedAnswer(status int, body map[string]any) func(url.Values) (int, any) {
	return func(url.Values) (int, any) { return status, body }
}

// If a renewal fails, its error decides whether the old token, which is still valid, continues to
// be used.
func TestAFailedRenewalKeepsTheTokenIfTheLoginHostIsUnavailable(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		number int   // AADSTS number, 0 for none
		want   error // nil: the cached token is used
	}{
		"consent revoked":       {400, 700016, fault.AccessDenied},
		"disabled by the admin": {400, 7000112, fault.AccessDenied},
		"out of service":        {503, 0, nil},
		"throttled":             {429, 0, nil},
		"loop detected":         {400, 50196, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, fake, _ := newTokenIssuer(t, 3600)
			s.expectToken(t, "t1")
			fake.answer = fixedAnswer(tc.status, map[string]any{"error": "x", "error_codes": []int{tc.number}})
			s.Renew(0)
			got, err := s.Token(t.Context())
			if !errors.Is(err, tc.want) || (err == nil && got.Value.Reveal() != "t1") {
				t.Fatalf("got %s, %v, want the error %v", got.Value.Reveal(), err, tc.want)
			}
			sent := len(fake.forms)
			s.Renew(0)
			if _, err = s.Token(t.Context()); tc.want == nil && (err != nil || len(fake.forms) != sent) {
				t.Fatalf("the call after a failed renewal sent %d requests and returned %v, want none and the old token", len(fake.forms)-sent, err)
			}
		})
	}
}

// silentHost is a transport to a login host that never answers.
type silentHost struct{ requests int }

// RoundTrip implements http.RoundTripper.
func (h *silentHost) RoundTrip(r *http.Request) (*http.Response, error) {
	h.requests++
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{}) // so the request counts as sent
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestARenewalThatTimesOutKeepsTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := &silentHost{}
		h := (&fakeLogin{url: "https://login.example"}).host()
		h.HTTP = &http.Client{Transport: silent}
		s := TokenSource{Host: h, Tokens: &TokenCache{Now: time.Now}, Connection: "c1", Tenant: guid, Scope: graphScope}
		_, request, _ := s.Tokens.tokenOrRequest(s.key())
		s.Tokens.finish(s.key(), request, Token{Value: secret.New("t1"), Obtained: time.Now(), Expires: time.Now().Add(time.Hour)}, nil)

		s.Renew(0)
		s.expectToken(t, "t1")
		sent := silent.requests
		s.Renew(0)
		s.expectToken(t, "t1")
		if sent == 0 || silent.requests != sent {
			t.Errorf("%d requests were sent for the first renewal and %d for the second, want at least one and none", sent, silent.requests-sent)
		}
	})
}

func TestRenewalsAreLimited(t *testing.T) {
	s, fake, now := newTokenIssuer(t, 3600)
	fetchTokens := func(calls int) int {
		before := len(fake.forms)
		for range calls {
			s.Renew(0)
			if _, err := s.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return len(fake.forms) - before
	}
	if n := fetchTokens(100); n != 1+maxRenewals {
		t.Fatalf("%d tokens were fetched at once, want %d", n, 1+maxRenewals)
	}
	*now = now.Add(renewalWindow)
	if n := fetchTokens(1); n != 1 {
		t.Fatalf("%d tokens were fetched after the window, want 1", n)
	}
}

// If callers sent their requests one after another, each would wait for the full timeout of a host
// that does not answer.
func TestCallersShareOneFailure(t *testing.T) {
	s, fake, _ := newTokenIssuer(t, 3600)
	arrived, release := make(chan struct{}), make(chan struct{})
	fake.answer = func(url.Values) (int, any) {
		close(arrived)
		<-release
		return http.StatusUnauthorized, map[string]any{"error": "x", "error_codes": []int{7000215}}
	}
	first := make(chan error)
	go func() {
		_, err := s.Token(t.Context())
		first <- err
	}()
	<-arrived
	var shared []*tokenRequest
	for range 9 {
		_, request, isFirst := s.Tokens.tokenOrRequest(s.key())
		if isFirst {
			t.Fatal("a second request would be sent")
		}
		shared = append(shared, request)
	}
	close(release)
	results := []error{<-first}
	for _, request := range shared {
		<-request.done
		results = append(results, request.err)
	}
	for _, err := range results {
		if outcome.KindOf(err) != outcome.Down {
			t.Errorf("got %v, want down", err)
		}
	}
	if len(fake.forms) != 1 {
		t.Fatalf("%d requests were sent, want 1", len(fake.forms))
	}
}

func TestACancelledCallerDoesNotCancelTheTokenRequest(t *testing.T) {
	s, fake, _ := newTokenIssuer(t, 3600)
	arrived, release := make(chan struct{}), make(chan struct{})
	issue := fake.answer
	fake.answer = func(f url.Values) (int, any) {
		close(arrived)
		<-release
		return issue(f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error)
	go func() {
		_, err := s.Token(ctx)
		returned <- err
	}()
	<-arrived
	cancel()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	close(release)
	s.expectToken(t, "t1")
	if len(fake.forms) != 1 {
		t.Fatalf("%d requests were sent, want 1", len(fake.forms))
	}
}

type panickingTransport struct{}

func (panickingTransport) RoundTrip(*http.Request) (*http.Response, error) { panic("a secret") }

// TestPanicOfARequestReachesItsCallers checks that a panic in the goroutine of a token request
// continues in the call that waits for the token. The next call must request the token again.
func TestPanicOfARequestReachesItsCallers(t *testing.T) {
	s, _, _ := newTokenIssuer(t, 3600)
	workingClient := s.Host.HTTP
	s.Host.HTTP = &http.Client{Transport: panickingTransport{}}
	var p *panics.Error
	if err := panics.Catch(func() error { _, err := s.Token(t.Context()); return err }); !errors.As(err, &p) {
		t.Fatalf("got %v, want the panic", err)
	}
	s.Host.HTTP = workingClient
	s.expectToken(t, "t1")
}

// A tenant with one write every 20 seconds needs one token every five minutes, and no more.
func TestWritesRenewTokensEveryFewMinutes(t *testing.T) {
	s, fake, now := newTokenIssuer(t, 3600)
	for range 45 * 3 {
		s.RenewOld()
		if _, err := s.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(20 * time.Second)
	}
	if n := len(fake.forms); n != 9 {
		t.Fatalf("%d tokens were fetched in 45 minutes, want 9", n)
	}
}

// A token without a required grant is refused, and so is each new token until the grant takes
// effect. A caller that calls once a second must not get a new token each time. After an API has
// accepted a new token, the next refused token is replaced without a delay.
func TestRefusedTokensAreReplacedMoreAndMoreRarely(t *testing.T) {
	s, fake, now := newTokenIssuer(t, 3600)
	acceptedToken := "none"
	callThenAdvance := func() int {
		resp, err := s.Do(t.Context(), func(sent Token) (call.Response, error) {
			if sent.Value.Reveal() == acceptedToken {
				return call.Response{Status: http.StatusOK}, nil
			}
			return call.Response{Status: http.StatusForbidden}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		*now = now.Add(time.Second)
		return resp.Status
	}
	for range 10 * 60 {
		callThenAdvance()
	}
	if n := len(fake.forms); n < 5 || n > 14 {
		t.Fatalf("%d tokens were fetched in ten minutes, want 5 to 14", n)
	}
	*now = now.Add(MaxTokenAge)
	for range 2 {
		acceptedToken = fmt.Sprintf("t%d", len(fake.forms)+1)
		if status := callThenAdvance(); status != http.StatusOK {
			t.Fatalf("status %d, want 200 with the first replacement of the token", status)
		}
	}
}
