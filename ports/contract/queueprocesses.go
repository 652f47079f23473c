// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// QueueProcesses is the part of the contract that is about processes which
// are killed and paused: whatever becomes of them, no job is lost and none done
// twice. place makes a new, empty queue each time and returns a command, of
// the test's own binary, that calls QueueProcess with dir. There are that
// many replicas at once.
func QueueProcesses(t *testing.T, replicas int, place func(t *testing.T) (command func(dir string) *exec.Cmd)) {
	t.Run("killed again and again", func(t *testing.T) {
		t.Parallel()
		p := processes{dir: t.TempDir(), replicas: replicas, command: place(t)}
		p.kills(t, p.jobs(t, 150))
	})
	t.Run("paused and continued", func(t *testing.T) {
		t.Parallel()
		p := processes{dir: t.TempDir(), replicas: replicas, command: place(t)}
		p.pause(t)
	})
}

// QueueOutlives is for a queue that outlives its processes: it finds their
// jobs without a sweep too.
func QueueOutlives(t *testing.T, replicas int, q ports.Queue, command func(dir string) *exec.Cmd) {
	p := processes{dir: t.TempDir(), replicas: replicas, command: command}
	p.leave(t, "no-sweep")
	jobs := p.jobs(t, 150)
	due, err := jobs.Due(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wake(t, q, due...)
	p.kills(t, jobs)
}

type processes struct {
	dir      string
	replicas int
	command  func(dir string) *exec.Cmd
}

// QueueProcess works on the rows of a folder until its input ends.
func QueueProcess(ctx context.Context, dir string, w ports.Worker) error {
	jobs := &rows{filepath.Join(dir, "rows")}
	var periodic []ports.Periodic
	if !there(dir, "no-sweep") {
		periodic = append(periodic, jobs.sweep(w))
	}
	err := w.Start(ctx, ports.Work{Periodic: periodic, Handlers: map[string]ports.Handler{
		"job": func(_ context.Context, w ports.Wakeup) error { return jobs.step(dir, w.ID) },
	}})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	ending, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	return w.Stop(ending)
}

// step is what a worker does to a row. As long as there is a hold, the
// first one to take the row does not notice how time goes by.
func (r *rows) step(dir, id string) error {
	epoch, ok, err := r.Take(id)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s is another's for now", id)
	}
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end) || (epoch == 1 && there(dir, "hold")); {
		<-time.After(5 * time.Millisecond)
	}
	if err := r.Save(id, epoch); !errors.Is(err, errLate) {
		return err
	}
	return nil
}

func there(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return err == nil
}

// leave makes a file that processes look for.
func (p processes) leave(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// jobs makes rows.
func (p processes) jobs(t *testing.T, n int) *rows {
	t.Helper()
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	made := newRows(t, ids...)
	r := &rows{filepath.Join(p.dir, "rows")}
	if err := os.Rename(made.path, r.path); err != nil {
		t.Fatal(err)
	}
	return r
}

// process is one that works; it ends with the test at the latest.
type process struct {
	*exec.Cmd
	input io.Closer
	ended bool
}

func (p processes) start(t *testing.T) *process {
	t.Helper()
	c := &process{Cmd: p.command(p.dir)}
	c.Stderr = os.Stderr
	input, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.input = input
	if err := c.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	return c
}

func (c *process) kill() {
	if !c.ended {
		_ = c.Process.Kill()
		_ = c.Wait()
		c.ended = true
	}
}

// stop is the graceful end.
func (c *process) stop(t *testing.T) {
	t.Helper()
	_ = c.input.Close()
	c.ended = true
	if err := c.Wait(); err != nil {
		t.Fatalf("the end of a process: %v", err)
	}
}

const kills = 4

func (p processes) kills(t *testing.T, jobs *rows) {
	running := make([]*process, p.replicas)
	for round := range kills + 1 {
		before := marked(jobs.marks(t), "taken")
		for i := range running {
			running[i] = p.start(t)
		}
		if round == kills {
			break
		}
		// Some were begun and not ended: that many are at work at once.
		await(t, "work begins", func() bool { return marked(jobs.marks(t), "taken") > before+QueueAtOnce/2 })
		for _, c := range running {
			c.kill()
		}
	}
	await(t, "all is done", func() bool { return marked(jobs.marks(t), "saved") >= marked(jobs.marks(t), "added") })
	for _, c := range running {
		c.stop(t)
	}
	saved, again := map[string]int{}, false
	ids, _ := rowsOf(jobs.marks(t))
	for _, m := range jobs.marks(t) {
		if m.What == "saved" {
			saved[m.ID]++
			again = again || m.Epoch > 1
		}
	}
	for _, id := range ids {
		if saved[id] != 1 {
			t.Errorf("%s was saved %d times", id, saved[id])
		}
	}
	if !again {
		t.Error("no kill was in the middle of a handler")
	}
}

// pause stops the process that works on a row in the middle of it until
// another has done the work.
func (p processes) pause(t *testing.T) {
	p.leave(t, "hold")
	jobs := p.jobs(t, 1)
	first := p.start(t)
	await(t, "work begins", func() bool { return marked(jobs.marks(t), "taken") == 1 })
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second := p.start(t)
	await(t, "another process does it", func() bool { return marked(jobs.marks(t), "saved") == 1 })
	if err := os.Remove(filepath.Join(p.dir, "hold")); err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, "the first process tries to save", func() bool { return marked(jobs.marks(t), "refused") >= 1 })
	first.stop(t)
	second.stop(t)
	for _, m := range jobs.marks(t) {
		late := m.PID == first.Process.Pid && m.Epoch == 1
		if (m.What == "saved") == late && m.What != "added" && m.What != "taken" {
			t.Errorf("%+v, though the first process has pid %d", m, first.Process.Pid)
		}
	}
}

func marked(marks []mark, what string) (n int) {
	for _, m := range marks {
		if m.What == what {
			n++
		}
	}
	return n
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.After(soon); !done(); {
		select {
		case <-end:
			t.Fatalf("not within %s: %s", soon, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
