// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"sync"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Cloudflare allows a user, or a token of an account, at most maxCalls calls in any rateWindow.
// After further calls it blocks all calls for one rateWindow.
const (
	maxCalls   = 1200
	rateWindow = 5 * time.Minute
)

// budgets has a budget for each token.
type budgets struct {
	now     func() time.Time
	limit   int // maximum number of calls of one token in each window
	mu      sync.Mutex
	byToken map[string]*budget // keyed by the fingerprint of the connection
}

func newBudgets(now func() time.Time) *budgets {
	return &budgets{now: now, limit: maxCalls, byToken: map[string]*budget{}}
}

// forToken returns the budget of the token of a connection with this fingerprint. It also deletes
// the idle budgets of other tokens.
func (b *budgets) forToken(fingerprint string) *budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, budget := range b.byToken {
		if key != fingerprint && budget.isIdle() {
			delete(b.byToken, key)
		}
	}
	if b.byToken[fingerprint] == nil {
		b.byToken[fingerprint] = &budget{now: b.now, limit: b.limit}
	}
	return b.byToken[fingerprint]
}

// budget permits at most limit calls of one token in each rateWindow. Cloudflare counts a call when
// the request arrives, which can be at any time before the answer. Therefore a call counts until
// one rateWindow after its end.
type budget struct {
	now         func() time.Time
	limit       int
	mu          sync.Mutex
	inFlight    int         // calls without an answer yet
	calls       []time.Time // when the calls of the last window ended, oldest first
	pausedUntil time.Time
}

// acquire permits one call, or fails with a Throttled outcome that says how long to wait. The
// caller must call release when a permitted call has ended.
func (b *budget) acquire() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.expire(now)
	freeAt := now.Add(callTimeout) // an estimate for the case that all calls are still in flight
	if len(b.calls) > 0 {
		freeAt = b.calls[0].Add(rateWindow)
	}
	if b.inFlight+len(b.calls) >= b.limit && b.pausedUntil.Before(freeAt) {
		b.pausedUntil = freeAt
	}
	if wait := b.pausedUntil.Sub(now); wait > 0 {
		return &sdk.Outcome{Kind: sdk.Throttled, Cause: "budget", RetryAfter: wait, Detail: "the call budget of the provider is used up"}
	}
	b.inFlight++
	return nil
}

// release records the end of a permitted call.
func (b *budget) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	b.calls = append(b.calls, b.now())
}

// expire removes the calls that ended at least one window ago.
func (b *budget) expire(now time.Time) {
	for len(b.calls) > 0 && now.Sub(b.calls[0]) >= rateWindow {
		b.calls = b.calls[1:]
	}
}

// isIdle reports whether the budget can be deleted: no call counts any more, and no pause applies.
func (b *budget) isIdle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.expire(now)
	return b.inFlight == 0 && len(b.calls) == 0 && !b.pausedUntil.After(now)
}

// budgetTransport is a transport that sends a request only if waits and budget allow it. It also
// returns the errors of sdk.StatusError, because the errors of the Cloudflare library do not
// contain the header Retry-After.
type budgetTransport struct {
	next   http.RoundTripper
	budget *budget
	waits  *sdk.Waits
	scope  string // the scope of the token in waits
}

func (b budgetTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	err := b.waits.Check(r.Context(), b.scope)
	if err == nil {
		err = b.budget.acquire()
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must close the body
		}
		return nil, err
	}
	resp, err := b.next.RoundTrip(r)
	b.budget.release()
	if err != nil {
		return nil, err
	}
	b.waits.Observe(r.Context(), b.scope, resp.StatusCode, resp.Header)
	failure := sdk.StatusError(resp.StatusCode, resp.Header, b.budget.now())
	if failure == nil {
		return resp, nil
	}
	_ = resp.Body.Close()
	return nil, failure
}
