// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// plans are the published limits of a key per minute, hour and second. The limits of the plan
// enterprise are individual; here it has none.
var plans = map[string][]quota{
	"standard":   {{60, time.Minute}, {1000, time.Hour}, {10, time.Second}},
	"pro":        {{120, time.Minute}, {3000, time.Hour}, {20, time.Second}},
	"enterprise": nil,
}

type quota struct {
	calls  int
	window time.Duration
}

// rateLimiter counts the calls of each key in sliding windows.
type rateLimiter struct {
	now   func() time.Time
	mu    sync.Mutex
	calls map[string][]time.Time
}

// allow counts one call and returns true, or answers 429 and returns false when the call exceeds a
// limit.
func (l *rateLimiter) allow(w http.ResponseWriter, key, plan string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[string][]time.Time{}
	}
	now := l.now()
	recent := l.calls[key]
	for len(recent) > 0 && now.Sub(recent[0]) >= time.Hour {
		recent = recent[1:]
	}
	var wait time.Duration
	for i, q := range plans[plan] {
		used, oldest := 0, now
		for _, at := range recent {
			if now.Sub(at) < q.window {
				if used++; used == 1 {
					oldest = at
				}
			}
		}
		reset := q.window - now.Sub(oldest)
		if used >= q.calls {
			wait = max(wait, reset)
		}
		if i == 0 { // the headers show the limit per minute
			h := w.Header()
			h.Set("X-RateLimit-Limit", strconv.Itoa(q.calls))
			h.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, q.calls-used-1)))
			h.Set("X-RateLimit-Reset", strconv.FormatInt(now.Add(reset).Unix(), 10))
		}
	}
	if wait > 0 {
		l.calls[key] = recent
		tooMany(w, int((wait+time.Second-1)/time.Second))
		return false
	}
	l.calls[key] = append(recent, now)
	return true
}
