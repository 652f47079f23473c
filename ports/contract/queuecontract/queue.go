// SPDX-License-Identifier: Apache-2.0

// Package queuecontract contains the test suite of ports.Queue and ports.Worker. It is not in
// package contract, because it needs package testing for fake time and child processes.
//
//   - queue.go: the entry points and the checks. queue_failures.go: the checks of failures.
//   - queue_processes.go: the checks with killed and paused processes.
package queuecontract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract"
)

// Options of the queue under test. The durations are much shorter than in production.
const (
	QueueHandlerTimeout = time.Second            // deadline of a handler
	QueueRescueAfter    = 2 * time.Second        // time until the jobs of a killed process run again
	QueueRetryDelay     = 200 * time.Millisecond // pause before the retry of a failed handler
	QueueMaxHandlers    = 8                      // concurrent handlers of a process
)

// eventTimeout is how long a check waits for an event. Only a hang reaches it.
const eventTimeout = 4 * time.Minute

// queueCheck tests one promise of ports.Worker or ports.Queue. open returns a new worker (a
// replica). Replicas share the wake-ups only if the queue stores them outside the process.
type queueCheck struct {
	name string
	run  func(t testing.TB, open func() ports.Worker)
}

// Queue runs the contract suite of ports.Worker and ports.Queue. newQueue creates an empty queue
// and returns a function that opens replicas of it. The replicas are closed when the test ends.
func Queue(t *testing.T, newQueue func(testing.TB) func() ports.Worker) {
	for _, check := range queueChecks() {
		t.Run(check.name, func(t *testing.T) {
			t.Parallel()
			check.run(t, newQueue(t))
		})
	}
}

// QueueWithFakeTime runs the same suite as Queue, with the fake clock of synctest. It is for a
// queue that starts no processes and opens no connections.
func QueueWithFakeTime(t *testing.T, newQueue func(testing.TB) func() ports.Worker) {
	for _, check := range queueChecks() {
		t.Run(check.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { check.run(t, newQueue(t)) })
		})
	}
}

func queueChecks() []queueCheck {
	return slices.Concat(queueWakes, queueFailures, queueShares, queueStops, queueSweeps, queueBacklogs)
}

// wakeupRecorder records the wake-ups that its handler receives.
type wakeupRecorder struct {
	wakeups  chan ports.Wakeup
	returned map[string]bool // the ids of the jobs that requireNext returned
	mu       sync.Mutex
	count    map[string]int // wake-ups by job id
}

func newWakeupRecorder() *wakeupRecorder {
	return &wakeupRecorder{wakeups: make(chan ports.Wakeup, 20_000), returned: map[string]bool{}, count: map[string]int{}}
}

func (r *wakeupRecorder) record(_ context.Context, wakeup ports.Wakeup) error {
	r.mu.Lock()
	r.count[wakeup.ID]++
	r.mu.Unlock()
	r.wakeups <- wakeup
	return nil
}

func (r *wakeupRecorder) countOf(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[id]
}

// next waits for the next wake-up and returns it.
func (r *wakeupRecorder) next(t testing.TB) ports.Wakeup {
	t.Helper()
	return receiveWithin(t, eventTimeout, r.wakeups, "a wake-up")
}

// requireNext waits for a wake-up of this job. It skips wake-ups of jobs that it returned before:
// on a slow machine, the queue may run a job again before the end of its first run is stored.
func (r *wakeupRecorder) requireNext(t testing.TB, id string) ports.Wakeup {
	t.Helper()
	wakeup := r.next(t)
	for wakeup.ID != id && r.returned[wakeup.ID] {
		wakeup = r.next(t)
	}
	if wakeup.ID != id {
		t.Fatalf("the next wake-up is for job %q, want %q", wakeup.ID, id)
	}
	r.returned[id] = true
	return wakeup
}

// requireAtMost waits 500 ms and checks that at most n wake-ups of a job have arrived. On a slow
// machine, a wake-up can arrive later and is not detected.
func (r *wakeupRecorder) requireAtMost(t testing.TB, id string, n int) {
	t.Helper()
	<-time.After(500 * time.Millisecond)
	if count := r.countOf(id); count > n {
		t.Fatalf("got %d wake-ups for job %q, want at most %d", count, id, n)
	}
}

func receiveWithin[T any](t testing.TB, timeout time.Duration, events <-chan T, awaited string) T {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(timeout):
		t.Fatalf("%s did not come within %s", awaited, timeout)
		panic("unreachable")
	}
}

func startWorker(t testing.TB, worker ports.Worker, handlers map[string]ports.Handler, periodic ...ports.Periodic) {
	t.Helper()
	if err := worker.Start(t.Context(), ports.Work{Handlers: handlers, Periodic: periodic}); err != nil {
		t.Fatalf("start: %v", err)
	}
}

func wake(t testing.TB, q ports.Queue, wakeups ...ports.Wakeup) {
	t.Helper()
	if err := q.Wake(t.Context(), wakeups...); err != nil {
		t.Fatalf("wake: %v", err)
	}
}

func recordingHandlers(recorder *wakeupRecorder) map[string]ports.Handler {
	return map[string]ports.Handler{"job": recorder.record}
}

// traceparent is a W3C trace context.
const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var queueWakes = []queueCheck{
	{"a wake-up arrives at its time, unchanged", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		startWorker(t, worker, recordingHandlers(recorder))
		sent := ports.Wakeup{Kind: "job", ID: "1", Account: "ann", At: time.Now().Add(800 * time.Millisecond), Trace: traceparent}
		wake(t, worker, sent)
		got := recorder.next(t)
		if early := time.Until(sent.At); early > 0 {
			t.Fatalf("the wake-up arrived %s before its time", early)
		}
		if got.Kind != sent.Kind || got.ID != sent.ID || got.Account != sent.Account || got.Trace != sent.Trace {
			t.Fatalf("got %+v, want %+v", got, sent)
		}
	}},
	{"a wake-up without a time, or with a past time, arrives at once", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		startWorker(t, worker, recordingHandlers(recorder))
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "none"})
		recorder.requireNext(t, "none")
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "past", At: time.Now().Add(-time.Hour)})
		recorder.requireNext(t, "past")
	}},
	{"a wake-up from before the start arrives", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		startWorker(t, worker, recordingHandlers(recorder))
		recorder.requireNext(t, "1")
	}},
	{"a wake-up arrives at the handler of its kind", func(t testing.TB, open func() ports.Worker) {
		worker, jobRecorder, otherRecorder := open(), newWakeupRecorder(), newWakeupRecorder()
		startWorker(t, worker, map[string]ports.Handler{"job": jobRecorder.record, "other": otherRecorder.record})
		wake(t, worker, ports.Wakeup{Kind: "other", ID: "1"}, ports.Wakeup{Kind: "job", ID: "1"}, ports.Wakeup{Kind: "stranger", ID: "1"})
		if ofJob, ofOther := jobRecorder.next(t), otherRecorder.next(t); ofJob.Kind != "job" || ofOther.Kind != "other" {
			t.Fatalf("the handler of job got the kind %q, and the handler of other got %q, want their own kinds", ofJob.Kind, ofOther.Kind)
		}
	}},
	{"concurrent wake-ups all arrive", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		startWorker(t, worker, recordingHandlers(recorder))
		for _, err := range contract.Concurrently(200, func(i int) error {
			return worker.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: fmt.Sprint(i)})
		}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]bool{}
		for len(seen) < 200 {
			seen[recorder.next(t).ID] = true
		}
	}},
	{"duplicate wake-ups are merged", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		for range 50 {
			wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"}, ports.Wakeup{Kind: "job", ID: "1"})
			wake(t, worker, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(300 * time.Millisecond)})
		}
		began := time.Now()
		startWorker(t, worker, recordingHandlers(recorder))
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "last", At: time.Now().Add(time.Second)})
		for seen := map[string]bool{}; !seen["1"] || !seen["last"]; {
			seen[recorder.next(t).ID] = true
		}
		// On a slow machine, the queue may run the job again.
		if n := recorder.countOf("1"); n > 2 && time.Since(began) < QueueRescueAfter {
			t.Fatalf("after 150 wake-ups of a waiting job its handler ran %d times, want 1 or 2", n)
		}
	}},
	{"of two wake-ups of a job the earlier time counts", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		startWorker(t, worker, recordingHandlers(recorder))
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(48 * time.Hour)})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(time.Hour)})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		recorder.requireNext(t, "1")
	}},
	{"a wake-up of a running job runs it again", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		handlerBegun, release := make(chan bool, 10), make(chan bool)
		startWorker(t, worker, map[string]ports.Handler{"job": func(ctx context.Context, wakeup ports.Wakeup) error {
			handlerBegun <- true
			<-release
			return recorder.record(ctx, wakeup)
		}})
		began := time.Now()
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		receiveWithin(t, eventTimeout, handlerBegun, "the handler")
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		close(release)
		recorder.requireNext(t, "1")
		recorder.requireNext(t, "1")
		if time.Since(began) < QueueRescueAfter/2 { // on a slow machine, the queue may run the job again
			recorder.requireAtMost(t, "1", 2)
		}
	}},
	{"the last wake-up of a job is never lost", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		var row atomic.Int64 // stands for the job's row in a database: a handler must see its last value
		seen := make(chan int64, 10_000)
		startWorker(t, worker, map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error {
			seen <- row.Load()
			return nil
		}})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		receiveWithin(t, eventTimeout, seen, "the handler")
		for _, err := range contract.Concurrently(4, func(int) (err error) {
			for range 100 {
				row.Add(1)
				err = errors.Join(err, worker.Wake(t.Context(), ports.Wakeup{Kind: "job", ID: "1"}))
			}
			return err
		}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for receiveWithin(t, eventTimeout, seen, "a handler that sees the last change") != 400 {
		}
	}},
	{"a handler can wake its own job later, with the same trace", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		dueTimes := make(chan time.Time, 10)
		startWorker(t, worker, map[string]ports.Handler{"job": func(ctx context.Context, got ports.Wakeup) error {
			if len(dueTimes) == 0 {
				at := time.Now().Add(700 * time.Millisecond)
				dueTimes <- at
				if err := worker.Wake(ctx, ports.Wakeup{Kind: "job", ID: "1", At: at}); err != nil {
					return err
				}
			}
			return recorder.record(ctx, got)
		}})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1", Trace: traceparent})
		recorder.requireNext(t, "1")
		repeated := recorder.requireNext(t, "1")
		if early := time.Until(<-dueTimes); early > 0 {
			t.Fatalf("the wake-up arrived %s before its time", early)
		}
		if repeated.Trace != traceparent {
			t.Fatalf("the second wake-up has the trace %q, want %q", repeated.Trace, traceparent)
		}
	}},
	{"Wake fails with a cancelled context", func(t testing.TB, open func() ports.Worker) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if err := open().Wake(cancelled, ports.Wakeup{Kind: "job", ID: "1"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
	}},
}

func backlogOf(t testing.TB, worker ports.Worker) []ports.Backlog {
	t.Helper()
	backlog, err := worker.Backlog(t.Context())
	if err != nil {
		t.Fatalf("backlog: %v", err)
	}
	return backlog
}

var queueBacklogs = []queueCheck{
	{"the backlog counts waiting jobs by kind, with their lateness", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		if backlog := backlogOf(t, worker); len(backlog) != 0 {
			t.Fatalf("the backlog of an empty queue is %+v, want no kinds", backlog)
		}
		inAnHour := time.Now().Add(time.Hour)
		wake(t, worker,
			ports.Wakeup{Kind: "late", ID: "1", At: time.Now().Add(-time.Hour)}, ports.Wakeup{Kind: "late", ID: "2", At: time.Now().Add(-time.Minute)},
			ports.Wakeup{Kind: "early", ID: "1", At: inAnHour}, ports.Wakeup{Kind: "early", ID: "2", Account: "ann", At: inAnHour}, ports.Wakeup{Kind: "early", ID: "3", At: inAnHour},
			ports.Wakeup{Kind: "now", ID: "1"})
		backlog := backlogOf(t, worker)
		if len(backlog) != 3 || backlog[0].Kind != "early" || backlog[1].Kind != "late" || backlog[2].Kind != "now" {
			t.Fatalf("got %+v, want the kinds early, late and now", backlog)
		}
		if backlog[0].Waiting != 3 || backlog[0].Lateness != 0 {
			t.Fatalf("got %+v, want three waiting and no lateness", backlog[0])
		}
		if late := backlog[1].Lateness - time.Hour; backlog[1].Waiting != 2 || late < -time.Second || late > time.Minute {
			t.Fatalf("got %+v, want two waiting and a lateness of an hour", backlog[1])
		}
		if backlog[2].Waiting != 1 || backlog[2].Lateness < 0 || backlog[2].Lateness > time.Minute {
			t.Fatalf("got %+v, want one waiting and a lateness of less than a minute", backlog[2])
		}
	}},
	{"a running job is not in the backlog", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		handlerBegun, release := make(chan bool, 10), make(chan bool)
		defer close(release)
		startWorker(t, worker, map[string]ports.Handler{"job": func(ctx context.Context, _ ports.Wakeup) error {
			handlerBegun <- true
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		}})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		receiveWithin(t, eventTimeout, handlerBegun, "the handler")
		if backlog := backlogOf(t, worker); len(backlog) != 0 {
			t.Fatalf("the backlog is %+v while the only job runs, want no kinds", backlog)
		}
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(time.Hour)})
		if backlog := backlogOf(t, worker); len(backlog) != 1 || backlog[0].Waiting != 1 {
			t.Fatalf("the job was woken while it ran, and the backlog is %+v, want one waiting", backlog)
		}
	}},
}

// maxJobsBefore is how many blocking jobs may start between a wake-up and the start of its handler.
// It is the number of blocking jobs that a worker can start in 5 s.
const maxJobsBefore = QueueMaxHandlers * int(5*time.Second/QueueHandlerTimeout)

func wakeMany(t testing.TB, q ports.Queue, account access.AccountID, n int) {
	t.Helper()
	wakeups := make([]ports.Wakeup, n)
	for i := range wakeups {
		wakeups[i] = ports.Wakeup{Kind: "flood", ID: fmt.Sprintf("%s-%d", account, i), Account: account}
	}
	wake(t, q, wakeups...)
}

// blockingHandler is a handler whose jobs run until their deadline.
type blockingHandler struct {
	begun       chan access.AccountID
	count       atomic.Int64
	countBefore sync.Map // count at the start of each other job, by job id
	otherJobs   int      // number of calls of requireShortDelay
}

// handlers returns the handlers of the blocking jobs ("flood") and of the other jobs ("job").
func (h *blockingHandler) handlers(recorder *wakeupRecorder) map[string]ports.Handler {
	return map[string]ports.Handler{"flood": h.handle, "job": func(ctx context.Context, wakeup ports.Wakeup) error {
		h.countBefore.LoadOrStore(wakeup.ID, h.count.Load())
		return recorder.record(ctx, wakeup)
	}}
}

func (h *blockingHandler) handle(ctx context.Context, wakeup ports.Wakeup) error {
	h.count.Add(1)
	select {
	case h.begun <- wakeup.Account:
	default: // the channel is full
	}
	<-ctx.Done()
	return nil
}

// startWithBacklog wakes many blocking jobs for each of several accounts, starts a worker, and
// waits until a job of each account has started.
func startWithBacklog(t testing.TB, open func() ports.Worker, accounts, jobsPerAccount int) (ports.Worker, *wakeupRecorder, *blockingHandler) {
	t.Helper()
	worker, recorder, blocker := open(), newWakeupRecorder(), &blockingHandler{begun: make(chan access.AccountID, accounts*jobsPerAccount)}
	for i := range accounts {
		wakeMany(t, worker, access.AccountID(fmt.Sprintf("ann-%d", i)), jobsPerAccount)
	}
	startWorker(t, worker, blocker.handlers(recorder))
	for seen := map[access.AccountID]bool{}; len(seen) < accounts; {
		seen[receiveWithin(t, eventTimeout, blocker.begun, "a blocking job of each account")] = true
	}
	return worker, recorder, blocker
}

// requireShortDelay wakes a job of an account and checks that at most maxJobsBefore blocking jobs
// start before it. It skips wake-ups of earlier jobs (see requireNext).
func requireShortDelay(t testing.TB, worker ports.Worker, recorder *wakeupRecorder, blocker *blockingHandler, account access.AccountID) {
	t.Helper()
	blocker.otherJobs++
	id := fmt.Sprintf("%s-%d", account, blocker.otherJobs)
	wake(t, worker, ports.Wakeup{Kind: "job", ID: id, Account: account})
	countAtWake := blocker.count.Load() // after Wake, which can be slow
	for recorder.next(t).ID != id {
	}
	countBefore, _ := blocker.countBefore.Load(id)
	if startedBefore := countBefore.(int64) - countAtWake; startedBefore > int64(maxJobsBefore) {
		t.Fatalf("the job of %q began after %d blocking jobs, want at most %d", account, startedBefore, maxJobsBefore)
	}
}

var queueShares = []queueCheck{
	{"10,000 jobs of an account delay the first job of a different account by at most 5 s", func(t testing.TB, open func() ports.Worker) {
		worker, recorder, blocker := startWithBacklog(t, open, 1, 10_000)
		for _, account := range []access.AccountID{"bob", "cem", "bob", ""} {
			requireShortDelay(t, worker, recorder, blocker, account)
		}
	}},
	{"an account's jobs in a separate fairness group do not delay its other jobs by more than 5 s", func(t testing.TB, open func() ports.Worker) {
		worker, recorder, blocker := open(), newWakeupRecorder(), &blockingHandler{begun: make(chan access.AccountID, 2000)}
		var wakeups []ports.Wakeup
		for i := range 2000 {
			wakeups = append(wakeups, ports.Wakeup{Kind: "flood", ID: fmt.Sprint(i), Account: "ann", SeparateGroup: true})
		}
		wake(t, worker, wakeups...)
		startWorker(t, worker, blocker.handlers(recorder))
		if account := receiveWithin(t, eventTimeout, blocker.begun, "a job of the separate group"); account != "ann" {
			t.Fatalf("the first job belongs to the account %q, want ann", account)
		}
		requireShortDelay(t, worker, recorder, blocker, "ann")
	}},
	{"the jobs of several accounts do not delay the first job of a different account by more than 5 s", func(t testing.TB, open func() ports.Worker) {
		worker, recorder, blocker := startWithBacklog(t, open, 5, 500)
		requireShortDelay(t, worker, recorder, blocker, "bob")
	}},
	{"a single account can use half of the handler slots", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		begun, release := make(chan string, 100), make(chan bool)
		defer close(release)
		wakeMany(t, worker, "ann", 100)
		startWorker(t, worker, map[string]ports.Handler{"flood": func(_ context.Context, wakeup ports.Wakeup) error {
			begun <- wakeup.ID
			<-release
			return nil
		}})
		for seen := map[string]bool{}; len(seen) < QueueMaxHandlers/2; {
			seen[receiveWithin(t, eventTimeout, begun, "one more handler")] = true
		}
	}},
}
