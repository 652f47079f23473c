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

// testLease returns the duration of the leases in tests that stop or kill a process. A running
// process can renew such a lease in time even on a slow machine. A soak uses the duration of
// production.
func testLease() time.Duration {
	if soak.On() {
		return defaultLease
	}
	return 8 * time.Second
}

// secondProcess is a process that works on a job of the test.
type secondProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

// shared returns a fixture in PostgreSQL with a job that is about to be verified. A second process
// has claimed the job and waits at point.
func shared(t *testing.T, point string) (*fixture, string, *secondProcess) {
	t.Helper()
	url := testserver.Database(t)
	fx := newFixtureIn(t, url)
	fx.connect(t, fx.provider)
	const run, id = "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"
	j := provisioning.NewJob(id, run, fx.acc.ID, fx.domain.ID, theTenant, zone, fx.clock)
	j.Stage, j.Next = provisioning.StageDomainVerification, provisioning.Verify
	must(t, fx.store.CreateRun(t.Context(), provisioning.Run{ID: run, Account: fx.acc.ID, TotalDomains: 1, CreatedAt: fx.clock}, []provisioning.Job{j}, nil))
	o := &secondProcess{cmd: exec.CommandContext(t.Context(), os.Args[0])}
	o.cmd.Env = append(os.Environ(), pausePointEnv+"="+point, databaseEnv+"="+url, jobEnv+"="+id, leaseEnv+"="+testLease().String())
	o.cmd.Stderr = os.Stderr
	var err error
	o.in, err = o.cmd.StdinPipe()
	must(t, err)
	out, err := o.cmd.StdoutPipe()
	must(t, err)
	o.lines = bufio.NewReader(out)
	must(t, o.cmd.Start())
	t.Cleanup(func() {
		_ = o.cmd.Process.Kill()
		_ = o.cmd.Wait()
	})
	return fx, id, o
}

// readUntil reads the output of the process up to word, and returns the lines before it.
func (o *secondProcess) readUntil(t *testing.T, word string) (before []string) {
	t.Helper()
	for {
		line, err := o.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the other process ended after %q: %v", before, err)
		}
		if strings.HasPrefix(line, word) {
			return before
		}
		before = append(before, strings.TrimSpace(line))
	}
}

// TestAStoppedProcessCannotWrite sends SIGSTOP to a process that holds a job, at each point around
// its first write. When the lease has ended, the worker of the test finishes the job. Then the
// process continues, and must neither write to the platform nor change the job.
func TestAStoppedProcessCannotWrite(t *testing.T) {
	for point, writes := range map[string]int{beforeCheck: 0, afterCheck: 0, beforeSave: 1} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			fx, id, o := shared(t, point)
			lines := o.readUntil(t, "here")
			must(t, o.cmd.Process.Signal(syscall.SIGSTOP))
			stopped := time.Now()
			fx.Lease = testLease()
			for fx.job(t, id).Epoch == 1 {
				must(t, fx.Handle(t.Context(), ports.Wakeup{Kind: Kind, ID: id}))
				<-time.After(20 * time.Millisecond)
			}
			finished := fx.run(t, fx.Worker, id)
			<-time.After(time.Until(stopped.Add(testLease())))
			_, err := io.WriteString(o.in, "on\n")
			must(t, err)
			must(t, o.cmd.Process.Signal(syscall.SIGCONT))
			lines = append(lines, o.readUntil(t, "ended")...)
			if n := strings.Count(strings.Join(lines, " "), "wrote"); n != writes {
				t.Errorf("the stopped process wrote %d times, want %d", n, writes)
			}
			if got := fx.job(t, id); got != finished {
				t.Errorf("the job was %+v, and is %+v", finished, got)
			}
		})
	}
}

// TestAKilledProcessIsRescued kills a process that holds a job. The sweep of the test's worker
// finds the job, and the worker finishes it. With production's lease and sweep interval this takes
// at most 90 s.
func TestAKilledProcessIsRescued(t *testing.T) {
	t.Parallel()
	sweep, limit := time.Second, apptest.HangTimeout
	if soak.On() {
		sweep, limit = 30*time.Second, 90*time.Second
	}
	fx, id, o := shared(t, beforeSave)
	o.readUntil(t, "here")
	url := strings.TrimPrefix(o.cmd.Env[len(o.cmd.Env)-3], databaseEnv+"=")
	_, err := queue.Migrate(t.Context(), url)
	must(t, err)
	river, err := queue.OpenRiver(t.Context(), url, queue.Options{})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), apptest.HangTimeout)
		defer cancel()
		must(t, river.Stop(ctx))
		must(t, river.Close(ctx))
	})
	taken := make(chan time.Time, 100)
	heir := fx.worker(dependencies{fx.fake, fx.store, fx.store, fx.providers})
	heir.Lease, heir.Queue = testLease(), river
	must(t, river.Start(t.Context(), ports.Work{
		Handlers: map[string]ports.Handler{Kind: func(ctx context.Context, wakeup ports.Wakeup) error {
			err := heir.Handle(ctx, wakeup)
			if j, lost := fx.store.Job(ctx, fx.acc.ID, id); lost == nil && j.Epoch > 1 {
				taken <- time.Now()
			}
			return err
		}},
		Periodic: []ports.Periodic{heir.Sweep(sweep)},
	}))
	must(t, o.cmd.Process.Kill())
	killed := time.Now()
	select {
	case at := <-taken:
		t.Logf("a worker continued the job after %s", at.Sub(killed))
	case <-time.After(limit):
		t.Fatalf("no worker claimed the job within %s: %+v", limit, fx.job(t, id))
	}
}
