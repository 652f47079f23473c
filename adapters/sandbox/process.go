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
	// startTime is how long a simulator may take until it listens.
	startTime = 30 * time.Second
	// stopTime is how long one may take to end before it is killed.
	stopTime = 3 * time.Second
	// longestLine is what is kept of a line that a simulator prints.
	longestLine = 64 << 10
	// exitUsage is the exit code of a plugin that has no simulator.
	exitUsage = 2
)

// errNoSimulator: the plugin's provider can be run locally, or not at all.
var errNoSimulator = errors.New("no simulator")

// process is a running simulator. It ends when its standard input closes,
// which the kernel sees to when this process dies.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	said  *lines // standard error
	ended chan struct{}
}

// launch starts a binary and waits for the first line that it prints.
func launch(ctx context.Context, log *slog.Logger, exe string, args ...string) (*process, []byte, error) {
	first := make(chan []byte, 1)
	p := &process{ended: make(chan struct{})}
	p.said = &lines{take: func(line []byte) { log.Debug("simulator says", "line", string(line)) }}
	// Its own lifetime: it ends by Close, not with the call that starts it.
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), exe, args...)
	p.cmd.Env = environment()
	p.cmd.SysProcAttr = attributes()
	p.cmd.WaitDelay = time.Second
	p.cmd.Stderr = p.said
	p.cmd.Stdout = &lines{take: func(line []byte) {
		select {
		case first <- bytes.Clone(line):
		default: // only the first line means anything
		}
	}}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	p.stdin = stdin
	if err := p.run(); err != nil {
		return nil, nil, err
	}
	timeout := time.NewTimer(startTime)
	defer timeout.Stop()
	select {
	case line := <-first:
		return p, line, nil
	case <-p.ended:
		return nil, nil, p.failure()
	case <-timeout.C:
		err = fmt.Errorf("it did not say that it is ready within %s", startTime)
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.stop()
	return nil, nil, err
}

// run starts the process and waits for its end on one system thread: Linux
// kills a child when the thread that made it ends, not only with the process.
func (p *process) run() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.ended)
		}
	}()
	return <-started
}

// failure says why the process ended before it was ready.
func (p *process) failure() error {
	code := p.cmd.ProcessState.ExitCode()
	if code == exitUsage {
		return errNoSimulator
	}
	return fmt.Errorf("it ended with %s: %s", p.cmd.ProcessState, p.said.latest())
}

// stop ends the process and waits for that.
func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	timeout := time.NewTimer(stopTime)
	defer timeout.Stop()
	select {
	case <-p.ended:
		return
	case <-timeout.C:
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// environment is all that a simulator sees of ours: nothing that an operator
// may have put secrets into.
func environment() []string {
	var out []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// lines cuts what a process prints into lines. The rest of a line that is too
// long becomes a line of its own.
type lines struct {
	take func([]byte)

	mu   sync.Mutex
	part []byte
	last []byte
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		i := bytes.IndexByte(l.part, '\n')
		if i < 0 && len(l.part) < longestLine {
			return len(p), nil
		}
		if i < 0 {
			i = longestLine - 1
		}
		l.last = bytes.Clone(bytes.TrimSuffix(l.part[:i+1], []byte("\n")))
		l.part = l.part[i+1:]
		l.take(l.last)
	}
}

// latest is the last whole line.
func (l *lines) latest() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}
