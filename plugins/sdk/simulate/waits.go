// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// IgnoredRetryAfter is the Violation of a call that arrived too early: an earlier answer in its
// scope had a Retry-After, and that time was not over.
const IgnoredRetryAfter = "ignored_retry_after"

// inFlight is how long after an answer with Retry-After further calls are accepted: the client may
// have sent them before it had the answer.
const inFlight = 200 * time.Millisecond

// waits has the waits that answers asked for, by scope. After a restart of the simulator it is
// empty.
type waits struct {
	mu     sync.Mutex
	byName map[string]wait
}

// wait is a span of time in which no call may arrive.
type wait struct{ from, until time.Time }

// violation returns the violation of a call that arrives at now, or "".
func (w *waits) violation(scope string, now time.Time) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if current := w.byName[scope]; scope != "" && now.After(current.from) && now.Before(current.until) {
		return IgnoredRetryAfter
	}
	return ""
}

// observe stores the wait that an answer at now asks for: 429 or 503 with Retry-After in seconds.
func (w *waits) observe(scope string, status int, h http.Header, now time.Time) {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || scope == "" || status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byName == nil {
		w.byName = map[string]wait{}
	}
	next := wait{now.Add(inFlight), now.Add(time.Duration(seconds) * time.Second)}
	if before := w.byName[scope]; now.Before(before.until) { // an earlier wait is not over
		next.from = before.from
		if before.until.After(next.until) {
			next.until = before.until
		}
	}
	w.byName[scope] = next
}
