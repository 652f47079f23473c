// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// Waits holds back the calls to a provider that has asked for a pause with Retry-After. The pause
// applies to all calls of a scope, such as a tenant or a credential, and not only to the call whose
// answer had the Retry-After. The author of the plugin chooses the scopes and their names.
//
// If the field Waits of Plugin is set, the host passes each wait on to the processes of this plugin
// in all replicas. Waits is safe for concurrent use. A nil *Waits holds nothing back.
type Waits struct {
	now func() time.Time

	mu    sync.Mutex
	until map[string]time.Time // by scope
	host  ports.Waits          // nil until the host shares its waits
}

// NewWaits returns Waits that hold nothing back. now is the clock; nil means time.Now.
func NewWaits(now func() time.Time) *Waits {
	if now == nil {
		now = time.Now
	}
	return &Waits{now: now, until: map[string]time.Time{}}
}

// Share lets w use the waits of the host too. Serve calls Share. Tests call Share with a store that
// stands in for the host.
func (w *Waits) Share(host ports.Waits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = host
}

// Extend holds back all calls of a scope for the duration wait, unless they already wait longer.
func (w *Waits) Extend(ctx context.Context, scope string, wait time.Duration) {
	if w == nil || wait <= 0 {
		return
	}
	w.mu.Lock()
	if until := w.now().Add(wait); until.After(w.until[scope]) {
		w.until[scope] = until
	}
	host := w.host
	w.mu.Unlock()
	if host != nil {
		// The wait must reach the host even if the caller has given up.
		host.Wait(context.WithoutCancel(ctx), scope, wait)
	}
}

// Left returns how long a call of these scopes still has to wait, or 0 if it may be sent now.
func (w *Waits) Left(ctx context.Context, scopes ...string) time.Duration {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	now := w.now()
	for scope, until := range w.until {
		if !until.After(now) {
			delete(w.until, scope)
		}
	}
	left := time.Duration(0)
	for _, scope := range scopes {
		left = max(left, w.until[scope].Sub(now))
	}
	host := w.host
	w.mu.Unlock()
	if host != nil && left == 0 {
		for _, scope := range scopes {
			left = max(left, host.Wait(ctx, scope, 0))
		}
	}
	return left
}

// Check returns a Throttled outcome if the calls of the scopes have to wait.
func (w *Waits) Check(ctx context.Context, scopes ...string) error {
	if left := w.Left(ctx, scopes...); left > 0 {
		return &outcome.Error{Kind: outcome.Throttled, Cause: CauseHeldBack, RetryAfter: left, Detail: "the provider wants us to wait"}
	}
	return nil
}

// CauseHeldBack is the cause of a call that was not sent because its scope has to wait.
const CauseHeldBack = "held_back"

// Observe holds back the calls of a scope if a response with this status and header asks for it:
// 429 or 503 with Retry-After.
func (w *Waits) Observe(ctx context.Context, scope string, status int, h http.Header) {
	if w == nil || status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return
	}
	w.Extend(ctx, scope, RetryAfter(h, w.now()))
}

// Client returns a copy of c for the calls of one scope. The copy does not send a request while the
// scope has to wait, and calls Observe with each response. For a request that it does not send, it
// returns an error, and TransportError turns this error into a Throttled outcome.
func (w *Waits) Client(c *http.Client, scope string) *http.Client {
	limited := *c
	limited.Transport = waitingTransport{cmp.Or(c.Transport, http.DefaultTransport), w, scope}
	return &limited
}

type waitingTransport struct {
	next  http.RoundTripper
	waits *Waits
	scope string
}

func (t waitingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.waits.Check(r.Context(), t.scope); err != nil {
		return nil, err
	}
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		t.waits.Observe(r.Context(), t.scope, resp.StatusCode, resp.Header)
	}
	return resp, err
}

// maxWait is the longest wait that is accepted from a provider. It protects against a wrong value
// in Retry-After.
const maxWait = time.Hour

// RetryAfter returns the wait that the header Retry-After asks for, in seconds or as a date. It is
// 0 without a valid header, and at most an hour.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		// The seconds are limited first, because the product could overflow.
		wait = time.Duration(min(seconds, int(maxWait/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, maxWait))
}
