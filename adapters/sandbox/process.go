// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout is how long a simulator may take to print its ready line.
	startTimeout = time.Minute
	// stopTimeout is how long a simulator may take to exit before it is killed.
	stopTimeout = 3 * time.Second
	// maxLineSize is the maximum length of an output line, in bytes. A longer line is split.
	maxLineSize = 64 << 10
	// exitUsage is the exit code of a plugin without a simulator.
	exitUsage = 2
)

// errNoSimulator means that the plugin has no simulator.
var errNoSimulator = errors.New("no simulator")

// process is a running simulator. A simulator exits when its standard input is closed. If the
// sandbox's process dies, the kernel closes that input.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *lineWriter
	exited chan struct{}
}

// startProcess starts the program exe and returns the first line that it prints. name is argument 0
// of the process. startProcess fails if the process exits or ctx ends before this line, or if the
// process prints no line within startTimeout.
func startProcess(ctx context.Context, log *slog.Logger, exe, name string, args ...string) (*process, []byte, error) {
	firstLine := make(chan []byte, 1)
	started := &process{exited: make(chan struct{})}
	started.stderr = &lineWriter{onLine: func(line []byte) { log.Debug("simulator output", "line", string(line)) }}
	// The process does not end with ctx, because the simulator must outlive the call that starts
	// it. stop ends the process.
	started.cmd = exec.CommandContext(context.WithoutCancel(ctx), exe, args...)
	started.cmd.Args[0], started.cmd.Env = name, environmentVariables()
	started.cmd.SysProcAttr = processAttributes()
	started.cmd.WaitDelay = time.Second
	started.cmd.Stderr = started.stderr
	started.cmd.Stdout = &lineWriter{onLine: func(line []byte) {
		select {
		case firstLine <- bytes.Clone(line):
		default: // the lines after the first are ignored
		}
	}}
	stdin, err := started.cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	started.stdin = stdin
	if err := started.run(); err != nil {
		return nil, nil, err
	}
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	select {
	case line := <-firstLine:
		return started, line, nil
	case <-started.exited:
		return nil, nil, started.exitReason()
	case <-timeout.C:
		err = fmt.Errorf("it was not ready within %s", startTimeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	started.stop()
	return nil, nil, err
}

// run starts the process. A goroutine waits for its exit on the same OS thread, because with
// Pdeathsig, Linux kills a child when the thread that started it exits.
func (p *process) run() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return <-started
}

// exitReason returns why the process exited before it was ready.
func (p *process) exitReason() error {
	code := p.cmd.ProcessState.ExitCode()
	if code == exitUsage {
		return errNoSimulator
	}
	return fmt.Errorf("it ended with %s: %s", p.cmd.ProcessState, p.stderr.lastLine())
}

// stop ends the process and waits until it has ended. After stopTimeout it kills the process.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-p.exited:
		return
	case <-timeout.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// environmentVariables returns the environment variables of a simulator. It passes only some
// variables of this process, because the other variables may contain secrets.
func environmentVariables() []string {
	var variables []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			variables = append(variables, name+"="+value)
		}
	}
	return variables
}

// lineWriter splits the output of a process into lines, and calls onLine for each complete line.
type lineWriter struct {
	onLine func([]byte)

	mu      sync.Mutex
	partial []byte
	last    []byte
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		i := bytes.IndexByte(l.partial, '\n')
		if i < 0 && len(l.partial) < maxLineSize {
			return len(p), nil
		}
		if i < 0 {
			i = maxLineSize - 1
		}
		l.last = bytes.Clone(bytes.TrimSuffix(l.partial[:i+1], []byte("\n")))
		l.partial = l.partial[i+1:]
		l.onLine(l.last)
	}
}

// lastLine returns the last complete line.
func (l *lineWriter) lastLine() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}
