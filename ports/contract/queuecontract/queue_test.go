// SPDX-License-Identifier: Apache-2.0

package queuecontract

import (
	"context"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/ports"
)

// brokenQueue wraps an in-process queue and breaks one promise. A nil field keeps the behaviour of
// the queue. Each worker has its own brokenQueue.
type brokenQueue struct {
	ports.Worker
	options       func(*queue.Options)
	wake          func(ports.Wakeup) []ports.Wakeup
	ignoreContext bool // Wake ignores the end of its context
	handle        func(ports.Handler) ports.Handler
	start         func(ports.Worker, context.Context, ports.Work) error
	stop          func(ports.Worker, context.Context) error
	backlog       func([]ports.Backlog) []ports.Backlog
}

func (b *brokenQueue) Backlog(ctx context.Context) ([]ports.Backlog, error) {
	all, err := b.Worker.Backlog(ctx)
	if b.backlog != nil {
		all = b.backlog(all)
	}
	return all, err
}

func (b *brokenQueue) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	if b.ignoreContext {
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

// each returns a wake function that applies change to every wake-up.
func each(change func(*ports.Wakeup)) func(ports.Wakeup) []ports.Wakeup {
	return func(w ports.Wakeup) []ports.Wakeup {
		change(&w)
		return []ports.Wakeup{w}
	}
}

// only returns a wake function that drops the wake-ups for which passes is false.
func only(passes func(ports.Wakeup) bool) func(ports.Wakeup) []ports.Wakeup {
	return func(w ports.Wakeup) []ports.Wakeup {
		if passes(w) {
			return []ports.Wakeup{w}
		}
		return nil
	}
}

// withoutPeriodic starts the worker without its periodic work.
func withoutPeriodic(w ports.Worker, ctx context.Context, all ports.Work) error {
	return w.Start(ctx, ports.Work{Handlers: all.Handlers})
}

// oncePerJob accepts only the first wake-up of each job.
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

// storedChanged changes each wake-up before the queue stores it. The handler receives the original
// wake-up.
func storedChanged(change func(n int, w *ports.Wakeup)) brokenQueue {
	var mu sync.Mutex
	real := map[string]ports.Wakeup{}
	return brokenQueue{
		wake: each(func(w *ports.Wakeup) {
			mu.Lock()
			defer mu.Unlock()
			was := *w
			change(len(real), w)
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
	{"early", "a wake-up arrives at its time, unchanged", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.At = time.Time{} })}
	}},
	{"loses the trace", "a wake-up arrives at its time, unchanged", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.Trace = "" })}
	}},
	{"loses the account", "a wake-up arrives at its time, unchanged", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.Account = "" })}
	}},
	{"delays a wake-up without a time", "a wake-up without a time, or with a past time, arrives at once", func() brokenQueue {
		return brokenQueue{wake: only(func(w ports.Wakeup) bool { return !w.At.IsZero() })}
	}},
	{"drops a wake-up with a past time", "a wake-up without a time, or with a past time, arrives at once", func() brokenQueue {
		return brokenQueue{wake: only(func(w ports.Wakeup) bool { return w.At.IsZero() || w.At.After(time.Now()) })}
	}},
	{"drops wake-ups from before the start", "a wake-up from before the start arrives", func() brokenQueue {
		var started atomic.Bool
		return brokenQueue{
			wake: only(func(ports.Wakeup) bool { return started.Load() }),
			start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
				started.Store(true)
				return w.Start(ctx, all)
			},
		}
	}},
	{"one kind", "a wake-up arrives at the handler of its kind", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.Kind = "job" })}
	}},
	{"loses every tenth", "concurrent wake-ups all arrive", func() brokenQueue {
		var n atomic.Int32
		return brokenQueue{wake: only(func(ports.Wakeup) bool { return n.Add(1)%10 != 0 })}
	}},
	{"runs every duplicate", "duplicate wake-ups are merged", func() brokenQueue {
		return storedChanged(func(n int, w *ports.Wakeup) { w.ID += string(rune('A' + n)) })
	}},
	{"the first one counts", "of two wake-ups of a job the earlier time counts", oncePerJob},
	{"a running job is not woken", "a wake-up of a running job runs it again", oncePerJob},
	{"only the first wake-up arrives", "the last wake-up of a job is never lost", oncePerJob},
	{"a handler cannot wake its own job", "a handler can wake its own job later, with the same trace", oncePerJob},
	{"a handler's wake-ups run at once", "a handler can wake its own job later, with the same trace", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.At = time.Time{} })}
	}},
	{"accepts a wake-up with a cancelled context", "Wake fails with a cancelled context", func() brokenQueue { return brokenQueue{ignoreContext: true} }},
	{"no retry after an error", "a job is retried with pauses after an error or a panic", func() brokenQueue {
		return brokenQueue{handle: func(h ports.Handler) ports.Handler {
			return func(ctx context.Context, w ports.Wakeup) error {
				_ = h(ctx, w)
				return nil
			}
		}}
	}},
	{"no retry after a panic", "a job is retried with pauses after an error or a panic", func() brokenQueue {
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
	{"a retry without a pause", "a job is retried with pauses after an error or a panic", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.RetryDelay = time.Millisecond }}
	}},
	{"one failure stops all jobs", "a failing job does not affect other jobs", func() brokenQueue {
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
	{"no deadline", "a handler has a deadline, after which its job is retried", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.HandlerTimeout, o.RescueAfter = time.Minute, time.Hour }}
	}},
	{"periodic work runs once", "periodic work runs at the start and again, even after a failure", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
			for _, p := range all.Periodic {
				_ = p.Do(ctx)
			}
			return withoutPeriodic(w, ctx, all)
		}}
	}},
	{"periodic work runs ten times as often", "periodic work does not run more often than its interval", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
			for i := range all.Periodic {
				all.Periodic[i].Every /= 10
			}
			return w.Start(ctx, all)
		}}
	}},
	{"accepts two handlers of a kind", "a kind has one handler", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, all ports.Work) error {
			for _, p := range all.Periodic {
				delete(all.Handlers, p.Kind)
			}
			return w.Start(ctx, all)
		}}
	}},
	{"no separate fairness groups", "an account's jobs in a separate fairness group do not delay its others by more than 5 s", func() brokenQueue {
		return brokenQueue{wake: each(func(w *ports.Wakeup) { w.SeparateGroup = false })}
	}},
	{"no fair share", "10,000 jobs of an account delay another's first by at most 5 s", func() brokenQueue {
		return storedChanged(func(_ int, w *ports.Wakeup) { w.Account = "all" })
	}},
	{"no fair share among several accounts", "the jobs of several accounts do not delay another's first by more than 5 s", func() brokenQueue {
		return storedChanged(func(_ int, w *ports.Wakeup) { w.Account = "all" })
	}},
	{"a quarter of the workers", "a single account can use half of the workers", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.MaxHandlers = QueueMaxHandlers / 2 }}
	}},
	{"a stop waits for no handler", "a stop waits for running handlers and starts no job", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, ctx context.Context) error {
			now, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_ = w.Stop(now)
			return nil
		}}
	}},
	{"Stop does nothing", "a stop waits for running handlers and starts no job", func() brokenQueue {
		return brokenQueue{stop: func(ports.Worker, context.Context) error { return nil }}
	}},
	{"an interrupted job is lost", "a job that a stop interrupts is run again", func() brokenQueue { return brokenQueue{start: withoutPeriodic} }},
	{"a stop waits for every handler", "a stop returns although a handler does not", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, _ context.Context) error {
			long, cancel := context.WithTimeout(context.Background(), 10*eventTimeout)
			defer cancel()
			return w.Stop(long)
		}}
	}},
	{"Stop returns no error", "a stop returns although a handler does not", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, ctx context.Context) error {
			_ = w.Stop(ctx)
			return nil
		}}
	}},
	{"lateness is not reported", "the backlog counts waiting jobs by kind, with their lateness", func() brokenQueue {
		return brokenQueue{backlog: func(all []ports.Backlog) []ports.Backlog {
			for i := range all {
				all[i].Lateness = 0
			}
			return all
		}}
	}},
	{"running jobs are counted as waiting", "a running job is not in the backlog", func() brokenQueue {
		return brokenQueue{backlog: func(all []ports.Backlog) []ports.Backlog {
			return append(all, ports.Backlog{Kind: "job", Waiting: 1})
		}}
	}},
	{"no sweep", "the sweep finds a lost wake-up", func() brokenQueue { return brokenQueue{start: withoutPeriodic} }},
	{"no worker takes over", "a worker that lost its job cannot save", func() brokenQueue { return brokenQueue{start: withoutPeriodic} }},
}

// TestQueueSuiteDetectsBrokenPromises uses the fake clock of synctest, because most broken queues
// make a check wait for its timeout.
func TestQueueSuiteDetectsBrokenPromises(t *testing.T) {
	checks, proven := map[string]queueCheck{}, map[string]bool{}
	for _, c := range queueChecks() {
		checks[c.name] = c
	}
	for _, b := range brokenQueues {
		proven[b.check] = true
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if !fails(t, func(t testing.TB) { checks[b.check].run(t, func() ports.Worker { return opened(t, b.make()) }) }) {
					t.Fatalf("the check %q does not fail", b.check)
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
	o := queue.Options{MaxHandlers: QueueMaxHandlers, HandlerTimeout: QueueHandlerTimeout, RescueAfter: QueueRescueAfter, RetryDelay: QueueRetryDelay}
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

// failureRecorder records the failure of a check, so that the test that runs the check does not
// fail.
type failureRecorder struct {
	testing.TB
	failed bool
}

func (r *failureRecorder) Helper() {}

func (r *failureRecorder) Fatalf(string, ...any) { r.end() }

func (r *failureRecorder) Fatal(...any) { r.end() }

func (r *failureRecorder) end() {
	r.failed = true
	runtime.Goexit()
}

// fails runs a check with a failureRecorder and reports whether the check failed.
func fails(t *testing.T, run func(testing.TB)) bool {
	r := &failureRecorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	<-done
	return r.failed
}
