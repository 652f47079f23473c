// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

// failureChecks returns the checks that run a mail or DNS plugin against servers whose failures do
// not depend on the provider's API. The contract suite of a sending platform has such checks
// itself.
func failureChecks(kind string) []check {
	idPrefix := kind + "/failures/"
	checks := []check{
		{ID: idPrefix + "nothing-listens", Proves: "a refused connection is reported as down", Run: func(t T, b Binary) {
			b.expectOutcome(t, UnreachableURL(t), outcome.Down)
		}},
		{ID: idPrefix + "html-page", Proves: "an HTML page instead of an answer is reported as broken", Run: func(t T, b Binary) {
			b.expectOutcome(t, b.startHTMLServer(t), outcome.Broken)
		}},
		{ID: idPrefix + "status-500", Proves: "a 500 without a body is reported as broken or down", Run: func(t T, b Binary) {
			b.requireHTTP(t)
			b.expectOutcome(t, startServer(t, statusHandler(http.StatusInternalServerError)), outcome.Broken, outcome.Down)
		}},
		{ID: idPrefix + "endless-answer", Proves: "an endless answer is reported as broken", Run: func(t T, b Binary) {
			b.expectOutcomeOfReads(t, b.startEndlessServer(t), 1, []outcome.Kind{outcome.Broken})
		}},
		{ID: idPrefix + "redirect", Proves: "a redirect is not followed", Run: func(t T, b Binary) {
			b.requireHTTP(t)
			redirectTarget := startServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
			b.expectOutcome(t, startServer(t, http.RedirectHandler(redirectTarget, http.StatusTemporaryRedirect)), outcome.Broken, outcome.Down)
		}},
		{ID: idPrefix + "deadline", Proves: "a call without an answer ends at its deadline, and its outcome is unknown", Run: checkDeadline},
		{ID: idPrefix + "cancelled", Proves: "a cancelled call returns, and its request to the provider ends", Run: checkCancelled},
		{ID: idPrefix + healthCheck, Proves: healthProves, Run: func(t T, b Binary) {
			b.pacer = nil // this provider has no rate limit
			p, provider := b.Start(t), newSilentServer()
			check := b.readCalls(t, p, b.Connect(b.startSilentServer(t, provider)))["Check"]
			checkHealth(t, p, check, &provider.requests)
		}},
	}
	if kind == string(wire.KindDNS) {
		return append(checks, dnsFailureChecks...)
	}
	return checks
}

// dnsFailureChecks are the failureChecks that only a DNS plugin has.
var dnsFailureChecks = []check{
	{ID: "dns/failures/status-503", Proves: "a provider that answers 503 is reported as down", Run: func(t T, b Binary) {
		b.requireHTTP(t)
		b.expectOutcome(t, startServer(t, statusHandler(http.StatusServiceUnavailable)), outcome.Down)
	}},
	{ID: "dns/failures/throttled", Proves: "a throttled call is reported with the provider's Retry-After", Run: func(t T, b Binary) {
		b.requireHTTP(t)
		url := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		_, err := b.dns(b.Start(t), b.Connect(url)).Check(callContext(t))
		var failure *outcome.Error
		if !errors.As(err, &failure) || failure.Kind != outcome.Throttled || failure.RetryAfter <= 0 || failure.RetryAfter > 7*time.Second {
			t.Errorf("Check returned %v, want throttled with the Retry-After of 7 seconds", err)
		}
	}},
	{ID: "dns/failures/held-back", Proves: "after a Retry-After, calls of the credential send nothing until its time is over", Run: func(t T, b Binary) {
		b.requireHTTP(t)
		var requests atomic.Int64
		url := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Retry-After", "300")
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		provider, ctx := b.dns(b.Start(t), b.Connect(url)), callContext(t)
		_, _ = provider.Check(ctx)
		before := requests.Load()
		_, err := provider.Check(ctx)
		var failure *outcome.Error
		if !errors.As(err, &failure) || failure.Kind != outcome.Throttled || failure.RetryAfter <= 0 || failure.RetryAfter > 5*time.Minute {
			t.Errorf("the second Check returned %v, want throttled with the rest of the Retry-After of 5 minutes", err)
		}
		if sent := requests.Load() - before; sent != 0 {
			t.Errorf("the second Check sent %d requests, want none until the Retry-After is over", sent)
		}
	}},
}

func statusHandler(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// writeEndlessly writes until the caller closes the connection.
func writeEndlessly(w http.ResponseWriter, r *http.Request) {
	chunk := bytes.Repeat([]byte("[[[["), 1<<14)
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// silentServer reads requests and never answers them. Each request holds the read lock of
// openRequests until the request ends. The first request closes asked.
type silentServer struct {
	openRequests sync.RWMutex
	requests     atomic.Int64 // the number of requests that have begun
	asked        chan struct{}
	askedOnce    sync.Once
}

func newSilentServer() *silentServer { return &silentServer{asked: make(chan struct{})} }

// beginRequest records that a request has begun. The returned function records its end.
func (s *silentServer) beginRequest() (end func()) {
	s.openRequests.RLock()
	s.requests.Add(1)
	s.askedOnce.Do(func() { close(s.asked) })
	return s.openRequests.RUnlock
}

// ServeHTTP implements http.Handler.
func (s *silentServer) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	defer s.beginRequest()()
	_, _ = io.Copy(io.Discard, r.Body) // net/http notices that a connection is closed only after the body was read
	<-r.Context().Done()
}

// callDeadline is the time limit of the calls in checkDeadline, and the time after which
// checkCancelled cancels its call.
const callDeadline = 300 * time.Millisecond

// abandonTimeout is how long the plugin's request to the provider may stay open after the end of
// the call. It is longer than the time limit of most calls, 20 seconds. Calls of a plugin may share
// a request, such as the request for a token, that ends only at its own time limit. The tests of
// this package shorten abandonTimeout.
var abandonTimeout = 30 * time.Second

func checkDeadline(t T, b Binary) {
	p := b.Start(t)
	provider := newSilentServer()
	for name, read := range b.readCalls(t, p, b.Connect(b.startSilentServer(t, provider))) {
		ctx, cancel := context.WithTimeout(t.Context(), callDeadline)
		err, returned := runWithin(callTimeout, func() error { return read(ctx) })
		cancel()
		switch {
		case !returned:
			t.Errorf("%s did not return, although its deadline had passed", name)
		case outcome.KindOf(err) != outcome.Unknown:
			t.Errorf("%s returned %v, want the outcome unknown", name, err)
		}
	}
	provider.requireQuiet(t)
}

// requireQuiet checks that the plugin has ended its requests to the provider. The host's call ends
// at its deadline in any case, so only the provider can see whether the plugin ends its request.
func (s *silentServer) requireQuiet(t T) {
	t.Helper()
	if _, hasEnded := runWithin(abandonTimeout, func() error { s.openRequests.Lock(); return nil }); !hasEnded {
		t.Errorf("requests to the provider were still open %s after the end of their calls", abandonTimeout)
	}
}

func checkCancelled(t T, b Binary) {
	p := b.Start(t)
	provider := newSilentServer()
	read := b.readCalls(t, p, b.Connect(b.startSilentServer(t, provider)))["Check"]
	ctx, cancel := context.WithCancel(t.Context())
	timer := panics.AfterFunc(callDeadline, cancel, func(*panics.Error) {})
	defer timer.Stop()
	switch err, returned := runWithin(callTimeout, func() error { return read(ctx) }); {
	case !returned:
		t.Errorf("the call did not return within %s, although it was cancelled", callTimeout)
	case !errors.Is(err, context.Canceled):
		t.Errorf("the cancelled call returned %v, want context.Canceled", err)
	}
	provider.requireQuiet(t)
}

// runWithin runs f and reports whether it returned within timeout.
func runWithin(timeout time.Duration, f func() error) (result error, returned bool) {
	ended := make(chan error, 1)
	panics.Go(func() { ended <- f() }, func(e *panics.Error) { ended <- e })
	select {
	case result = <-ended:
		return result, true
	case <-time.After(timeout):
		return nil, false
	}
}

// expectOutcome calls all reads of a plugin whose provider is at url, all at the same time. Each
// call must fail with one of the outcomes in want, but not with a panic or an error that the plugin
// did not classify. After that the plugin must still answer Describe.
func (b Binary) expectOutcome(t T, url string, want ...outcome.Kind) {
	t.Helper()
	b.expectOutcomeOfReads(t, url, len(mailReads)+1, want)
}

// expectOutcomeOfReads is expectOutcome with at most maxParallel calls at the same time. If a read
// needs much CPU time, too many concurrent calls would exceed the plugin's own timeouts.
func (b Binary) expectOutcomeOfReads(t T, url string, maxParallel int, want []outcome.Kind) {
	t.Helper()
	p := b.Start(t)
	slots := make(chan struct{}, maxParallel)
	var hung atomic.Bool
	var pending panics.Group
	for name, read := range b.readCalls(t, p, b.Connect(url)) {
		pending.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if hung.Load() {
				return // a call that hung is reported already, and each further call would take minutes
			}
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			defer cancel()
			err := read(ctx)
			if ctx.Err() != nil {
				hung.Store(true)
			}
			var failure *outcome.Error
			switch {
			case !errors.As(err, &failure) || !slices.Contains(want, failure.Kind):
				t.Errorf("%s returned %v, want %v", name, err, want)
			case failure.Cause == wire.CausePanic || failure.Cause == wire.CauseUnclassified:
				t.Errorf("%s: the plugin did not classify the failure: %v", name, err)
			}
		})
	}
	pending.Wait()
	describe(t, p)
}
