// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
)

func fixedAnswer(status int, body map[string]any) func(url.Values) (int, any) {
	return func(url.Values) (int, any) { return status, body }
}

// A failed renewal decides whether the token that is still valid stays in use.
func TestAFailedRenewalKeepsTheTokenUnlessAccessIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		number int
		want   error // nil: the cached token is used
	}{
		"consent revoked":       {400, 700016, fault.AccessDenied},
		"disabled by the admin": {400, 7000112, fault.AccessDenied},
		"out of service":        {503, 0, nil},
		"throttled":             {429, 0, nil},
		"loop detected":         {400, 50196, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, d, _ := newTokenIssuer(t, 3600)
			s.expectToken(t, "t1")
			d.answer = fixedAnswer(tt.status, map[string]any{"error": "x", "error_codes": []int{tt.number}})
			s.Renew(0)
			got, err := s.Token(t.Context())
			if !errors.Is(err, tt.want) || (err == nil && got.Value.Reveal() != "t1") {
				t.Fatalf("got %s, %v", got.Value.Reveal(), err)
			}
			sent := len(d.forms)
			s.Renew(0)
			if _, err = s.Token(t.Context()); tt.want == nil && (err != nil || len(d.forms) != sent) {
				t.Fatalf("%v after %d requests: a host that is away is asked again at once", err, len(d.forms)-sent)
			}
		})
	}
}

func TestRenewalsAreLimitedPerMinute(t *testing.T) {
	s, d, now := newTokenIssuer(t, 3600)
	ask := func(times int) int {
		before := len(d.forms)
		for range times {
			s.Renew(0)
			if _, err := s.Token(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return len(d.forms) - before
	}
	if n := ask(100); n != 1+maxRenewals {
		t.Fatalf("%d tokens were fetched within a minute", n)
	}
	*now = now.Add(time.Minute)
	if n := ask(1); n != 1 {
		t.Fatal("a minute later none was fetched")
	}
}

// If callers waited for each other, each would wait for the full timeout of a host that does not
// answer.
func TestCallersShareOneFailure(t *testing.T) {
	s, d, _ := newTokenIssuer(t, 3600)
	arrived, release := make(chan struct{}), make(chan struct{})
	d.answer = func(url.Values) (int, any) {
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
		_, f, mine := s.Tokens.tokenOrRequest(s.key())
		if mine {
			t.Fatal("a second request is to be made")
		}
		shared = append(shared, f)
	}
	close(release)
	ends := []error{<-first}
	for _, f := range shared {
		<-f.done
		ends = append(ends, f.err)
	}
	for _, err := range ends {
		if outcome.Of(err) != outcome.Down {
			t.Errorf("got %v", err)
		}
	}
	if len(d.forms) != 1 {
		t.Fatalf("%d requests", len(d.forms))
	}
}

func TestACancelledCallerDoesNotCancelTheTokenRequest(t *testing.T) {
	s, d, _ := newTokenIssuer(t, 3600)
	arrived, release := make(chan struct{}), make(chan struct{})
	issue := d.answer
	d.answer = func(f url.Values) (int, any) {
		close(arrived)
		<-release
		return issue(f)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := s.Token(ctx)
		gone <- err
	}()
	<-arrived
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	close(release)
	s.expectToken(t, "t1")
	if len(d.forms) != 1 {
		t.Fatalf("%d requests", len(d.forms))
	}
}

type panickingTransport struct{}

func (panickingTransport) RoundTrip(*http.Request) (*http.Response, error) { panic("a secret") }

// TestPanicOfARequestReachesItsCallers checks that a panic in the goroutine of a token request
// continues in the call that waits for the token, and that the next call requests the token again.
func TestPanicOfARequestReachesItsCallers(t *testing.T) {
	s, _, _ := newTokenIssuer(t, 3600)
	working := s.Host.HTTP
	s.Host.HTTP = &http.Client{Transport: panickingTransport{}}
	var p *panics.Error
	if err := panics.Catch(func() error { _, err := s.Token(t.Context()); return err }); !errors.As(err, &p) {
		t.Fatalf("got %v, want the panic", err)
	}
	s.Host.HTTP = working
	s.expectToken(t, "t1")
}
