// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// pipeDrainTime is how long the pipes of an exited process stay open, so that buffered output can
// be read. Then they are closed, even if a child of the process still has them open.
const pipeDrainTime = time.Second

// processRunner is one plugin process. It implements runner.Runner of go-plugin.
//
// The default runner of go-plugin is not suitable for two reasons. It passes the host's standard
// input to the plugin. It starts the process from a thread that may exit at any time, and Linux
// sends the parent-death signal when that thread exits.
type processRunner struct {
	cmd       *exec.Cmd
	stdin     *os.File // the plugin exits when this is closed
	stdout    *os.File
	stderr    *os.File
	childEnds []*os.File   // the child's ends of the pipes, closed after the start
	pid       atomic.Int64 // 0 until the process runs
	socketDir string       // the folder with the sockets of the process
	limits    Limits       // before the start the requested limits, then the limits in force
	aborted   atomic.Bool  // abort was called
	killed    atomic.Bool  // Kill has sent its signal
	exited    chan struct{}
	state     *os.ProcessState // set before exited is closed
}

func newRunner(l Launch) (*processRunner, error) {
	r := &processRunner{exited: make(chan struct{}), limits: l.Limits}
	childStdin, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.stdin, r.childEnds = stdin, []*os.File{childStdin}
	stdout, childStdout, err := os.Pipe()
	if err != nil {
		r.close()
		return nil, err
	}
	r.stdout, r.childEnds = stdout, append(r.childEnds, childStdout)
	stderr, childStderr, err := os.Pipe()
	if err != nil {
		r.close()
		return nil, err
	}
	r.stderr, r.childEnds = stderr, append(r.childEnds, childStderr)
	r.cmd = &exec.Cmd{
		Path: l.Exe, Args: []string{l.Name}, Env: l.Env,
		Stdin: childStdin, Stdout: childStdout, Stderr: childStderr, SysProcAttr: processAttributes(),
	}
	return r, nil
}

// Start starts the process from a locked thread that waits until the process exits. Linux sends the
// parent-death signal when the thread that forked exits. After the process has exited, the thread
// is unlocked and continues, because the thread may have started other processes. If the thread
// exited, these processes would get the signal.
func (r *processRunner) Start(context.Context) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var err error
		r.limits, err = r.limits.start(r.cmd)
		started <- err
		if err == nil {
			r.reap()
		}
	}()
	err := <-started
	for _, f := range r.childEnds {
		_ = f.Close()
	}
	if err != nil {
		r.close()
		return fmt.Errorf("start process: %w", err)
	}
	r.pid.Store(int64(r.cmd.Process.Pid))
	if r.aborted.Load() {
		return r.Kill(context.Background())
	}
	return nil
}

// abort kills the process like Kill. If the process does not run yet, Start kills it.
func (r *processRunner) abort() {
	r.aborted.Store(true)
	_ = r.Kill(context.Background())
}

func (r *processRunner) reap() {
	pid := r.cmd.Process.Pid
	r.state, _ = r.cmd.Process.Wait()
	killGroup(pid)
	close(r.exited)
	time.AfterFunc(pipeDrainTime, r.close)
}

func (r *processRunner) close() {
	for _, f := range append([]*os.File{r.stdin, r.stdout, r.stderr}, r.childEnds...) {
		if f != nil {
			_ = f.Close()
		}
	}
	if r.socketDir != "" {
		_ = os.RemoveAll(r.socketDir)
	}
}

// Wait waits until the process exits. It returns an error if the exit status is not 0 or a signal
// ended the process.
func (r *processRunner) Wait(context.Context) error {
	<-r.exited
	if r.state == nil || !r.state.Success() {
		return fmt.Errorf("plugin process ended: %v", r.state)
	}
	return nil
}

// Kill kills the process group: the process and the descendants in its group, even if they are
// stopped.
func (r *processRunner) Kill(context.Context) error {
	pid := int(r.pid.Load())
	if pid == 0 { // kill(0) would signal the host's own process group
		return nil
	}
	select {
	case <-r.exited:
	default:
		r.killed.Store(true)
		killGroup(pid)
	}
	return nil
}

// endedByKill waits until the process has exited, and reports whether Kill ended it. It checks the
// exit status, because Kill has no effect on a process that has exited but is not reaped.
func (r *processRunner) endedByKill() bool {
	<-r.exited
	if r.state == nil {
		return r.killed.Load()
	}
	status, ok := r.state.Sys().(syscall.WaitStatus)
	return ok && r.killed.Load() && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Stdout returns the process's standard output up to the end of its first line, which is the
// handshake.
func (r *processRunner) Stdout() io.ReadCloser { return &firstLineReader{ReadCloser: r.stdout} }
func (r *processRunner) Stderr() io.ReadCloser { return r.stderr }
func (r *processRunner) Name() string          { return r.cmd.Args[0] }
func (r *processRunner) ID() string            { return strconv.FormatInt(r.pid.Load(), 10) }

// firstLineReader returns only the first line of a stream. The next Read discards the rest of the
// stream, and returns io.EOF when the stream ends. go-plugin must not read the rest itself: it
// splits the stream into lines, and stops reading at a line of more than 64 KiB. The process would
// then block as soon as the pipe is full.
type firstLineReader struct {
	io.ReadCloser
	complete bool // the first line has been read
}

// Read implements io.Reader.
func (r *firstLineReader) Read(p []byte) (int, error) {
	if r.complete {
		_, err := io.Copy(io.Discard, r.ReadCloser)
		return 0, cmp.Or(err, io.EOF)
	}
	n, err := r.ReadCloser.Read(p)
	if i := bytes.IndexByte(p[:n], '\n'); i >= 0 {
		n, r.complete = i+1, true
	}
	return n, err
}

func (*processRunner) Diagnose(context.Context) string { return "" }

func (*processRunner) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}
func (*processRunner) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
