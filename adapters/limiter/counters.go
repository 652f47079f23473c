// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// counters are the buckets as this process knows them, by a clock that never
// goes back. Buckets that are not used are forgotten: the logs are in two
// generations, a used one moves to the young, and when the longest window is
// over the old are dropped, in which nothing counts any more.
type counters struct {
	clock func() time.Duration

	mu         sync.Mutex
	young, old map[string]*ratelimit.Log
	turned     time.Duration
	longest    time.Duration // window that was asked for
}

func newCounters() *counters {
	began := time.Now()
	return &counters{clock: func() time.Duration { return time.Since(began) }, young: map[string]*ratelimit.Log{}}
}

// take counts a request from since on.
func (c *counters) take(b ratelimit.Bucket, since time.Duration) (ratelimit.Verdict, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.longest = max(c.longest, b.Window)
	if now-c.turned >= c.longest {
		c.young, c.old, c.turned = map[string]*ratelimit.Log{}, c.young, now
	}
	return c.log(b.Key).Take(b, now, since)
}

func (c *counters) giveBack(b ratelimit.Bucket, token time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log(b.Key).GiveBack(token)
}

func (c *counters) log(key string) *ratelimit.Log {
	if l, ok := c.young[key]; ok {
		return l
	}
	l, ok := c.old[key]
	if !ok {
		l = &ratelimit.Log{}
	}
	c.young[key] = l
	return l
}

// places are who is inside of what in this process.
type places struct {
	mu    sync.Mutex
	taken map[string]int
}

func newPlaces() *places { return &places{taken: map[string]int{}} }

func (p *places) enter(name string, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[name] >= most {
		return false
	}
	p.taken[name]++
	return true
}

func (p *places) leave(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[name]--; p.taken[name] <= 0 {
		delete(p.taken, name)
	}
}
