// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/queue"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// secondProcess is a process that works on a job of the test.
type secondProcess struct {
	cmd         *exec.Cmd
	databaseURL string
	in          io.WriteCloser
	lines       *bufio.Reader
}

// newSharedFixture returns a fixture in a database that two processes can share. It has a job whose
// next step verifies the domain. A second process claims the job and waits at point.
func newSharedFixture(t *testing.T, point string) (*fixture, string, *secondProcess) {
	t.Helper()
	url := testserver.Database(t)
	fx := newFixtureIn(t, url)
	fx.connect(t, fx.provider)
	id := fx.createJob(t, func(j *provisioning.Job) {
		j.Stage, j.Next = provisioning.StageDomainVerification, provisioning.Verify
	}).ID
	process := &secondProcess{cmd: exec.CommandContext(t.Context(), os.Args[0]), databaseURL: url}
	process.cmd.Env = append(os.Environ(), pausePointEnv+"="+point, databaseEnv+"="+url, jobEnv+"="+id)
	process.cmd.Stderr = os.Stderr
	var err error
	process.in, err = process.cmd.StdinPipe()
	must(t, err)
	stdout, err := process.cmd.StdoutPipe()
	must(t, err)
	process.lines = bufio.NewReader(stdout)
	must(t, process.cmd.Start())
	t.Cleanup(func() {
		_ = process.cmd.Process.Kill()
		_ = process.cmd.Wait()
	})
	return fx, id, process
}

// readUntil reads the output of the process up to a line that begins with word, and returns the
// lines before that line.
func (p *secondProcess) readUntil(t *testing.T, word string) (linesBefore []string) {
	t.Helper()
	for {
		line, err := p.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the second process ended after the lines %q, before a line with %q: %v", linesBefore, word, err)
		}
		if strings.HasPrefix(line, word) {
			return linesBefore
		}
		linesBefore = append(linesBefore, strings.TrimSpace(line))
	}
}

// TestAStoppedProcessCannotWrite sends SIGSTOP to a process that holds a job, at each point around
// its first write. When the lease has expired, the worker of the test finishes the job. Then the
// stopped process continues. From then on, it must neither write to the platform nor change the
// job.
func TestAStoppedProcessCannotWrite(t *testing.T) {
	for point, wantWrites := range map[string]int{beforeCheck: 0, afterCheck: 0, beforeSave: 1} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			fx, id, process := newSharedFixture(t, point)
			lines := process.readUntil(t, "here")
			must(t, process.cmd.Process.Signal(syscall.SIGSTOP))
			stopped := time.Now()
			for fx.job(t, id).Epoch == 1 {
				must(t, fx.Handle(t.Context(), ports.Wakeup{Kind: Kind, ID: id}))
				<-time.After(20 * time.Millisecond)
			}
			finished := fx.run(t, fx.Worker, id)
			<-time.After(time.Until(stopped.Add(leaseDuration))) // the lease that the stopped process knows has then expired too
			_, err := io.WriteString(process.in, "on\n")
			must(t, err)
			must(t, process.cmd.Process.Signal(syscall.SIGCONT))
			lines = append(lines, process.readUntil(t, "ended")...)
			if n := strings.Count(strings.Join(lines, " "), "wrote"); n != wantWrites {
				t.Errorf("the stopped process wrote %d times, want %d", n, wantWrites)
			}
			if got := fx.job(t, id); got != finished {
				t.Errorf("the stopped process changed the job from %+v to %+v", finished, got)
			}
		})
	}
}

// TestAKilledProcessIsRescued kills a process that holds a job. The sweep of the test's worker
// finds the job, and the worker continues the job. With the sweep interval of production this takes
// at most 90 s.
func TestAKilledProcessIsRescued(t *testing.T) {
	t.Parallel()
	sweepInterval, limit := time.Second, apptest.HangTimeout
	if soak.Enabled() {
		sweepInterval, limit = 30*time.Second, 90*time.Second
	}
	fx, id, process := newSharedFixture(t, beforeSave)
	process.readUntil(t, "here")
	_, err := queue.Migrate(t.Context(), process.databaseURL)
	must(t, err)
	river, err := queue.OpenRiver(t.Context(), process.databaseURL, queue.Options{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), apptest.HangTimeout)
		defer cancel()
		must(t, river.Stop(ctx))
		must(t, river.Close(ctx))
	})
	continued := make(chan time.Time, 100)
	rescuer := fx.worker(dependencies{fx.fake, fx.store, fx.store, fx.providers})
	rescuer.Queue = river
	must(t, river.Start(t.Context(), ports.Work{
		Handlers: map[string]ports.Handler{Kind: func(ctx context.Context, wakeup ports.Wakeup) error {
			err := rescuer.Handle(ctx, wakeup)
			if j, jobErr := fx.store.Job(ctx, fx.account.ID, id); jobErr == nil && j.Epoch > 1 {
				continued <- time.Now()
			}
			return err
		}},
		Periodic: []ports.Periodic{rescuer.Sweep(sweepInterval)},
	}))
	must(t, process.cmd.Process.Kill())
	killed := time.Now()
	select {
	case at := <-continued:
		t.Logf("a worker continued the job after %s", at.Sub(killed))
	case <-time.After(limit):
		t.Fatalf("no worker continued the job within %s: %+v", limit, fx.job(t, id))
	}
}
