// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// IgnoredRetryAfter is the Violation of a call that arrived during a wait. The wait began with an
// earlier answer in the call's scope that had a Retry-After.
const IgnoredRetryAfter = "ignored_retry_after"

// gracePeriod is the time at the start of a wait in which calls are not violations, because the
// client may have sent them before it received the answer.
const gracePeriod = 200 * time.Millisecond

// waits has the waits that answers have asked for, keyed by scope. It is empty after a restart of
// the simulator.
type waits struct {
	mu      sync.Mutex
	byScope map[string]wait
}

// wait is a period in which each call of the scope is a violation.
type wait struct{ from, until time.Time }

// violation returns the violation of a call that arrives at now, or "".
func (w *waits) violation(scope string, now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current := w.byScope[scope]; scope != "" && now.After(current.from) && now.Before(current.until) {
		return IgnoredRetryAfter
	}
	return ""
}

// observe stores the wait that an answer at the time now asks for. Only answers with 429 or 503 and
// a Retry-After in seconds ask for a wait.
func (w *waits) observe(scope string, status int, h http.Header, now time.Time) {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || scope == "" || status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byScope == nil {
		w.byScope = map[string]wait{}
	}
	next := wait{now.Add(gracePeriod), now.Add(time.Duration(seconds) * time.Second)}
	if previous := w.byScope[scope]; now.Before(previous.until) { // an earlier wait is not over
		next.from = previous.from
		if previous.until.After(next.until) {
			next.until = previous.until
		}
	}
	w.byScope[scope] = next
}
