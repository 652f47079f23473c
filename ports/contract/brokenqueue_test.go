// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/ports"
)

// brokenQueue is the one of a process but for one promise: a nil field keeps
// its behaviour. It is made anew for each worker.
type brokenQueue struct {
	ports.Worker
	options func(*queue.Options)
	wake    func(ports.Wakeup) []ports.Wakeup
	anyway  bool // Wake does not look at its context
	handle  func(ports.Handler) ports.Handler
	start   func(ports.Worker, context.Context, ports.Work) error
	stop    func(ports.Worker, context.Context) error
	backlog func([]ports.Backlog) []ports.Backlog
}

func (b *brokenQueue) Backlog(ctx context.Context) ([]ports.Backlog, error) {
	all, err := b.Worker.Backlog(ctx)
	if b.backlog != nil {
		all = b.backlog(all)
	}
	return all, err
}

func (b *brokenQueue) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	if b.anyway {
		ctx = context.WithoutCancel(ctx)
	}
	if b.wake == nil {
		return b.Worker.Wake(ctx, wakeups...)
	}
	var all []ports.Wakeup
	for _, w := range wakeups {
		all = append(all, b.wake(w)...)
	}
	return b.Worker.Wake(ctx, all...)
}

func (b *brokenQueue) Start(ctx context.Context, w ports.Work) error {
	w.Handlers = maps.Clone(w.Handlers)
	for kind, handler := range w.Handlers {
		if b.handle != nil {
			w.Handlers[kind] = b.handle(handler)
		}
	}
	if b.start != nil {
		return b.start(b.Worker, ctx, w)
	}
	return b.Worker.Start(ctx, w)
}

func (b *brokenQueue) Stop(ctx context.Context) error {
	if b.stop != nil {
		return b.stop(b.Worker, ctx)
	}
	return b.Worker.Stop(ctx)
}

// each changes every wake-up.
func each(change func(*ports.Wakeup)) func(ports.Wakeup) []ports.Wakeup {
	return func(w ports.Wakeup) []ports.Wakeup {
		change(&w)
		return []ports.Wakeup{w}
	}
}

// only lets some wake-ups pass.
func only(passes func(ports.Wakeup) bool) func(ports.Wakeup) []ports.Wakeup {
	return func(w ports.Wakeup) []ports.Wakeup {
		if passes(w) {
			return []ports.Wakeup{w}
		}
		return nil
	}
}

// withoutPeriodic never comes back to what is periodic.
func withoutPeriodic(w ports.Worker, ctx context.Context, all ports.Work) error {
	return w.Start(ctx, ports.Work{Handlers: all.Handlers})
}

// oncePerJob takes a job's first wake-up only.
func oncePerJob() brokenQueue {
	var mu sync.Mutex
	seen := map[string]bool{}
	return brokenQueue{wake: only(func(w ports.Wakeup) bool {
		mu.Lock()
		defer mu.Unlock()
		again := seen[w.ID]
		seen[w.ID] = true
		return !again
	})}
}

// disguised shows the queue another wake-up than its handler sees.
func disguised(disguise func(n int, w *ports.Wakeup)) brokenQueue {
	var mu sync.Mutex
	real := map[string]ports.Wakeup{}
	return brokenQueue{
		wake: each(func(w *ports.Wakeup) {
			mu.Lock()
			defer mu.Unlock()
			was := *w
			disguise(len(real), w)
			real[w.Kind+w.ID] = was
		}),
		handle: func(h ports.Handler) ports.Handler {
			return func(ctx context.Context, w ports.Wakeup) error {
				mu.Lock()
				w = real[w.Kind+w.ID]
				mu.Unlock()
				return h(ctx, w)
			}
		},
	}
}

var brokenQueues = []struct {
	name, check string
	make        func() brokenQueue
}{
	{"early", "at its time, as it was asked for", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.At = time.Time{} })}
	}},
	{"forgets the cause", "at its time, as it was asked for", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.Trace = "" })}
	}},
	{"forgets the account", "at its time, as it was asked for", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.Account = "" })}
	}},
	{"waits for a time", "at once what has no time or a past one", func() brokenQueue {
		return brokenQueue{wake: only(func(w ports.Wakeup) bool { return !w.At.IsZero() })}
	}},
	{"forgets the past", "at once what has no time or a past one", func() brokenQueue {
		return brokenQueue{wake: only(func(w ports.Wakeup) bool { return w.At.IsZero() || w.At.After(time.Now()) })}
	}},
	{"hears nothing before the start", "what was asked for before the start", func() brokenQueue {
		var started atomic.Bool
		return brokenQueue{
			wake: only(func(ports.Wakeup) bool { return started.Load() }),
			start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
				started.Store(true)
				return w.Start(ctx, all)
			},
		}
	}},
	{"one kind", "by the handler of its kind", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.Kind = "job" })}
	}},
	{"loses every tenth", "many that are asked for at once", func() brokenQueue {
		var n atomic.Int32
		return brokenQueue{wake: only(func(ports.Wakeup) bool { return n.Add(1)%10 != 0 })}
	}},
	{"all doubles come", "doubles do not pile up", func() brokenQueue {
		return disguised(func(n int, w *ports.Wakeup) { w.ID += string(rune('A' + n)) })
	}},
	{"the first one counts", "the earlier one counts", oncePerJob},
	{"a job that runs is not woken", "again for a job whose handler runs", oncePerJob},
	{"a handler cannot wake its own job", "later, where a handler asks for that, and for the same cause", oncePerJob},
	{"a handler's wake-ups come at once", "later, where a handler asks for that, and for the same cause", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.At = time.Time{} })}
	}},
	{"takes what one asked for who went away", "not for one who went away", func() brokenQueue { return brokenQueue{anyway: true} }},
	{"an error is the end", "an error and a panic come again, after pauses", func() brokenQueue {
		return brokenQueue{handle: func(h ports.Handler) ports.Handler {
			return func(ctx context.Context, w ports.Wakeup) error {
				_ = h(ctx, w)
				return nil
			}
		}}
	}},
	{"a panic is the end", "an error and a panic come again, after pauses", func() brokenQueue {
		return brokenQueue{handle: func(h ports.Handler) ports.Handler {
			return func(ctx context.Context, w ports.Wakeup) (err error) {
				defer func() {
					if recover() != nil {
						err = nil
					}
				}()
				return h(ctx, w)
			}
		}}
	}},
	{"again without a pause", "an error and a panic come again, after pauses", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.Pause = time.Millisecond }}
	}},
	{"one failure ends all", "a failure of one job is none of another", func() brokenQueue {
		var failed atomic.Bool
		return brokenQueue{handle: func(h ports.Handler) ports.Handler {
			return func(ctx context.Context, w ports.Wakeup) error {
				if failed.Load() {
					return nil
				}
				failed.Store(true)
				err := h(ctx, w)
				failed.Store(err != nil)
				return err
			}
		}}
	}},
	{"no deadline", "a handler has a deadline, after which its job comes again", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.Deadline, o.Rescue = time.Minute, time.Hour }}
	}},
	{"periodic work comes once", "periodic work comes at the start and again, whatever becomes of it", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
			for _, p := range all.Periodic {
				_ = p.Do(ctx)
			}
			return withoutPeriodic(w, ctx, all)
		}}
	}},
	{"periodic work comes ten times as often", "periodic work does not come more often than it should", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
			for i := range all.Periodic {
				all.Periodic[i].Every /= 10
			}
			return w.Start(ctx, all)
		}}
	}},
	{"takes two handlers of a kind", "a kind has one handler", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
			for _, p := range all.Periodic {
				delete(all.Handlers, p.Kind)
			}
			return w.Start(ctx, all)
		}}
	}},
	{"nothing stands apart", "so do an account's own that stand apart, and they are told as theirs", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.Apart = false })}
	}},
	{"no turns", "10,000 jobs of an account delay another's first by at most 5 s", func() brokenQueue {
		return disguised(func(_ int, w *ports.Wakeup) { w.Account = "all" })
	}},
	{"no turns among several", "so do those of several accounts", func() brokenQueue {
		return disguised(func(_ int, w *ports.Wakeup) { w.Account = "all" })
	}},
	{"a quarter of the workers", "an account that is alone has half of the workers", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.AtOnce = QueueAtOnce / 2 }}
	}},
	{"a stop waits for no handler", "a stop waits for handlers and begins nothing", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, ctx context.Context) error {
			now, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_ = w.Stop(now)
			return nil
		}}
	}},
	{"a stop is none", "a stop waits for handlers and begins nothing", func() brokenQueue {
		return brokenQueue{stop: func(ports.Worker, context.Context) error { return nil }}
	}},
	{"what was cut is lost", "a stop hands back what it cuts", func() brokenQueue { return brokenQueue{start: withoutPeriodic} }},
	{"a stop waits for every handler", "a stop is over though a handler is not", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, _ context.Context) error {
			long, cancel := context.WithTimeout(context.Background(), 10*soon)
			defer cancel()
			return w.Stop(long)
		}}
	}},
	{"a stop says nothing", "a stop is over though a handler is not", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, ctx context.Context) error {
			_ = w.Stop(ctx)
			return nil
		}}
	}},
	{"what is late is not told", "what waits is counted by kind, with the time that it is late", func() brokenQueue {
		return brokenQueue{backlog: func(all []ports.Backlog) []ports.Backlog {
			for i := range all {
				all[i].Late = 0
			}
			return all
		}}
	}},
	{"what runs waits too", "what a handler has taken does not wait", func() brokenQueue {
		return brokenQueue{backlog: func(all []ports.Backlog) []ports.Backlog {
			return append(all, ports.Backlog{Kind: "job", Waiting: 1})
		}}
	}},
	{"no sweep", "a lost wake-up is found by the sweep", func() brokenQueue { return brokenQueue{start: withoutPeriodic} }},
	{"nobody takes over", "a worker that is late cannot save", func() brokenQueue { return brokenQueue{start: withoutPeriodic} }},
}

// TestQueueNoticesEachBrokenPromise uses the fake clock of synctest, as most
// broken queues make a check wait in vain.
func TestQueueNoticesEachBrokenPromise(t *testing.T) {
	checks, proven := map[string]queueCheck{}, map[string]bool{}
	for _, c := range queueChecks() {
		checks[c.name] = c
	}
	for _, b := range brokenQueues {
		proven[b.check] = true
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if !fails(t, func(t testing.TB) { checks[b.check].run(t, func() ports.Worker { return opened(t, b.make()) }) }) {
					t.Fatalf("%q does not notice", b.check)
				}
			})
		})
	}
	for name := range checks {
		if !proven[name] {
			t.Errorf("nothing shows that %q can fail", name)
		}
	}
}

func opened(t testing.TB, b brokenQueue) ports.Worker {
	o := queue.Options{AtOnce: QueueAtOnce, Deadline: QueueDeadline, Rescue: QueueRescue, Pause: QueuePause}
	if b.options != nil {
		b.options(&o)
	}
	l, err := queue.NewLocal(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		now, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = l.Stop(now) // some handlers never end
	})
	b.Worker = l
	return &b
}
