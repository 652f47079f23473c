// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
)

// plainLimiter is a correct limiter in memory.
type plainLimiter struct {
	mu          sync.Mutex
	logs        map[string]*ratelimit.Log
	usedSlots   map[string]int
	start       time.Time
	newestToken time.Duration // the token of the last allowed call of Take
}

func newPlainLimiter() *plainLimiter {
	return &plainLimiter{logs: map[string]*ratelimit.Log{}, usedSlots: map[string]int{}, start: time.Now()}
}

func (p *plainLimiter) Take(_ context.Context, bucket ratelimit.Bucket) (ratelimit.Verdict, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logs[bucket.Key] == nil {
		p.logs[bucket.Key] = &ratelimit.Log{}
	}
	now := time.Since(p.start)
	verdict, token := p.logs[bucket.Key].Take(bucket, now, now)
	if verdict.Allowed {
		p.newestToken = token
	}
	return verdict, sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if verdict.Allowed {
			p.logs[bucket.Key].GiveBack(token)
		}
	})
}

func (p *plainLimiter) Remaining(_ context.Context, b ratelimit.Bucket) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.logs[b.Key] == nil {
		return b.Limit
	}
	return p.logs[b.Key].Remaining(b, time.Since(p.start))
}

func (p *plainLimiter) Enter(_ context.Context, name string, slots int) (func(), bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usedSlots[name] >= slots {
		return func() {}, false
	}
	p.usedSlots[name]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.usedSlots[name]--
	}), true
}

// brokenLimiter is a plainLimiter with one method replaced. A nil field keeps the method.
type brokenLimiter struct {
	*plainLimiter
	take  func(*plainLimiter, context.Context, ratelimit.Bucket) (ratelimit.Verdict, func())
	enter func(*plainLimiter, string, int) (func(), bool)

	remaining func(*plainLimiter, ratelimit.Bucket) int
}

func (b brokenLimiter) Remaining(ctx context.Context, bucket ratelimit.Bucket) int {
	if b.remaining != nil {
		return b.remaining(b.plainLimiter, bucket)
	}
	return b.plainLimiter.Remaining(ctx, bucket)
}

func (b brokenLimiter) Take(ctx context.Context, bucket ratelimit.Bucket) (ratelimit.Verdict, func()) {
	if b.take != nil {
		return b.take(b.plainLimiter, ctx, bucket)
	}
	return b.plainLimiter.Take(ctx, bucket)
}

func (b brokenLimiter) Enter(ctx context.Context, name string, slots int) (func(), bool) {
	if b.enter != nil {
		return b.enter(b.plainLimiter, name, slots)
	}
	return b.plainLimiter.Enter(ctx, name, slots)
}

// TestLimiterSuiteDetectsBrokenPromises runs the suite on a correct limiter and on broken ones,
// with the fake clock of synctest.
func TestLimiterSuiteDetectsBrokenPromises(t *testing.T) {
	for _, check := range limiterChecks {
		t.Run(check.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check.run(t, newPlainLimiter()) })
		})
	}
	for name, broken := range map[string]brokenLimiter{
		"one request too many is allowed": {take: func(p *plainLimiter, ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
			b.Limit++
			return p.Take(ctx, b)
		}},
		"one bucket for all keys": {take: func(p *plainLimiter, ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
			b.Key = ""
			return p.Take(ctx, b)
		}},
		"a request is not given back": {take: func(p *plainLimiter, ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
			v, _ := p.Take(ctx, b)
			return v, func() {}
		}},
		"the newest request is given back": {take: func(p *plainLimiter, ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
			v, _ := p.Take(ctx, b)
			return v, sync.OnceFunc(func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.logs[b.Key].GiveBack(p.newestToken)
			})
		}},
		"a fixed window": {take: func(p *plainLimiter, ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
			b.Key += time.Now().Truncate(b.Window).String()
			return p.Take(ctx, b)
		}},
		"a cancelled take is not counted": {take: func(p *plainLimiter, ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
			v, giveBack := p.Take(ctx, b)
			if ctx.Err() != nil {
				giveBack()
			}
			return v, giveBack
		}},
		"the check and the count are not atomic": {take: func(p *plainLimiter, ctx context.Context, b ratelimit.Bucket) (ratelimit.Verdict, func()) {
			v, giveBack := p.Take(ctx, b)
			giveBack()
			<-time.After(time.Millisecond)
			b.Limit *= 100
			_, giveBack = p.Take(ctx, b)
			return v, giveBack
		}},
		"remaining counts a request": {remaining: func(p *plainLimiter, b ratelimit.Bucket) int {
			v, _ := p.Take(context.Background(), b)
			return v.Remaining
		}},
		"remaining is always the limit": {remaining: func(_ *plainLimiter, b ratelimit.Bucket) int { return b.Limit }},
		"one slot too many is allowed": {enter: func(p *plainLimiter, name string, slots int) (func(), bool) {
			return p.Enter(context.Background(), name, slots+1)
		}},
		"a slot is never released": {enter: func(p *plainLimiter, name string, slots int) (func(), bool) {
			_, ok := p.Enter(context.Background(), name, slots)
			return func() {}, ok
		}},
		"a slot is released twice": {enter: func(p *plainLimiter, name string, slots int) (func(), bool) {
			_, ok := p.Enter(context.Background(), name, slots)
			return func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				if ok {
					p.usedSlots[name]--
				}
			}, ok
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			detected := false
			synctest.Test(t, func(t *testing.T) {
				for _, check := range limiterChecks {
					broken.plainLimiter = newPlainLimiter()
					detected = detected || checkFails(t, func(t T) { check.run(t, broken) })
				}
			})
			if !detected {
				t.Fatal("the suite does not detect the broken promise")
			}
		})
	}
}
