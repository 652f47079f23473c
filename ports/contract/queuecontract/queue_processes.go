// SPDX-License-Identifier: Apache-2.0

package queuecontract

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/ports"
)

// QueueProcesses runs the checks in which worker processes are killed and paused. Each job must be
// saved exactly once. newQueue creates an empty queue and returns a function that makes the command
// of a process. The command runs the test's own binary, which calls QueueProcess with dir. replicas
// is the number of processes that are killed at the same time.
func QueueProcesses(t *testing.T, replicas int, newQueue func(t *testing.T) (command func(dir string) *exec.Cmd)) {
	t.Run("killed again and again", func(t *testing.T) {
		t.Parallel()
		p := processes{dir: t.TempDir(), replicas: replicas, command: newQueue(t)}
		p.killRepeatedly(t, p.createJobs(t, 150))
	})
	t.Run("paused and continued", func(t *testing.T) {
		t.Parallel()
		p := processes{dir: t.TempDir(), replicas: replicas, command: newQueue(t)}
		p.pauseWorker(t)
	})
}

// QueueOutlivesProcesses checks that the jobs of killed processes run again without the sweep (see
// ports.Sweep). It is for a queue whose storage survives its processes.
func QueueOutlivesProcesses(t *testing.T, replicas int, q ports.Queue, command func(dir string) *exec.Cmd) {
	p := processes{dir: t.TempDir(), replicas: replicas, command: command}
	p.createFile(t, "no-sweep")
	jobs := p.createJobs(t, 150)
	due, err := jobs.Due(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wake(t, q, due...)
	p.killRepeatedly(t, jobs)
}

// processes starts worker processes that share the jobs in dir.
type processes struct {
	dir      string
	replicas int
	command  func(dir string) *exec.Cmd
}

// QueueProcess runs a worker on the jobs in dir until standard input is closed.
func QueueProcess(ctx context.Context, dir string, worker ports.Worker) error {
	jobs := &jobLog{filepath.Join(dir, "rows")}
	var periodic []ports.Periodic
	if !fileExists(dir, "no-sweep") {
		periodic = append(periodic, jobs.sweep(worker))
	}
	var hasFirstClaim atomic.Bool
	err := worker.Start(ctx, ports.Work{Periodic: periodic, Handlers: map[string]ports.Handler{
		"job": func(_ context.Context, wakeup ports.Wakeup) error { return jobs.handle(dir, wakeup.ID, &hasFirstClaim) },
	}})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	stopCtx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	return worker.Stop(stopCtx)
}

// handle claims a job, works for 50 ms and saves the result. While the file "hold" exists, the
// process that has claimed a job first saves nothing. On a slow machine, it may claim the job
// again.
func (l *jobLog) handle(dir, id string, hasFirstClaim *atomic.Bool) error {
	epoch, ok, err := l.Take(id)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s is claimed by a different worker", id)
	}
	if epoch == 1 {
		hasFirstClaim.Store(true)
	}
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end) || hasFirstClaim.Load() && fileExists(dir, "hold"); {
		<-time.After(5 * time.Millisecond)
	}
	if err := l.Save(id, epoch); !errors.Is(err, errOutdatedEpoch) {
		return err
	}
	return nil
}

func fileExists(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

func (p processes) createFile(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// createJobs creates n jobs in the shared directory.
func (p processes) createJobs(t *testing.T, n int) *jobLog {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	created := newJobLog(t, ids...)
	shared := &jobLog{filepath.Join(p.dir, "rows")}
	if err := os.Rename(created.path, shared.path); err != nil {
		t.Fatal(err)
	}
	return shared
}

// process is a running worker process. It is killed at the end of the test at the latest.
type process struct {
	*exec.Cmd
	input io.Closer
	ended bool
}

func (p processes) start(t *testing.T) *process {
	t.Helper()
	started := &process{Cmd: p.command(p.dir)}
	started.Stderr = os.Stderr
	input, err := started.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	started.input = input
	if err := started.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(started.kill)
	return started
}

func (p *process) kill() {
	if !p.ended {
		_ = p.Process.Kill()
		_ = p.Wait()
		p.ended = true
	}
}

// stop closes the standard input of the process and waits for its exit.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.input.Close()
	p.ended = true
	if err := p.Wait(); err != nil {
		t.Fatalf("a stopped process ended with %v, want no error", err)
	}
}

// killRounds is how often killRepeatedly kills all processes.
const killRounds = 4

// killRepeatedly kills all processes several times while they work. It then checks that each job
// was saved exactly once.
func (p processes) killRepeatedly(t *testing.T, jobs *jobLog) {
	running := make([]*process, p.replicas)
	areAllSaved := func() bool {
		events := jobs.events(t)
		return countEvents(events, "saved") >= countEvents(events, "added")
	}
	endedEarly := false // on a slow machine, all jobs may be saved before the last kill
	for round := range killRounds + 1 {
		before := countEvents(jobs.events(t), "taken")
		for i := range running {
			running[i] = p.start(t)
		}
		if round == killRounds {
			break
		}
		// The kill must interrupt some jobs. Wait until the number of claimed jobs exceeds half of
		// the handlers of one process.
		waitFor(t, "several jobs are claimed", func() bool {
			endedEarly = areAllSaved()
			return endedEarly || countEvents(jobs.events(t), "taken") > before+QueueMaxHandlers/2
		})
		for _, worker := range running {
			worker.kill()
		}
	}
	waitFor(t, "all jobs are saved", areAllSaved)
	for _, worker := range running {
		worker.stop(t)
	}
	saved, rerun := map[string]int{}, false
	ids, _ := jobStates(jobs.events(t))
	for _, event := range jobs.events(t) {
		if event.What == "saved" {
			saved[event.ID]++
			rerun = rerun || event.Epoch > 1
		}
	}
	for _, id := range ids {
		if saved[id] != 1 {
			t.Errorf("job %s was saved %d times, want once", id, saved[id])
		}
	}
	if !rerun && !endedEarly {
		t.Error("every job was saved by its first claim, want some kills while a handler runs")
	}
}

// pauseWorker suspends the process that works on a job until a second process has saved the job. It
// then checks that the suspended process cannot save its result.
func (p processes) pauseWorker(t *testing.T) {
	p.createFile(t, "hold")
	jobs := p.createJobs(t, 1)
	suspended := p.start(t)
	waitFor(t, "a job is claimed", func() bool { return countEvents(jobs.events(t), "taken") >= 1 })
	// A suspended process must not have the lock of the file, which the second process needs.
	var signalErr error
	if err := jobs.update(func([]jobEvent) []jobEvent { signalErr = suspended.Process.Signal(syscall.SIGSTOP); return nil }); err != nil {
		t.Fatal(err)
	}
	if signalErr != nil {
		t.Fatal(signalErr)
	}
	takeover := p.start(t)
	waitFor(t, "a second process saves the job", func() bool { return countEvents(jobs.events(t), "saved") == 1 })
	if err := os.Remove(filepath.Join(p.dir, "hold")); err != nil {
		t.Fatal(err)
	}
	if err := suspended.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the suspended process tries to save", func() bool {
		return slices.ContainsFunc(jobs.events(t), func(e jobEvent) bool { return e.PID == suspended.Process.Pid && e.What == "refused" })
	})
	suspended.stop(t)
	takeover.stop(t)
	for _, event := range jobs.events(t) {
		if event.PID == suspended.Process.Pid && event.What == "saved" {
			t.Errorf("the suspended process saved the job: %+v", event)
		}
	}
}

func countEvents(events []jobEvent, what string) (n int) {
	for _, event := range events {
		if event.What == what {
			n++
		}
	}
	return n
}

func waitFor(t *testing.T, condition string, done func() bool) {
	t.Helper()
	for end := time.After(eventTimeout); !done(); {
		select {
		case <-end:
			t.Fatalf("this did not happen within %s: %s", eventTimeout, condition)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// jobLog stores jobs in a file that several processes share. Like a real store, it gives each claim
// of a job a new epoch, and refuses the result of a claim with an older epoch. Each event is one
// line, so the file is also the history.
type jobLog struct{ path string }

// jobEvent is one line of the file.
type jobEvent struct {
	ID    string    `json:"id"`
	What  string    `json:"what"` // added, taken, saved or refused
	Epoch int       `json:"epoch"`
	At    time.Time `json:"at"`
	PID   int       `json:"pid"`
}

var errOutdatedEpoch = errors.New("the job is saved already or has a different epoch")

// newJobLog creates the file, with these jobs, in a temporary directory of t. A check calls it
// before it opens a worker, so that the worker stops before the directory is removed.
func newJobLog(t testing.TB, ids ...string) *jobLog {
	t.Helper()
	l := &jobLog{filepath.Join(t.TempDir(), "rows")}
	err := l.update(func([]jobEvent) (more []jobEvent) {
		for _, id := range ids {
			more = append(more, jobEvent{ID: id, What: "added"})
		}
		return more
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// jobState is the state of a job after the events in the file.
type jobState struct {
	epoch     int
	claimedAt time.Time
	saved     bool
}

func (s jobState) isAvailable(now time.Time) bool {
	return !s.saved && now.Sub(s.claimedAt) > QueueRescueAfter
}

func jobStates(events []jobEvent) (ids []string, states map[string]jobState) {
	states = map[string]jobState{}
	for _, event := range events {
		state := states[event.ID]
		switch event.What {
		case "added":
			ids = append(ids, event.ID)
		case "taken":
			state.epoch, state.claimedAt = event.Epoch, event.At
		case "saved":
			state.saved = true
		}
		states[event.ID] = state
	}
	return ids, states
}

// Take claims a job and increments its epoch. ok is false if the job is saved, or if its last claim
// is at most QueueRescueAfter old.
func (l *jobLog) Take(id string) (epoch int, ok bool, err error) {
	err = l.update(func(events []jobEvent) []jobEvent {
		_, states := jobStates(events)
		if !states[id].isAvailable(time.Now()) {
			return nil
		}
		epoch, ok = states[id].epoch+1, true
		return []jobEvent{{ID: id, What: "taken", Epoch: epoch}}
	})
	return epoch, ok, err
}

// Save stores the result of a job. It fails with errOutdatedEpoch if the job is saved already, or
// if it was claimed again after the claim with this epoch.
func (l *jobLog) Save(id string, epoch int) error {
	outdated := false
	err := l.update(func(events []jobEvent) []jobEvent {
		_, states := jobStates(events)
		if outdated = states[id].saved || states[id].epoch != epoch; outdated {
			return []jobEvent{{ID: id, What: "refused", Epoch: epoch}}
		}
		return []jobEvent{{ID: id, What: "saved", Epoch: epoch}}
	})
	if outdated {
		err = errors.Join(err, errOutdatedEpoch)
	}
	return err
}

// Due returns a wake-up for each job that Take can claim. The jobs belong to four accounts.
func (l *jobLog) Due(context.Context) (due []ports.Wakeup, err error) {
	err = l.update(func(events []jobEvent) []jobEvent {
		ids, states := jobStates(events)
		for i, id := range ids {
			if states[id].isAvailable(time.Now()) {
				due = append(due, ports.Wakeup{Kind: "job", ID: id, Account: access.AccountID(fmt.Sprint("ann-", i%4))})
			}
		}
		return nil
	})
	return due, err
}

func (l *jobLog) sweep(q ports.Queue) ports.Periodic {
	return ports.Sweep("sweep", 500*time.Millisecond, q, l.Due)
}

// events returns all events, oldest first.
func (l *jobLog) events(t testing.TB) (all []jobEvent) {
	t.Helper()
	if err := l.update(func(events []jobEvent) []jobEvent { all = events; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// update is one transaction: decide receives all events and returns the events to append.
func (l *jobLog) update(decide func([]jobEvent) []jobEvent) error {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // also releases the lock
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	var events []jobEvent
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var event jobEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return err
		}
		events = append(events, event)
	}
	var text []byte
	for _, event := range decide(events) {
		event.At, event.PID = time.Now(), os.Getpid()
		line, err := json.Marshal(event)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	if len(text) == 0 {
		return lines.Err()
	}
	_, err = file.Write(text)
	return errors.Join(lines.Err(), err)
}
