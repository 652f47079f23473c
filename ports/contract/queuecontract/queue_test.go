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
	listed, err := b.Worker.Backlog(ctx)
	if b.backlog != nil {
		listed = b.backlog(listed)
	}
	return listed, err
}

func (b *brokenQueue) Wake(ctx context.Context, wakeups ...ports.Wakeup) error {
	if b.ignoreContext {
		ctx = context.WithoutCancel(ctx)
	}
	if b.wake == nil {
		return b.Worker.Wake(ctx, wakeups...)
	}
	var changed []ports.Wakeup
	for _, wakeup := range wakeups {
		changed = append(changed, b.wake(wakeup)...)
	}
	return b.Worker.Wake(ctx, changed...)
}

func (b *brokenQueue) Start(ctx context.Context, work ports.Work) error {
	work.Handlers = maps.Clone(work.Handlers)
	for kind, handler := range work.Handlers {
		if b.handle != nil {
			work.Handlers[kind] = b.handle(handler)
		}
	}
	if b.start != nil {
		return b.start(b.Worker, ctx, work)
	}
	return b.Worker.Start(ctx, work)
}

func (b *brokenQueue) Stop(ctx context.Context) error {
	if b.stop != nil {
		return b.stop(b.Worker, ctx)
	}
	return b.Worker.Stop(ctx)
}

// changeEach returns a wake function that applies change to every wake-up.
func changeEach(change func(*ports.Wakeup)) func(ports.Wakeup) []ports.Wakeup {
	return func(w ports.Wakeup) []ports.Wakeup {
		change(&w)
		return []ports.Wakeup{w}
	}
}

// keepOnly returns a wake function that drops the wake-ups for which keep returns false.
func keepOnly(keep func(ports.Wakeup) bool) func(ports.Wakeup) []ports.Wakeup {
	return func(w ports.Wakeup) []ports.Wakeup {
		if keep(w) {
			return []ports.Wakeup{w}
		}
		return nil
	}
}

// startWithoutPeriodic starts the worker without its periodic work.
func startWithoutPeriodic(w ports.Worker, ctx context.Context, work ports.Work) error {
	return w.Start(ctx, ports.Work{Handlers: work.Handlers})
}

// firstWakeupOnly returns a queue that drops all wake-ups of a job except the first one.
func firstWakeupOnly() brokenQueue {
	var mu sync.Mutex
	seen := map[string]bool{}
	return brokenQueue{wake: keepOnly(func(w ports.Wakeup) bool {
		mu.Lock()
		defer mu.Unlock()
		known := seen[w.ID]
		seen[w.ID] = true
		return !known
	})}
}

// storesChangedWakeups returns a queue that changes each wake-up before it is stored. n is the
// number of different changed wake-ups so far. The handler receives the original wake-up.
func storesChangedWakeups(change func(n int, w *ports.Wakeup)) brokenQueue {
	var mu sync.Mutex
	originals := map[string]ports.Wakeup{}
	return brokenQueue{
		wake: changeEach(func(w *ports.Wakeup) {
			mu.Lock()
			defer mu.Unlock()
			original := *w
			change(len(originals), w)
			originals[w.Kind+w.ID] = original
		}),
		handle: func(h ports.Handler) ports.Handler {
			return func(ctx context.Context, w ports.Wakeup) error {
				mu.Lock()
				w = originals[w.Kind+w.ID]
				mu.Unlock()
				return h(ctx, w)
			}
		},
	}
}

// brokenQueues are queues that break one promise each. check is the name of the check that must
// fail.
var brokenQueues = []struct {
	name, check string
	make        func() brokenQueue
}{
	{"runs a job early", "a wake-up arrives at its time, unchanged", func() brokenQueue {
		return brokenQueue{wake: changeEach(func(w *ports.Wakeup) { w.At = time.Time{} })}
	}},
	{"loses the trace", "a wake-up arrives at its time, unchanged", func() brokenQueue {
		return brokenQueue{wake: changeEach(func(w *ports.Wakeup) { w.Trace = "" })}
	}},
	{"loses the account", "a wake-up arrives at its time, unchanged", func() brokenQueue {
		return brokenQueue{wake: changeEach(func(w *ports.Wakeup) { w.Account = "" })}
	}},
	{"drops a wake-up without a time", "a wake-up without a time, or with a past time, arrives at once", func() brokenQueue {
		return brokenQueue{wake: keepOnly(func(w ports.Wakeup) bool { return !w.At.IsZero() })}
	}},
	{"drops a wake-up with a past time", "a wake-up without a time, or with a past time, arrives at once", func() brokenQueue {
		return brokenQueue{wake: keepOnly(func(w ports.Wakeup) bool { return w.At.IsZero() || w.At.After(time.Now()) })}
	}},
	{"drops wake-ups from before the start", "a wake-up from before the start arrives", func() brokenQueue {
		var started atomic.Bool
		return brokenQueue{
			wake: keepOnly(func(ports.Wakeup) bool { return started.Load() }),
			start: func(w ports.Worker, ctx context.Context, work ports.Work) error {
				started.Store(true)
				return w.Start(ctx, work)
			},
		}
	}},
	{"stores every wake-up with the same kind", "a wake-up arrives at the handler of its kind", func() brokenQueue {
		return brokenQueue{wake: changeEach(func(w *ports.Wakeup) { w.Kind = "job" })}
	}},
	{"loses every tenth wake-up", "concurrent wake-ups all arrive", func() brokenQueue {
		var n atomic.Int32
		return brokenQueue{wake: keepOnly(func(ports.Wakeup) bool { return n.Add(1)%10 != 0 })}
	}},
	{"runs every duplicate", "duplicate wake-ups are merged", func() brokenQueue {
		return storesChangedWakeups(func(n int, w *ports.Wakeup) { w.ID += string(rune('A' + n)) })
	}},
	{"ignores the second wake-up of a job", "of two wake-ups of a job the earlier time counts", firstWakeupOnly},
	{"a running job is not woken", "a wake-up of a running job runs it again", firstWakeupOnly},
	{"only the first wake-up arrives", "the last wake-up of a job is never lost", firstWakeupOnly},
	{"a handler cannot wake its own job", "a handler can wake its own job later, with the same trace", firstWakeupOnly},
	{"a handler's wake-ups run at once", "a handler can wake its own job later, with the same trace", func() brokenQueue {
		return brokenQueue{wake: changeEach(func(w *ports.Wakeup) { w.At = time.Time{} })}
	}},
	{"accepts a wake-up with a cancelled context", "Wake fails with a cancelled context", func() brokenQueue { return brokenQueue{ignoreContext: true} }},
	{"a job is not retried after an error", "a job is retried with pauses after an error or a panic", func() brokenQueue {
		return brokenQueue{handle: func(h ports.Handler) ports.Handler {
			return func(ctx context.Context, w ports.Wakeup) error {
				_ = h(ctx, w)
				return nil
			}
		}}
	}},
	{"a job is not retried after a panic", "a job is retried with pauses after an error or a panic", func() brokenQueue {
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
	{"all retries have the same pause", "the pauses of a failing job grow, even if the job is woken while its handler runs", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, work ports.Work) error {
			for kind, handler := range work.Handlers {
				work.Handlers[kind] = func(ctx context.Context, got ports.Wakeup) error {
					if handler(ctx, got) != nil {
						got.At = time.Now().Add(QueueRetryDelay)
						return w.Wake(ctx, got)
					}
					return nil
				}
			}
			return w.Start(ctx, work)
		}}
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
	{"a handler has no deadline", "a handler has a deadline, after which its job is retried", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.HandlerTimeout, o.RescueAfter = time.Minute, time.Hour }}
	}},
	{"periodic work runs once", "periodic work runs at the start and again, even after a failure", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, work ports.Work) error {
			for _, p := range work.Periodic {
				_ = p.Do(ctx)
			}
			return startWithoutPeriodic(w, ctx, work)
		}}
	}},
	{"periodic work runs ten times as often", "periodic work does not run more often than its interval", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, work ports.Work) error {
			for i := range work.Periodic {
				work.Periodic[i].Every /= 10
			}
			return w.Start(ctx, work)
		}}
	}},
	{"accepts two handlers of a kind", "a kind has one handler", func() brokenQueue {
		return brokenQueue{start: func(w ports.Worker, ctx context.Context, work ports.Work) error {
			for _, p := range work.Periodic {
				delete(work.Handlers, p.Kind)
			}
			return w.Start(ctx, work)
		}}
	}},
	{"no separate fairness groups", "an account's jobs in a separate fairness group do not delay its other jobs by more than 5 s", func() brokenQueue {
		return brokenQueue{wake: changeEach(func(w *ports.Wakeup) { w.SeparateGroup = false })}
	}},
	{"all jobs have the same account", "10,000 jobs of an account delay the first job of a different account by at most 5 s", func() brokenQueue {
		return storesChangedWakeups(func(_ int, w *ports.Wakeup) { w.Account = "all" })
	}},
	{"all jobs of several accounts have the same account", "the jobs of several accounts do not delay the first job of a different account by more than 5 s", func() brokenQueue {
		return storesChangedWakeups(func(_ int, w *ports.Wakeup) { w.Account = "all" })
	}},
	{"has half as many handler slots", "a single account can use half of the handler slots", func() brokenQueue {
		return brokenQueue{options: func(o *queue.Options) { o.MaxHandlers = QueueMaxHandlers / 2 }}
	}},
	{"a stop waits for no handler", "a stop waits for running handlers and starts no job", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, ctx context.Context) error {
			shortWait, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_ = w.Stop(shortWait)
			return nil
		}}
	}},
	{"Stop does nothing", "a stop waits for running handlers and starts no job", func() brokenQueue {
		return brokenQueue{stop: func(ports.Worker, context.Context) error { return nil }}
	}},
	{"an interrupted job is lost", "a job that a stop interrupts is run again", func() brokenQueue { return brokenQueue{start: startWithoutPeriodic} }},
	{"a stop waits for every handler", "a stop returns although a handler does not", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, _ context.Context) error {
			longWait, cancel := context.WithTimeout(context.Background(), 10*eventTimeout)
			defer cancel()
			return w.Stop(longWait)
		}}
	}},
	{"Stop returns no error", "a stop returns although a handler does not", func() brokenQueue {
		return brokenQueue{stop: func(w ports.Worker, ctx context.Context) error {
			_ = w.Stop(ctx)
			return nil
		}}
	}},
	{"lateness is not reported", "the backlog counts waiting jobs by kind, with their lateness", func() brokenQueue {
		return brokenQueue{backlog: func(kinds []ports.Backlog) []ports.Backlog {
			for i := range kinds {
				kinds[i].Lateness = 0
			}
			return kinds
		}}
	}},
	{"running jobs are counted as waiting", "a running job is not in the backlog", func() brokenQueue {
		return brokenQueue{backlog: func(kinds []ports.Backlog) []ports.Backlog {
			return append(kinds, ports.Backlog{Kind: "job", Waiting: 1})
		}}
	}},
	{"runs no sweep", "the sweep finds a lost wake-up", func() brokenQueue { return brokenQueue{start: startWithoutPeriodic} }},
	{"no worker claims a lost job", "a worker that lost its job cannot save", func() brokenQueue { return brokenQueue{start: startWithoutPeriodic} }},
}

// TestQueueSuiteDetectsBrokenPromises uses the fake clock of synctest, because most broken queues
// make a check wait for its timeout.
func TestQueueSuiteDetectsBrokenPromises(t *testing.T) {
	checks, hasBrokenQueue := map[string]queueCheck{}, map[string]bool{}
	for _, check := range queueChecks() {
		checks[check.name] = check
	}
	for _, broken := range brokenQueues {
		hasBrokenQueue[broken.check] = true
		t.Run(broken.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if !checkFails(t, func(t testing.TB) {
					checks[broken.check].run(t, func() ports.Worker { return openQueue(t, broken.make()) })
				}) {
					t.Fatalf("the check %q does not fail", broken.check)
				}
			})
		})
	}
	for name := range checks {
		if !hasBrokenQueue[name] {
			t.Errorf("no broken queue shows that %q can fail", name)
		}
	}
}

// openQueue returns an in-process queue with the broken behaviour of b.
func openQueue(t testing.TB, broken brokenQueue) ports.Worker {
	options := queue.Options{MaxHandlers: QueueMaxHandlers, HandlerTimeout: QueueHandlerTimeout, RescueAfter: QueueRescueAfter, RetryDelay: QueueRetryDelay}
	if broken.options != nil {
		broken.options(&options)
	}
	worker, err := queue.NewLocal(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shortWait, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = worker.Stop(shortWait) // some handlers never end
	})
	broken.Worker = worker
	return &broken
}

// failureRecorder is a testing.TB that only records a failure by Fatal or Fatalf, so that the test
// that runs the check does not fail.
type failureRecorder struct {
	testing.TB
	failed bool
}

func (r *failureRecorder) Helper() {}

func (r *failureRecorder) Fatalf(string, ...any) { r.stop() }

func (r *failureRecorder) Fatal(...any) { r.stop() }

// stop records a failure and ends the goroutine of the check.
func (r *failureRecorder) stop() {
	r.failed = true
	runtime.Goexit()
}

// checkFails runs a check with a failureRecorder and reports whether the check failed.
func checkFails(t *testing.T, run func(testing.TB)) bool {
	r := &failureRecorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	<-done
	return r.failed
}
