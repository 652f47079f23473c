// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

var errBroken = errors.New("broken")

// QueuePeriodic starts replicas of one queue with the same periodic work, and
// waits until it ran that many times. It ran too often if it ran more than once
// for each start and once for each second that began since. A slow machine
// can only make it run less often.
func QueuePeriodic(t testing.TB, runs int, replicas ...ports.Worker) {
	t.Helper()
	const every = time.Second
	came := make(chan time.Time, 1000)
	began := time.Now()
	for _, w := range replicas {
		start(t, w, nil, ports.Periodic{Kind: "sweep", Every: every, Do: func(context.Context) error {
			came <- time.Now()
			return nil
		}})
	}
	for n := range runs {
		at := within(t, soon, came, "periodic work")
		seconds := int(at.Truncate(every).Sub(began.Truncate(every)) / every)
		if most := len(replicas) + seconds; n+1 > most {
			t.Fatalf("periodic work ran %d times in %s, want at most %d", n+1, at.Sub(began), most)
		}
	}
}

var queueFailures = []queueCheck{
	{"an error and a panic come again, after pauses", func(t testing.TB, open func() ports.Worker) {
		w := open()
		tries := make(chan time.Time, 10)
		start(t, w, map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error {
			tries <- time.Now()
			switch len(tries) {
			case 1:
				return errBroken
			case 2:
				panic(errBroken)
			default:
				return nil
			}
		}})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		for end := time.After(soon); len(tries) < 3; {
			select {
			case <-end:
				t.Fatalf("there were %d tries", len(tries))
			case <-time.After(10 * time.Millisecond):
			}
		}
		before := <-tries
		for range 2 {
			try := <-tries
			if pause := try.Sub(before); pause < QueuePause*9/10 {
				t.Fatalf("it came again after %s", pause)
			}
			before = try
		}
	}},
	{"a failure of one job is none of another", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		start(t, w, map[string]ports.Handler{"job": e.hear, "bad": func(context.Context, ports.Wakeup) error { panic(errBroken) }})
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			wake(t, w, ports.Wakeup{Kind: "bad", ID: id})
		}
		wake(t, w, ports.Wakeup{Kind: "job", ID: "good"})
		e.id(t, "good")
	}},
	{"a handler has a deadline, after which its job comes again", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		var tries atomic.Int32
		limit := make(chan time.Duration, 1)
		start(t, w, map[string]ports.Handler{"job": func(ctx context.Context, w ports.Wakeup) error {
			if tries.Add(1) > 1 {
				return e.hear(ctx, w)
			}
			end, ok := ctx.Deadline()
			if !ok {
				end = time.Now().Add(time.Hour)
			}
			limit <- time.Until(end)
			<-ctx.Done()
			return ctx.Err()
		}})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		if left := within(t, soon, limit, "the handler"); left > QueueDeadline {
			t.Fatalf("it has %s", left)
		}
		e.id(t, "1")
	}},
	{"periodic work comes at the start and again, whatever becomes of it", func(t testing.TB, open func() ports.Worker) {
		w := open()
		came := make(chan time.Time, 100)
		var n atomic.Int32
		start(t, w, nil, ports.Periodic{Kind: "sweep", Every: 400 * time.Millisecond, Do: func(context.Context) error {
			came <- time.Now()
			switch n.Add(1) {
			case 2:
				return errBroken
			case 3:
				panic(errBroken)
			default:
				return nil
			}
		}})
		for range 6 {
			within(t, soon, came, "periodic work")
		}
	}},
	{"periodic work does not come more often than it should", func(t testing.TB, open func() ports.Worker) {
		QueuePeriodic(t, 4, open())
	}},
	{"a kind has one handler", func(t testing.TB, open func() ports.Worker) {
		err := open().Start(t.Context(), ports.Work{
			Handlers: heardBy(newEar()),
			Periodic: []ports.Periodic{{Kind: "job", Every: time.Second, Do: func(context.Context) error { return nil }}},
		})
		if err == nil {
			t.Fatal("two were taken")
		}
	}},
}
