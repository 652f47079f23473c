// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
)

// limiterCheck is one promise of ports.Limiter. Its names are its own.
type limiterCheck struct {
	name string
	run  func(t testing.TB, l ports.Limiter)
}

// Limiter runs the contract of ports.Limiter. open returns one that nothing
// was counted in.
func Limiter(t *testing.T, open func(testing.TB) ports.Limiter) {
	for _, c := range limiterChecks {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

// bucketOf is long enough for a check that has to be over before its window.
func bucketOf(key string, limit int) ratelimit.Bucket {
	return ratelimit.Bucket{Key: key, Limit: limit, Window: time.Minute}
}

func taken(t testing.TB, l ports.Limiter, b ratelimit.Bucket, remaining int) (giveBack func()) {
	t.Helper()
	v, giveBack := l.Take(t.Context(), b)
	if !v.Allowed || v.Limit != b.Limit || v.Remaining != remaining || v.ResetIn <= 0 || v.ResetIn > b.Window {
		t.Fatalf("%+v, want it allowed and %d remaining", v, remaining)
	}
	return giveBack
}

func full(t testing.TB, l ports.Limiter, b ratelimit.Bucket) ratelimit.Verdict {
	t.Helper()
	v, giveBack := l.Take(t.Context(), b)
	giveBack() // does nothing
	if v.Allowed || v.Limit != b.Limit || v.Remaining != 0 || v.RetryIn <= 0 || v.RetryIn > b.Window || v.ResetIn <= 0 || v.ResetIn > v.RetryIn {
		t.Fatalf("%+v, want it refused", v)
	}
	return v
}

var limiterChecks = []limiterCheck{
	{"as many as the limit, and no more", func(t testing.TB, l ports.Limiter) {
		b := bucketOf("a", 3)
		for remaining := 2; remaining >= 0; remaining-- {
			taken(t, l, b, remaining)
		}
		full(t, l, b)
		full(t, l, b)
	}},
	{"every key has its own", func(t testing.TB, l ports.Limiter) {
		taken(t, l, bucketOf("a", 1), 0)
		taken(t, l, bucketOf("b", 1), 0)
		full(t, l, bucketOf("a", 1))
	}},
	{"what is given back is free, once", func(t testing.TB, l ports.Limiter) {
		b := bucketOf("a", 2)
		giveBack := taken(t, l, b, 1)
		taken(t, l, b, 0)
		giveBack()
		giveBack()
		taken(t, l, b, 0)
		full(t, l, b)
	}},
	{"the window slides", func(t testing.TB, l ports.Limiter) {
		b := ratelimit.Bucket{Key: "a", Limit: 2, Window: 400 * time.Millisecond}
		taken(t, l, b, 1)
		first := time.Now()
		<-time.After(b.Window / 2)
		taken(t, l, b, 0)
		wait := full(t, l, b).RetryIn
		if left := b.Window - time.Since(first); wait > left+20*time.Millisecond {
			t.Fatalf("wait %s, where the first leaves in %s", wait, left)
		}
		<-time.After(wait)
		taken(t, l, b, 0)
		full(t, l, b)
	}},
	{"the one that is given back is the one that was taken", func(t testing.TB, l ports.Limiter) {
		b := ratelimit.Bucket{Key: "a", Limit: 2, Window: 400 * time.Millisecond}
		giveBack := taken(t, l, b, 1)
		<-time.After(b.Window / 2)
		taken(t, l, b, 0)
		giveBack()
		v, _ := l.Take(t.Context(), b)
		if !v.Allowed || v.ResetIn < b.Window/4 {
			t.Fatalf("%+v, though the older one was given back", v)
		}
	}},
	{"no window holds more, however they come", func(t testing.TB, l ports.Limiter) {
		b := ratelimit.Bucket{Key: "a", Limit: 5, Window: 100 * time.Millisecond}
		var began, ended []time.Time // of those that were allowed
		for end := time.Now().Add(6 * b.Window); time.Now().Before(end); {
			asked := time.Now()
			if v, _ := l.Take(t.Context(), b); v.Allowed {
				began, ended = append(began, asked), append(ended, time.Now())
			}
			<-time.After(time.Duration(rand.IntN(10)) * time.Millisecond)
		}
		for i := b.Limit; i < len(began); i++ {
			if span := ended[i].Sub(began[i-b.Limit]); span < b.Window {
				t.Fatalf("%d were allowed in %s", b.Limit+1, span)
			}
		}
		if len(began) < 4*b.Limit {
			t.Fatalf("only %d were allowed", len(began))
		}
	}},
	{"of many at once the limit is allowed", func(t testing.TB, l ports.Limiter) {
		b := bucketOf("a", 12)
		var allowed atomic.Int64
		atOnce(200, func(int) error {
			if v, _ := l.Take(t.Context(), b); v.Allowed {
				allowed.Add(1)
			}
			return nil
		})
		if allowed.Load() != 12 {
			t.Fatalf("%d were allowed", allowed.Load())
		}
	}},
	{"who goes away has been counted", func(t testing.TB, l ports.Limiter) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if v, _ := l.Take(gone, bucketOf("a", 1)); !v.Allowed {
			t.Fatal("refused")
		}
		full(t, l, bucketOf("a", 1))
	}},
	{"places are taken and left", func(t testing.TB, l ports.Limiter) {
		enter := func(name string, want bool) func() {
			t.Helper()
			leave, ok := l.Enter(t.Context(), name, 2)
			if ok != want {
				t.Fatalf("%s: entered is %v, want %v", name, ok, want)
			}
			return leave
		}
		leave := enter("a", true)
		enter("a", true)
		enter("a", false)() // does nothing
		enter("b", true)
		leave()
		leave()
		enter("a", true)
		enter("a", false)
	}},
	{"of many at once as many enter as there are places", func(t testing.TB, l ports.Limiter) {
		for round := range 5 {
			var in atomic.Int64
			atOnce(50, func(int) error {
				if _, ok := l.Enter(t.Context(), fmt.Sprint("a", round), 4); ok {
					in.Add(1)
				}
				return nil
			})
			if in.Load() != 4 {
				t.Fatalf("%d entered", in.Load())
			}
		}
	}},
}
