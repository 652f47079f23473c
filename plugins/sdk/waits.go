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

// Waits refuses calls to a provider that has asked for a pause with Retry-After. A call belongs to
// one or more scopes, such as a tenant or a credential, and a pause applies to all calls of a
// scope. The author of the plugin defines the scopes and their names. For the waits that the host
// shares, see Plugin.Waits.
//
// Waits is safe for concurrent use. A nil *Waits refuses nothing.
type Waits struct {
	now func() time.Time

	mu    sync.Mutex
	until map[string]time.Time // keyed by scope
	host  ports.Waits          // nil until the host shares its waits
}

// NewWaits returns Waits that refuse nothing yet. now returns the current time. If now is nil,
// Waits uses time.Now.
func NewWaits(now func() time.Time) *Waits {
	if now == nil {
		now = time.Now
	}
	return &Waits{now: now, until: map[string]time.Time{}}
}

// Share makes w also use the waits of the host. Serve calls Share. Tests pass their own
// implementation of ports.Waits in place of the host.
func (w *Waits) Share(host ports.Waits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = host
}

// Extend makes all calls of a scope wait for at least the duration wait from now.
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
		// The host must get the wait even if the caller has cancelled the call.
		host.Wait(context.WithoutCancel(ctx), scope, wait)
	}
}

// Left returns how long a call of these scopes still has to wait, or 0 if the call may be sent now.
// It asks the host only if this process knows of no wait, so the host can know a longer one.
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
	remaining := time.Duration(0)
	for _, scope := range scopes {
		remaining = max(remaining, w.until[scope].Sub(now))
	}
	host := w.host
	w.mu.Unlock()
	if host != nil && remaining == 0 {
		for _, scope := range scopes {
			remaining = max(remaining, host.Wait(ctx, scope, 0))
		}
	}
	return remaining
}

// Check returns a Throttled outcome if one of the scopes has to wait.
func (w *Waits) Check(ctx context.Context, scopes ...string) error {
	if remaining := w.Left(ctx, scopes...); remaining > 0 {
		return &outcome.Error{Kind: outcome.Throttled, Cause: CauseHeldBack, RetryAfter: remaining, Detail: "the provider wants us to wait"}
	}
	return nil
}

// KeyScope returns the scope of the calls with an API key at a base URL. All workspaces of the key
// share this scope, because platforms count calls by key. Connection.Fingerprint would give each
// workspace its own scope. The scope does not reveal the key.
func KeyScope(baseURL string, key Secret) string {
	return Connection{Settings: map[string]string{"base_url": baseURL}, Secrets: map[string]Secret{"api_key": key}}.Fingerprint()
}

// CauseHeldBack is the Cause of a Throttled outcome when the call was not sent, because its scope
// has to wait.
const CauseHeldBack = outcome.CauseHeldBack

// Observe makes the calls of a scope wait if a response asks for a pause. Such a response has the
// status 429 or 503 and a Retry-After in its header h.
func (w *Waits) Observe(ctx context.Context, scope string, status int, h http.Header) {
	if w == nil || status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return
	}
	w.Extend(ctx, scope, RetryAfter(h, w.now()))
}

// Client returns a copy of c for the calls of one scope. The copy calls Observe with each response.
// While the scope has to wait, it sends no request and returns an error, which TransportError
// converts to a Throttled outcome.
func (w *Waits) Client(c *http.Client, scope string) *http.Client {
	limited := *c
	limited.Transport = refusingTransport{cmp.Or(c.Transport, http.DefaultTransport), w, scope}
	return &limited
}

type refusingTransport struct {
	next  http.RoundTripper
	waits *Waits
	scope string
}

func (t refusingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.waits.Check(r.Context(), t.scope); err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must close the body
		}
		return nil, err
	}
	resp, err := t.next.RoundTrip(r)
	if err == nil {
		t.waits.Observe(r.Context(), t.scope, resp.StatusCode, resp.Header)
	}
	return resp, err
}

// maxWait is the longest wait that RetryAfter returns. A longer wait is probably a mistake of the
// provider.
const maxWait = time.Hour

// RetryAfter returns the wait that the header Retry-After asks for. The header contains seconds or
// a date. RetryAfter returns 0 if there is no valid header, and at most an hour.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	wait := time.Duration(0)
	if seconds, err := strconv.Atoi(text); err == nil {
		// The seconds are limited before the multiplication, so that the product does not overflow.
		wait = time.Duration(max(0, min(seconds, int(maxWait/time.Second)))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return max(0, min(wait, maxWait))
}
