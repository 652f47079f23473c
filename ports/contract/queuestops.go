// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// stop stops a worker, and fails the test if Stop does not return.
func stop(t testing.TB, w ports.Worker, limit time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Stop(ctx) }()
	return within(t, limit+soon, ended, "the end of Stop")
}

var queueStops = []queueCheck{
	{"a stop waits for handlers and begins nothing", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		begun, release := make(chan bool, 10), make(chan bool)
		start(t, w, map[string]ports.Handler{"job": e.hear, "long": func(ctx context.Context, w ports.Wakeup) error {
			begun <- true
			<-release
			if errors.Is(ctx.Err(), context.Canceled) { // by Stop, not by its deadline
				return ctx.Err()
			}
			return e.hear(ctx, w)
		}})
		wake(t, w, ports.Wakeup{Kind: "long", ID: "1"})
		within(t, soon, begun, "the handler")
		time.AfterFunc(300*time.Millisecond, func() { close(release) })
		if err := stop(t, w, soon); err != nil {
			t.Fatal(err)
		}
		e.id(t, "1")
		wake(t, w, ports.Wakeup{Kind: "job", ID: "2"})
		e.silent(t, 500*time.Millisecond)
	}},
	{"a stop hands back what it cuts", func(t testing.TB, open func() ports.Worker) {
		rows := newRows(t, "1")
		begun := make(chan bool, 10)
		w := open()
		start(t, w, map[string]ports.Handler{"job": func(ctx context.Context, _ ports.Wakeup) error {
			begun <- true
			<-ctx.Done()
			return ctx.Err()
		}})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		within(t, soon, begun, "the handler")
		// An error says that the handler ended late. Its job comes again too.
		_ = stop(t, w, QueueDeadline/2)
		after, e := open(), newEar()
		start(t, after, heardBy(e), rows.sweep(after))
		e.id(t, "1")
	}},
	{"a stop is over though a handler is not", func(t testing.TB, open func() ports.Worker) {
		w := open()
		begun, release := make(chan bool, 10), make(chan bool)
		defer close(release)
		start(t, w, map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error {
			begun <- true
			<-release
			return nil
		}})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		within(t, soon, begun, "the handler")
		if err := stop(t, w, time.Second); err == nil {
			t.Fatal("Stop returned no error, though a handler did not end")
		}
	}},
}

var queueSweeps = []queueCheck{
	{"a lost wake-up is found by the sweep", func(t testing.TB, open func() ports.Worker) {
		w, e, rows := open(), newEar(), newRows(t, "lost")
		start(t, w, heardBy(e), rows.sweep(w))
		e.id(t, "lost")
	}},
	{"a worker that is late cannot save", func(t testing.TB, open func() ports.Worker) {
		w, rows := open(), newRows(t, "1")
		late, saved := make(chan error, 10), make(chan error, 10)
		paused, other := make(chan bool, 10), make(chan bool)
		release := sync.OnceFunc(func() { close(other) })
		defer release()
		step := func(context.Context, ports.Wakeup) error {
			epoch, ok, err := rows.Take("1")
			switch {
			case err != nil || !ok:
				return err
			case epoch == 1: // and then it is as if time stood still
				paused <- true
				<-other
				late <- rows.Save("1", epoch)
			default:
				saved <- rows.Save("1", epoch)
			}
			return nil
		}
		// Both know the sweep: a worker that did not would put it off for a minute.
		start(t, w, map[string]ports.Handler{"job": step}, rows.sweep(w))
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		within(t, soon, paused, "the worker")
		second := open()
		start(t, second, map[string]ports.Handler{"job": step}, rows.sweep(second))
		if err := within(t, soon, saved, "the second worker"); err != nil {
			t.Fatal(err)
		}
		release()
		if err := within(t, soon, late, "the first worker"); err == nil {
			t.Fatal("the late one saved over the other")
		}
	}},
}
