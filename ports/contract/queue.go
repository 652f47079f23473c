// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// What an adapter is opened with for its contract: promises that are made in
// minutes are kept in seconds then.
const (
	QueueDeadline = time.Second            // of a handler
	QueueRescue   = 2 * time.Second        // from a process that is gone
	QueuePause    = 200 * time.Millisecond // after a handler's first failure
	QueueAtOnce   = 8                      // handlers of a process
)

// soon is how long a check waits for an event. Only a hang reaches it.
const soon = 4 * time.Minute

// queueCheck is one promise of ports.Worker. open gives one more replica that
// shares what the queue stores.
type queueCheck struct {
	name string
	run  func(t testing.TB, open func() ports.Worker)
}

// Queue runs the contract of ports.Worker and ports.Queue. place makes a new,
// empty one each time; what it opens is closed when the test ends.
func Queue(t *testing.T, place func(testing.TB) func() ports.Worker) {
	for _, c := range queueChecks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, place(t))
		})
	}
}

// QueueWithFakeTime runs the same contract with the fake clock of synctest. It
// is for a queue that uses no process and no connection.
func QueueWithFakeTime(t *testing.T, place func(testing.TB) func() ports.Worker) {
	for _, c := range queueChecks() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, place(t)) })
		})
	}
}

func queueChecks() []queueCheck {
	return slices.Concat(queueWakes, queueFailures, queueShares, queueStops, queueSweeps, queueBacklogs)
}

// ear is a handler that tells the check what it heard.
type ear struct {
	heard chan ports.Wakeup
	mu    sync.Mutex
	count map[string]int // by id
}

func newEar() *ear { return &ear{heard: make(chan ports.Wakeup, 20_000), count: map[string]int{}} }

func (e *ear) hear(_ context.Context, w ports.Wakeup) error {
	e.mu.Lock()
	e.count[w.ID]++
	e.mu.Unlock()
	e.heard <- w
	return nil
}

func (e *ear) times(id string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count[id]
}

// next is the next wake-up.
func (e *ear) next(t testing.TB) ports.Wakeup {
	t.Helper()
	return within(t, soon, e.heard, "a wake-up")
}

func (e *ear) id(t testing.TB, id string) ports.Wakeup {
	t.Helper()
	w := e.next(t)
	if w.ID != id {
		t.Fatalf("%q was woken, want %q", w.ID, id)
	}
	return w
}

// silent fails on a wake-up that comes although it should not. A slow machine
// can only make it pass.
func (e *ear) silent(t testing.TB, during time.Duration) {
	t.Helper()
	select {
	case w := <-e.heard:
		t.Fatalf("%q was woken", w.ID)
	case <-time.After(during):
	}
}

func within[T any](t testing.TB, limit time.Duration, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		t.Fatalf("%s did not come within %s", what, limit)
		panic("unreachable")
	}
}

func start(t testing.TB, w ports.Worker, handlers map[string]ports.Handler, periodic ...ports.Periodic) {
	t.Helper()
	if err := w.Start(t.Context(), ports.Work{Handlers: handlers, Periodic: periodic}); err != nil {
		t.Fatalf("start: %v", err)
	}
}

func wake(t testing.TB, q ports.Queue, wakeups ...ports.Wakeup) {
	t.Helper()
	if err := q.Wake(t.Context(), wakeups...); err != nil {
		t.Fatalf("wake: %v", err)
	}
}

func heardBy(e *ear) map[string]ports.Handler { return map[string]ports.Handler{"job": e.hear} }

// link is a traceparent.
const link = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var queueWakes = []queueCheck{
	{"at its time, as it was asked for", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		start(t, w, heardBy(e))
		asked := ports.Wakeup{Kind: "job", ID: "1", Account: "ann", At: time.Now().Add(800 * time.Millisecond), Trace: link}
		wake(t, w, asked)
		got := e.next(t)
		if early := time.Until(asked.At); early > 0 {
			t.Fatalf("it came %s early", early)
		}
		if got.Kind != asked.Kind || got.ID != asked.ID || got.Account != asked.Account || got.Trace != asked.Trace {
			t.Fatalf("%+v, want %+v", got, asked)
		}
	}},
	{"at once what has no time or a past one", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		start(t, w, heardBy(e))
		wake(t, w, ports.Wakeup{Kind: "job", ID: "none"})
		e.id(t, "none")
		wake(t, w, ports.Wakeup{Kind: "job", ID: "past", At: time.Now().Add(-time.Hour)})
		e.id(t, "past")
	}},
	{"what was asked for before the start", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		start(t, w, heardBy(e))
		e.id(t, "1")
	}},
	{"by the handler of its kind", func(t testing.TB, open func() ports.Worker) {
		w, one, other := open(), newEar(), newEar()
		start(t, w, map[string]ports.Handler{"job": one.hear, "other": other.hear})
		wake(t, w, ports.Wakeup{Kind: "other", ID: "1"}, ports.Wakeup{Kind: "job", ID: "1"}, ports.Wakeup{Kind: "stranger", ID: "1"})
		if a, b := one.next(t), other.next(t); a.Kind != "job" || b.Kind != "other" {
			t.Fatalf("%q and %q", a.Kind, b.Kind)
		}
	}},
	{"many that are asked for at once", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		start(t, w, heardBy(e))
		for _, err := range atOnce(200, func(i int) error {
			return w.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: fmt.Sprint(i)})
		}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]bool{}
		for len(seen) < 200 {
			seen[e.next(t).ID] = true
		}
	}},
	{"doubles do not pile up", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		for range 50 {
			wake(t, w, ports.Wakeup{Kind: "job", ID: "1"}, ports.Wakeup{Kind: "job", ID: "1"})
			wake(t, w, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(300 * time.Millisecond)})
		}
		start(t, w, heardBy(e))
		wake(t, w, ports.Wakeup{Kind: "job", ID: "last", At: time.Now().Add(time.Second)})
		for seen := map[string]bool{}; !seen["1"] || !seen["last"]; {
			seen[e.next(t).ID] = true
		}
		if n := e.times("1"); n > 2 {
			t.Fatalf("150 wake-ups of a job that waited came as %d, want 1 or 2", n)
		}
	}},
	{"the earlier one counts", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		start(t, w, heardBy(e))
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(48 * time.Hour)})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(time.Hour)})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		e.id(t, "1")
	}},
	{"again for a job whose handler runs", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		begun, release := make(chan bool, 10), make(chan bool)
		start(t, w, map[string]ports.Handler{"job": func(ctx context.Context, w ports.Wakeup) error {
			begun <- true
			<-release
			return e.hear(ctx, w)
		}})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		within(t, soon, begun, "the handler")
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1"})
		close(release)
		e.id(t, "1")
		e.id(t, "1")
		e.silent(t, 500*time.Millisecond)
	}},
	{"later, where a handler asks for that, and for the same cause", func(t testing.TB, open func() ports.Worker) {
		w, e := open(), newEar()
		asked := make(chan time.Time, 10)
		start(t, w, map[string]ports.Handler{"job": func(ctx context.Context, got ports.Wakeup) error {
			if len(asked) == 0 {
				at := time.Now().Add(700 * time.Millisecond)
				asked <- at
				if err := w.Wake(ctx, ports.Wakeup{Kind: "job", ID: "1", At: at}); err != nil {
					return err
				}
			}
			return e.hear(ctx, got)
		}})
		wake(t, w, ports.Wakeup{Kind: "job", ID: "1", Trace: link})
		e.id(t, "1")
		again := e.id(t, "1")
		if early := time.Until(<-asked); early > 0 {
			t.Fatalf("it came %s early", early)
		}
		if again.Trace != link {
			t.Fatalf("caused by %q, want %q", again.Trace, link)
		}
	}},
	{"not for one who went away", func(t testing.TB, open func() ports.Worker) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := open().Wake(gone, ports.Wakeup{Kind: "job", ID: "1"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want %v", err, context.Canceled)
		}
	}},
}
