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

// rounding is how far a limiter's times may be from the exact ones.
const rounding = 20 * time.Millisecond

// history is what a limiter allowed in one bucket. It tells right answers from
// wrong ones on a machine of any speed: each take happened between two times
// that are known.
type history struct {
	l ports.Limiter
	b ratelimit.Bucket

	began, ended []time.Time // of the takes that were allowed
}

// take asks the limiter once, and fails the test if the answer is wrong.
func (h *history) take(t testing.TB) ratelimit.Verdict {
	t.Helper()
	began := time.Now()
	v, _ := h.l.Take(t.Context(), h.b)
	ended := time.Now()
	oldest := len(h.began) - h.b.Limit // of a full window
	if v.Allowed {
		h.began, h.ended = append(h.began, began), append(h.ended, ended)
		if oldest >= 0 && ended.Sub(h.began[oldest]) < h.b.Window {
			t.Fatalf("%d takes were allowed within %s, want %d", h.b.Limit+1, ended.Sub(h.began[oldest]), h.b.Limit)
		}
		return v
	}
	if oldest < 0 {
		t.Fatalf("take %d of %d was refused", len(h.began)+1, h.b.Limit)
	}
	if left := h.b.Window - began.Sub(h.ended[oldest]); v.RetryIn > left+rounding {
		t.Fatalf("a refusal says to wait %s, want at most %s", v.RetryIn, left)
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
		h := &history{l: l, b: ratelimit.Bucket{Key: "a", Limit: 2, Window: 400 * time.Millisecond}}
		h.take(t)
		<-time.After(h.b.Window / 2)
		h.take(t)
		if v := h.take(t); !v.Allowed {
			<-time.After(v.RetryIn)
			if v := h.take(t); !v.Allowed {
				t.Fatalf("%+v, want it allowed after the wait that the refusal named", v)
			}
		}
		h.take(t)
	}},
	{"the one that is given back is the one that was taken", func(t testing.TB, l ports.Limiter) {
		b := bucketOf("a", 2)
		giveBack := taken(t, l, b, 1)
		<-time.After(200 * time.Millisecond)
		second := time.Now()
		taken(t, l, b, 0)
		giveBack()
		v, _ := l.Take(t.Context(), b)
		if !v.Allowed || v.ResetIn < b.Window-time.Since(second)-rounding {
			t.Fatalf("%+v, want it allowed and counted from the second take", v)
		}
	}},
	{"no window holds more, however they come", func(t testing.TB, l ports.Limiter) {
		h := &history{l: l, b: ratelimit.Bucket{Key: "a", Limit: 5, Window: 100 * time.Millisecond}}
		for end := time.Now().Add(6 * h.b.Window); time.Now().Before(end); {
			h.take(t)
			<-time.After(time.Duration(rand.IntN(10)) * time.Millisecond)
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
