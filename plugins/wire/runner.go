// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"
)

// drainTime is how long the pipes of a dead process stay open for what is
// still in them; a grandchild that holds them gets no longer.
const drainTime = time.Second

// run is one plugin process. It implements go-plugin's runner, because the
// default one gives the plugin the host's standard input and lets the kernel's
// parent-death signal depend on a thread that may end any time.
type run struct {
	cmd      *exec.Cmd
	lifeline *os.File // the plugin ends when this closes
	stdout   *os.File
	stderr   *os.File
	ours     []*os.File   // the child's ends, closed once it has them
	pid      atomic.Int64 // 0 until it runs
	sockets  string       // the folder of its sockets
	exited   chan struct{}
	state    *os.ProcessState
}

func newRun(l Launch) (*run, error) {
	r := &run{exited: make(chan struct{})}
	in, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.lifeline, r.ours = lifeline, []*os.File{in}
	out, stdoutW, err := os.Pipe()
	if err != nil {
		r.close()
		return nil, err
	}
	r.stdout, r.ours = out, append(r.ours, stdoutW)
	errR, stderrW, err := os.Pipe()
	if err != nil {
		r.close()
		return nil, err
	}
	r.stderr, r.ours = errR, append(r.ours, stderrW)
	r.cmd = &exec.Cmd{
		Path: l.Exe, Args: []string{l.Name}, Env: l.Env,
		Stdin: in, Stdout: stdoutW, Stderr: stderrW, SysProcAttr: processAttributes(),
	}
	return r, nil
}

// Start starts the process from a thread that lives at least as long as the
// process: Linux sends the parent-death signal when the thread that forked ends.
// The thread is given back, as one that ended here would take with it what
// others started from it before.
func (r *run) Start(context.Context) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		started <- err
		if err == nil {
			r.reap()
		}
	}()
	err := <-started
	for _, f := range r.ours {
		_ = f.Close()
	}
	if err != nil {
		r.close()
		return fmt.Errorf("start process: %w", err)
	}
	r.pid.Store(int64(r.cmd.Process.Pid))
	return nil
}

func (r *run) reap() {
	pid := r.cmd.Process.Pid
	r.state, _ = r.cmd.Process.Wait()
	killGroup(pid)
	close(r.exited)
	time.AfterFunc(drainTime, r.close)
}

func (r *run) close() {
	for _, f := range append([]*os.File{r.lifeline, r.stdout, r.stderr}, r.ours...) {
		if f != nil {
			_ = f.Close()
		}
	}
	if r.sockets != "" {
		_ = os.RemoveAll(r.sockets)
	}
}

// Wait waits for the end of the process.
func (r *run) Wait(context.Context) error {
	<-r.exited
	if r.state == nil || !r.state.Success() {
		return fmt.Errorf("plugin process ended: %v", r.state)
	}
	return nil
}

// Kill ends the process and whatever it started, stopped processes included.
func (r *run) Kill(context.Context) error {
	pid := int(r.pid.Load())
	if pid == 0 { // as a group, 0 would be the host's own
		return nil
	}
	select {
	case <-r.exited:
	default:
		killGroup(pid)
	}
	return nil
}

func (r *run) Stdout() io.ReadCloser { return r.stdout }
func (r *run) Stderr() io.ReadCloser { return r.stderr }
func (r *run) Name() string          { return r.cmd.Args[0] }
func (r *run) ID() string            { return strconv.FormatInt(r.pid.Load(), 10) }

func (*run) Diagnose(context.Context) string { return "" }

func (*run) PluginToHost(network, addr string) (string, string, error) { return network, addr, nil }
func (*run) HostToPlugin(network, addr string) (string, string, error) { return network, addr, nil }
