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

// If a renewal fails, its error determines whether the old token, which is still valid, stays in
// use.
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
			source, fake, _ := newTokenIssuer(t, 3600)
			source.expectToken(t, "t1")
			fake.answer = fixedAnswer(tc.status, map[string]any{"error": "x", "error_codes": []int{tc.number}})
			source.Renew(0)
			got, err := source.Token(t.Context())
			if !errors.Is(err, tc.want) || (err == nil && got.Value.Reveal() != "t1") {
				t.Fatalf("got %s, %v, want the error %v, or the token t1 if it is nil", got.Value.Reveal(), err, tc.want)
			}
			requestsBefore := len(fake.forms)
			source.Renew(0)
			if _, err = source.Token(t.Context()); tc.want == nil && (err != nil || len(fake.forms) != requestsBefore) {
				t.Fatalf("the call after a failed renewal sent %d requests and returned the error %v, want no request and no error", len(fake.forms)-requestsBefore, err)
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
		host := (&fakeLogin{url: "https://login.example"}).host()
		host.HTTP = &http.Client{Transport: silent}
		source := TokenSource{Host: host, Tokens: &TokenCache{Now: time.Now}, Connection: "c1", Tenant: guid, Scope: graphScope}
		_, request, _ := source.Tokens.tokenOrRequest(source.key())
		source.Tokens.finish(source.key(), request, Token{Value: secret.New("t1"), Obtained: time.Now(), Expires: time.Now().Add(time.Hour)}, nil)

		source.Renew(0)
		source.expectToken(t, "t1")
		firstRequests := silent.requests
		source.Renew(0)
		source.expectToken(t, "t1")
		if firstRequests == 0 || silent.requests != firstRequests {
			t.Errorf("%d requests were sent for the first renewal and %d for the second, want at least one request and then none", firstRequests, silent.requests-firstRequests)
		}
	})
}

func TestRenewalsAreLimited(t *testing.T) {
	source, fake, now := newTokenIssuer(t, 3600)
	countRequests := func(calls int) int {
		before := len(fake.forms)
		for range calls {
			source.Renew(0)
			if _, err := source.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return len(fake.forms) - before
	}
	if n := countRequests(100); n != 1+maxRenewals {
		t.Fatalf("%d tokens were requested in 100 calls, want %d", n, 1+maxRenewals)
	}
	*now = now.Add(renewalWindow)
	if n := countRequests(1); n != 1 {
		t.Fatalf("%d tokens were requested after renewalWindow, want 1", n)
	}
}

// Concurrent callers share one request and its failure. If each sent a request of its own after the
// request of the previous caller, each would wait for the full timeout of a host that does not
// answer.
func TestCallersShareOneFailure(t *testing.T) {
	source, fake, _ := newTokenIssuer(t, 3600)
	arrived, release := make(chan struct{}), make(chan struct{})
	fake.answer = func(url.Values) (int, any) {
		close(arrived)
		<-release
		return http.StatusUnauthorized, map[string]any{"error": "x", "error_codes": []int{7000215}}
	}
	firstCallerResult := make(chan error)
	go func() {
		_, err := source.Token(t.Context())
		firstCallerResult <- err
	}()
	<-arrived
	var sharedRequests []*tokenRequest
	for range 9 {
		_, request, mustSend := source.Tokens.tokenOrRequest(source.key())
		if mustSend {
			t.Fatal("a second caller must send a request, want it to wait for the first request")
		}
		sharedRequests = append(sharedRequests, request)
	}
	close(release)
	results := []error{<-firstCallerResult}
	for _, request := range sharedRequests {
		<-request.done
		results = append(results, request.err)
	}
	for _, err := range results {
		if outcome.KindOf(err) != outcome.Down {
			t.Errorf("got %v, want down", err)
		}
	}
	if len(fake.forms) != 1 {
		t.Fatalf("%d tokens were requested, want 1", len(fake.forms))
	}
}

func TestACancelledCallerDoesNotCancelTheTokenRequest(t *testing.T) {
	source, fake, _ := newTokenIssuer(t, 3600)
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
		_, err := source.Token(ctx)
		returned <- err
	}()
	<-arrived
	cancel()
	if err := <-returned; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	close(release)
	source.expectToken(t, "t1")
	if len(fake.forms) != 1 {
		t.Fatalf("%d tokens were requested, want 1", len(fake.forms))
	}
}

type panickingTransport struct{}

func (panickingTransport) RoundTrip(*http.Request) (*http.Response, error) { panic("a secret") }

// TestPanicOfARequestReachesItsCallers checks that a panic in the goroutine of a token request
// continues in the call that waits for the token. The next call must request the token again.
func TestPanicOfARequestReachesItsCallers(t *testing.T) {
	source, _, _ := newTokenIssuer(t, 3600)
	workingClient := source.Host.HTTP
	source.Host.HTTP = &http.Client{Transport: panickingTransport{}}
	var panicked *panics.Error
	if err := panics.Catch(func() error { _, err := source.Token(t.Context()); return err }); !errors.As(err, &panicked) {
		t.Fatalf("got %v, want the panic of the request", err)
	}
	source.Host.HTTP = workingClient
	source.expectToken(t, "t1")
}

// A tenant with one write every 20 seconds needs one token every five minutes, and no more.
func TestWritesRenewTokensEveryFewMinutes(t *testing.T) {
	source, fake, now := newTokenIssuer(t, 3600)
	const minutes, writesPerMinute = 45, 3
	for range minutes * writesPerMinute {
		source.RenewOld()
		if _, err := source.Token(t.Context()); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(time.Minute / writesPerMinute)
	}
	if n := len(fake.forms); n != 9 {
		t.Fatalf("%d tokens were requested in 45 minutes, want 9", n)
	}
}

// An API refuses a token without a required grant. It also refuses each new token until the grant
// takes effect. A caller that calls once a second must not get a new token each time. After the API
// has accepted a new token, the next refused token is replaced without a delay.
func TestRefusedTokensAreReplacedMoreAndMoreRarely(t *testing.T) {
	source, fake, now := newTokenIssuer(t, 3600)
	acceptedToken := "none"
	callThenAdvance := func() int {
		resp, err := source.Do(t.Context(), func(sent Token) (call.Response, error) {
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
	for range 10 * 60 { // one call per second for ten minutes
		callThenAdvance()
	}
	// The first token, three replacements without a delay, and nine with delays from 1 s to 256 s.
	if n := len(fake.forms); n != 13 {
		t.Fatalf("%d tokens were requested in ten minutes, want 13", n)
	}
	*now = now.Add(MaxTokenAge)
	for range 2 {
		acceptedToken = fmt.Sprintf("t%d", len(fake.forms)+1)
		if status := callThenAdvance(); status != http.StatusOK {
			t.Fatalf("got the status %d, want 200 with the first replacement of the token", status)
		}
	}
}
