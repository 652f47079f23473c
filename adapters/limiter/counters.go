// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// counters holds the buckets of this process. All times are times of a monotonic clock. Unused
// buckets are removed in this way: each use of a bucket puts the bucket into current. At most once
// per longestWindow, previous is dropped and current becomes previous. A bucket that is dropped was
// therefore unused for at least its window.
type counters struct {
	clock func() time.Duration

	mu                sync.Mutex
	current, previous map[string]*ratelimit.Log
	rotatedAt         time.Duration
	longestWindow     time.Duration // the longest window of a bucket so far
}

func newCounters() *counters {
	start := time.Now()
	return &counters{clock: func() time.Duration { return time.Since(start) }, current: map[string]*ratelimit.Log{}}
}

// take counts a request that arrived at arrivedAt, a time of c.clock. token identifies the counted
// request for giveBack.
func (c *counters) take(b ratelimit.Bucket, arrivedAt time.Duration) (v ratelimit.Verdict, token time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.longestWindow = max(c.longestWindow, b.Window)
	if now-c.rotatedAt >= c.longestWindow {
		c.current, c.previous, c.rotatedAt = map[string]*ratelimit.Log{}, c.current, now
	}
	return c.bucketLog(b.Key).Take(b, now, arrivedAt)
}

func (c *counters) remaining(b ratelimit.Bucket) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bucketLog(b.Key).Remaining(b, c.clock())
}

func (c *counters) giveBack(b ratelimit.Bucket, token time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bucketLog(b.Key).GiveBack(token)
}

func (c *counters) bucketLog(key string) *ratelimit.Log {
	if l, ok := c.current[key]; ok {
		return l
	}
	l, ok := c.previous[key]
	if !ok {
		l = &ratelimit.Log{}
	}
	c.current[key] = l
	return l
}
