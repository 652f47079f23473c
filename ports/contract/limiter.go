// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/core/ratelimit"
	"github.com/tenantry/tenantry/ports"
)

type limiterCheck struct {
	name string
	run  func(t T, l ports.Limiter)
}

// Limiter runs the contract suite of ports.Limiter. open returns an empty limiter.
func Limiter[R Runner[R]](t R, open func(R) ports.Limiter) {
	for _, check := range limiterChecks {
		t.Run(check.name, func(t R) { check.run(t, open(t)) })
	}
}

// newBucket returns a bucket with a window of one minute. Checks that use it must finish within the
// window.
func newBucket(key string, limit int) ratelimit.Bucket {
	return ratelimit.Bucket{Key: key, Limit: limit, Window: time.Minute}
}

func requireAllowed(t T, l ports.Limiter, b ratelimit.Bucket, remaining int) (giveBack func()) {
	t.Helper()
	verdict, giveBack := l.Take(t.Context(), b)
	if !verdict.Allowed || verdict.Limit != b.Limit || verdict.Remaining != remaining || verdict.ResetIn <= 0 || verdict.ResetIn > b.Window {
		t.Fatalf("the verdict is %+v, want the request allowed and %d remaining", verdict, remaining)
	}
	return giveBack
}

func requireLimited(t T, l ports.Limiter, b ratelimit.Bucket) {
	t.Helper()
	verdict, giveBack := l.Take(t.Context(), b)
	giveBack() // must do nothing
	if verdict.Allowed || verdict.Limit != b.Limit || verdict.Remaining != 0 || verdict.RetryIn <= 0 || verdict.RetryIn > b.Window || verdict.ResetIn <= 0 || verdict.ResetIn > verdict.RetryIn {
		t.Fatalf("the verdict is %+v, want the request refused", verdict)
	}
}

// timeTolerance is the largest allowed difference between a time that a limiter returns and the
// exact time.
const timeTolerance = 20 * time.Millisecond

// takeHistory records the calls of Take that a limiter allowed in one bucket. It stores when each
// call started and ended, so that its assertions are valid on a machine of any speed.
type takeHistory struct {
	limiter ports.Limiter
	bucket  ratelimit.Bucket

	began, ended []time.Time
}

// take calls Take once and fails the test if the verdict is wrong.
func (history *takeHistory) take(t T) ratelimit.Verdict {
	t.Helper()
	began := time.Now()
	verdict, _ := history.limiter.Take(t.Context(), history.bucket)
	ended := time.Now()
	// oldest is the index of the oldest of the last Limit allowed takes, negative if fewer were
	// allowed.
	oldest := len(history.began) - history.bucket.Limit
	if verdict.Allowed {
		history.began, history.ended = append(history.began, began), append(history.ended, ended)
		if oldest >= 0 && ended.Sub(history.began[oldest]) < history.bucket.Window {
			t.Fatalf("%d requests were allowed within %s, want at most %d", history.bucket.Limit+1, ended.Sub(history.began[oldest]), history.bucket.Limit)
		}
		return verdict
	}
	if oldest < 0 {
		t.Fatalf("request %d was refused, want the first %d allowed", len(history.began)+1, history.bucket.Limit)
	}
	if remaining := history.bucket.Window - began.Sub(history.ended[oldest]); verdict.RetryIn > remaining+timeTolerance {
		t.Fatalf("RetryIn of a refusal is %s, want at most %s", verdict.RetryIn, remaining+timeTolerance)
	}
	return verdict
}

var limiterChecks = []limiterCheck{
	{"exactly the limit is allowed", func(t T, limiter ports.Limiter) {
		bucket := newBucket("a", 3)
		for remaining := 2; remaining >= 0; remaining-- {
			requireAllowed(t, limiter, bucket, remaining)
		}
		requireLimited(t, limiter, bucket)
		requireLimited(t, limiter, bucket)
	}},
	{"Remaining returns the remaining number and counts no request", func(t T, limiter ports.Limiter) {
		bucket := newBucket("a", 2)
		for want := 2; want >= 0; want-- {
			for range 3 {
				if remaining := limiter.Remaining(t.Context(), bucket); remaining != want {
					t.Fatalf("Remaining returned %d, want %d", remaining, want)
				}
			}
			if want > 0 {
				requireAllowed(t, limiter, bucket, want-1)
			}
		}
		requireLimited(t, limiter, bucket)
	}},
	{"requests that leave the window no longer count", func(t T, limiter ports.Limiter) {
		bucket := ratelimit.Bucket{Key: "a", Limit: 1, Window: 200 * time.Millisecond}
		v, _ := limiter.Take(t.Context(), bucket)
		<-time.After(v.ResetIn + timeTolerance)
		if remaining := limiter.Remaining(t.Context(), bucket); remaining != 1 {
			t.Fatalf("Remaining returned %d after the window, want 1", remaining)
		}
	}},
	{"every key has its own bucket", func(t T, limiter ports.Limiter) {
		requireAllowed(t, limiter, newBucket("a", 1), 0)
		requireAllowed(t, limiter, newBucket("b", 1), 0)
		requireLimited(t, limiter, newBucket("a", 1))
	}},
	{"a take can be given back once", func(t T, limiter ports.Limiter) {
		bucket := newBucket("a", 2)
		giveBack := requireAllowed(t, limiter, bucket, 1)
		requireAllowed(t, limiter, bucket, 0)
		giveBack()
		giveBack()
		requireAllowed(t, limiter, bucket, 0)
		requireLimited(t, limiter, bucket)
	}},
	{"the window slides", func(t T, limiter ports.Limiter) {
		history := &takeHistory{limiter: limiter, bucket: ratelimit.Bucket{Key: "a", Limit: 2, Window: 400 * time.Millisecond}}
		history.take(t)
		<-time.After(history.bucket.Window / 2)
		history.take(t)
		if v := history.take(t); !v.Allowed {
			<-time.After(v.RetryIn)
			if v := history.take(t); !v.Allowed {
				t.Fatalf("the verdict after waiting for RetryIn is %+v, want the request allowed", v)
			}
		}
		history.take(t)
	}},
	{"giving back a take removes this take, not the newest", func(t T, limiter ports.Limiter) {
		bucket := newBucket("a", 2)
		giveBack := requireAllowed(t, limiter, bucket, 1)
		<-time.After(200 * time.Millisecond)
		beforeSecondTake := time.Now()
		requireAllowed(t, limiter, bucket, 0)
		giveBack()
		v, _ := limiter.Take(t.Context(), bucket)
		if !v.Allowed || v.ResetIn < bucket.Window-time.Since(beforeSecondTake)-timeTolerance {
			t.Fatalf("the verdict is %+v, want the request allowed, and ResetIn counted from the take that remains", v)
		}
	}},
	{"no window exceeds the limit, whatever the arrival times", func(t T, limiter ports.Limiter) {
		history := &takeHistory{limiter: limiter, bucket: ratelimit.Bucket{Key: "a", Limit: 5, Window: 100 * time.Millisecond}}
		for end := time.Now().Add(6 * history.bucket.Window); time.Now().Before(end); {
			history.take(t)
			<-time.After(time.Duration(rand.IntN(10)) * time.Millisecond)
		}
	}},
	{"exactly the limit is allowed among concurrent takes", func(t T, limiter ports.Limiter) {
		bucket := newBucket("a", 12)
		var allowed atomic.Int64
		Concurrently(200, func(int) error {
			if v, _ := limiter.Take(t.Context(), bucket); v.Allowed {
				allowed.Add(1)
			}
			return nil
		})
		if allowed.Load() != 12 {
			t.Fatalf("%d concurrent requests were allowed, want 12", allowed.Load())
		}
	}},
	{"a take with a cancelled context is counted", func(t T, limiter ports.Limiter) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if v, _ := limiter.Take(cancelled, newBucket("a", 1)); !v.Allowed {
			t.Fatal("the request with a cancelled context was refused, want it allowed and counted")
		}
		requireLimited(t, limiter, newBucket("a", 1))
	}},
	{"slots can be taken and released", func(t T, limiter ports.Limiter) {
		enter := func(name string, want bool) func() {
			t.Helper()
			leave, ok := limiter.Enter(t.Context(), name, 2)
			if ok != want {
				t.Fatalf("Enter for %s returned ok %v, want %v", name, ok, want)
			}
			return leave
		}
		leave := enter("a", true)
		enter("a", true)
		enter("a", false)() // must do nothing
		enter("b", true)
		leave()
		leave()
		enter("a", true)
		enter("a", false)
	}},
	{"as many concurrent entries succeed as there are slots", func(t T, limiter ports.Limiter) {
		for round := range 5 {
			var enteredCount atomic.Int64
			Concurrently(50, func(int) error {
				if _, ok := limiter.Enter(t.Context(), fmt.Sprint("a", round), 4); ok {
					enteredCount.Add(1)
				}
				return nil
			})
			if enteredCount.Load() != 4 {
				t.Fatalf("%d concurrent entries succeeded, want 4", enteredCount.Load())
			}
		}
	}},
}
