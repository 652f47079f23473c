// SPDX-License-Identifier: Apache-2.0

package queuecontract

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

var errBroken = errors.New("broken")

// QueuePeriodic starts replicas with the same periodic work, which is due once a second. It waits
// for the given number of runs. It fails if there are more runs than ports.Periodic allows: one at
// the start of each replica, and one for each clock second that has begun since. A slow machine can
// only reduce the number of runs.
func QueuePeriodic(t testing.TB, runs int, replicas ...ports.Worker) {
	t.Helper()
	const every = time.Second
	runTimes := make(chan time.Time, 1000)
	began := time.Now()
	for _, worker := range replicas {
		startWorker(t, worker, nil, ports.Periodic{Kind: "sweep", Every: every, Do: func(context.Context) error {
			runTimes <- time.Now()
			return nil
		}})
	}
	for earlierRuns := range runs {
		at := receiveWithin(t, eventTimeout, runTimes, "periodic work")
		seconds := int(at.Truncate(every).Sub(began.Truncate(every)) / every)
		if maxRuns := len(replicas) + seconds; earlierRuns+1 > maxRuns {
			t.Fatalf("periodic work ran %d times in %s, want at most %d", earlierRuns+1, at.Sub(began), maxRuns)
		}
	}
}

var queueFailures = []queueCheck{
	{"a job is retried with pauses after an error or a panic", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		tries := make(chan time.Time, 10)
		startWorker(t, worker, map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error {
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
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		for end := time.After(eventTimeout); len(tries) < 3; {
			select {
			case <-end:
				t.Fatalf("the job was tried %d times within %s, want 3", len(tries), eventTimeout)
			case <-time.After(10 * time.Millisecond):
			}
		}
		previousTry := <-tries
		for range 2 {
			try := <-tries
			if pause := try.Sub(previousTry); pause < QueueRetryDelay*9/10 {
				t.Fatalf("the job was tried again after %s, want a pause of %s", pause, QueueRetryDelay)
			}
			previousTry = try
		}
	}},
	{"the pauses of a failing job grow, even if the job is woken while its handler runs", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		tries := make(chan time.Time, 10)
		startWorker(t, worker, map[string]ports.Handler{"job": func(ctx context.Context, _ ports.Wakeup) error {
			tries <- time.Now()
			// This wake-up is due after all retries of this check.
			return errors.Join(errBroken, worker.Wake(ctx, ports.Wakeup{Kind: "job", ID: "1", At: time.Now().Add(time.Hour)}))
		}})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		previousTry := receiveWithin(t, eventTimeout, tries, "the first try")
		for failures := range 3 {
			try := receiveWithin(t, eventTimeout, tries, "a retry")
			if try.Sub(previousTry) >= QueueRescueAfter {
				return // on a slow machine, the queue may run the job again and not count the failure
			}
			if pause, want := try.Sub(previousTry), QueueRetryDelay<<failures; pause < want*9/10 {
				t.Fatalf("after %d failures the job was tried again after %s, want a pause of %s", failures+1, pause, want)
			}
			previousTry = try
		}
	}},
	{"a failing job does not affect other jobs", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		startWorker(t, worker, map[string]ports.Handler{"job": recorder.record, "bad": func(context.Context, ports.Wakeup) error { panic(errBroken) }})
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
			wake(t, worker, ports.Wakeup{Kind: "bad", ID: id})
		}
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "good"})
		recorder.requireNext(t, "good")
	}},
	{"a handler has a deadline, after which its job is retried", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		var tries atomic.Int32
		timesLeft := make(chan time.Duration, 1)
		startWorker(t, worker, map[string]ports.Handler{"job": func(ctx context.Context, wakeup ports.Wakeup) error {
			if tries.Add(1) > 1 {
				return recorder.record(ctx, wakeup)
			}
			end, ok := ctx.Deadline()
			if !ok {
				end = time.Now().Add(time.Hour)
			}
			timesLeft <- time.Until(end)
			<-ctx.Done()
			return ctx.Err()
		}})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		if left := receiveWithin(t, eventTimeout, timesLeft, "the handler"); left > QueueHandlerTimeout {
			t.Fatalf("the handler's deadline is in %s, want at most %s", left, QueueHandlerTimeout)
		}
		recorder.requireNext(t, "1")
	}},
	{"periodic work runs at the start and again, even after a failure", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		runTimes := make(chan time.Time, 100)
		var runs atomic.Int32
		startWorker(t, worker, nil, ports.Periodic{Kind: "sweep", Every: 400 * time.Millisecond, Do: func(context.Context) error {
			runTimes <- time.Now()
			switch runs.Add(1) {
			case 2:
				return errBroken
			case 3:
				panic(errBroken)
			default:
				return nil
			}
		}})
		for range 6 {
			receiveWithin(t, eventTimeout, runTimes, "periodic work")
		}
	}},
	{"periodic work does not run more often than its interval", func(t testing.TB, open func() ports.Worker) {
		QueuePeriodic(t, 4, open())
	}},
	{"a kind has one handler", func(t testing.TB, open func() ports.Worker) {
		err := open().Start(t.Context(), ports.Work{
			Handlers: recordingHandlers(newWakeupRecorder()),
			Periodic: []ports.Periodic{{Kind: "job", Every: time.Second, Do: func(context.Context) error { return nil }}},
		})
		if err == nil {
			t.Fatal("a handler and periodic work of the same kind were accepted, want an error")
		}
	}},
}

// stopWorker calls Stop with this timeout and returns its error. It fails the test if Stop does
// not return.
func stopWorker(t testing.TB, worker ports.Worker, timeout time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- worker.Stop(ctx) }()
	return receiveWithin(t, timeout+eventTimeout, ended, "the end of Stop")
}

var queueStops = []queueCheck{
	{"a stop waits for running handlers and starts no job", func(t testing.TB, open func() ports.Worker) {
		worker, recorder := open(), newWakeupRecorder()
		handlerBegun, release := make(chan bool, 10), make(chan bool)
		startWorker(t, worker, map[string]ports.Handler{"job": recorder.record, "long": func(ctx context.Context, wakeup ports.Wakeup) error {
			handlerBegun <- true
			<-release
			if errors.Is(ctx.Err(), context.Canceled) { // cancelled by Stop, not by its deadline
				return ctx.Err()
			}
			return recorder.record(ctx, wakeup)
		}})
		wake(t, worker, ports.Wakeup{Kind: "long", ID: "1"})
		receiveWithin(t, eventTimeout, handlerBegun, "the handler")
		time.AfterFunc(300*time.Millisecond, func() { close(release) })
		if err := stopWorker(t, worker, eventTimeout); err != nil {
			t.Fatal(err)
		}
		recorder.requireNext(t, "1")
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "2"})
		recorder.requireAtMost(t, "2", 0)
	}},
	{"a job that a stop interrupts is run again", func(t testing.TB, open func() ports.Worker) {
		jobs := newJobLog(t, "1")
		handlerBegun := make(chan bool, 10)
		worker := open()
		startWorker(t, worker, map[string]ports.Handler{"job": func(ctx context.Context, _ ports.Wakeup) error {
			handlerBegun <- true
			<-ctx.Done()
			return ctx.Err()
		}})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		receiveWithin(t, eventTimeout, handlerBegun, "the handler")
		// Stop may return an error because the handler ended late. The job must run again in either
		// case.
		_ = stopWorker(t, worker, QueueHandlerTimeout/2)
		restarted, recorder := open(), newWakeupRecorder()
		startWorker(t, restarted, recordingHandlers(recorder), jobs.sweep(restarted))
		recorder.requireNext(t, "1")
	}},
	{"a stop returns although a handler does not", func(t testing.TB, open func() ports.Worker) {
		worker := open()
		handlerBegun, release := make(chan bool, 10), make(chan bool)
		defer close(release)
		startWorker(t, worker, map[string]ports.Handler{"job": func(context.Context, ports.Wakeup) error {
			handlerBegun <- true
			<-release
			return nil
		}})
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		receiveWithin(t, eventTimeout, handlerBegun, "the handler")
		if err := stopWorker(t, worker, time.Second); err == nil {
			t.Fatal("Stop returned no error, although a handler did not end")
		}
	}},
}

var queueSweeps = []queueCheck{
	{"the sweep finds a lost wake-up", func(t testing.TB, open func() ports.Worker) {
		jobs, recorder, worker := newJobLog(t, "lost"), newWakeupRecorder(), open()
		startWorker(t, worker, recordingHandlers(recorder), jobs.sweep(worker))
		recorder.requireNext(t, "lost")
	}},
	{"a worker that lost its job cannot save", func(t testing.TB, open func() ports.Worker) {
		jobs, worker := newJobLog(t, "1"), open()
		saveOfFirstClaim, saveOfLaterClaim := make(chan error, 10), make(chan error, 10)
		paused, resume := make(chan bool, 10), make(chan bool)
		release := sync.OnceFunc(func() { close(resume) })
		defer release()
		step := func(context.Context, ports.Wakeup) error {
			epoch, ok, err := jobs.Take("1")
			switch {
			case err != nil || !ok:
				return err
			case epoch == 1: // pauses until a later claim has saved
				paused <- true
				<-resume
				saveOfFirstClaim <- jobs.Save("1", epoch)
			default:
				// On a slow machine, this claim may be outdated too. A later claim then saves.
				if err := jobs.Save("1", epoch); !errors.Is(err, errOutdatedEpoch) {
					saveOfLaterClaim <- err
				}
			}
			return nil
		}
		// Both workers have the sweep, because a worker without it would postpone the sweep by one
		// minute.
		startWorker(t, worker, map[string]ports.Handler{"job": step}, jobs.sweep(worker))
		wake(t, worker, ports.Wakeup{Kind: "job", ID: "1"})
		receiveWithin(t, eventTimeout, paused, "the first claim")
		takeoverWorker := open()
		startWorker(t, takeoverWorker, map[string]ports.Handler{"job": step}, jobs.sweep(takeoverWorker))
		if err := receiveWithin(t, eventTimeout, saveOfLaterClaim, "the save of a later claim"); err != nil {
			t.Fatal(err)
		}
		release()
		if err := receiveWithin(t, eventTimeout, saveOfFirstClaim, "the save of the first claim"); err == nil {
			t.Fatal("the first claim overwrote the result of a later claim")
		}
	}},
}
