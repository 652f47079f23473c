// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is a started binary with the logs that it wrote to standard error.
type process struct {
	cmd  *exec.Cmd
	logs processLog
	done chan struct{}
}

// processLog is a file without a name, to which a process writes its log. It is not a pipe, because
// a benchmark would then have to copy each line while it measures.
type processLog struct{ *os.File }

func newProcessLog() (processLog, error) {
	file, err := os.CreateTemp(scratchDir, "log-")
	if err != nil {
		return processLog{}, err
	}
	return processLog{file}, os.Remove(file.Name())
}

// String returns what the process has written so far.
func (l processLog) String() string {
	text, err := io.ReadAll(io.NewSectionReader(l, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// startProcess runs a binary until the test ends. The process gets env, and of the environment of
// the test only PATH. out receives standard output.
func startProcess(t *testing.T, build programs, env []string, out io.Writer, args ...string) *process {
	t.Helper()
	p, err := launchProcess(build, env, out, args...)
	must(t, err)
	p.stopAtEnd(t)
	return p
}

// launchProcess runs a binary until it is stopped. Rate limits are off unless env turns them on,
// because tests send more requests than an account may.
func launchProcess(build programs, env []string, out io.Writer, args ...string) (*process, error) {
	logs, err := newProcessLog()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(build.binary, args...), logs: logs, done: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir, "TENANTRY_LIMITS=off"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = out, logs.File
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return p, nil
}

// stopAtEnd stops the process at the end of the test. If the test failed, it prints the end of the
// process's log.
func (p *process) stopAtEnd(t *testing.T) {
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("logs of %s:\n%s", strings.Join(p.cmd.Args, " "), tail(p.logs.String(), 6000))
		}
	})
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// stop sends SIGTERM and waits for the process to end. It kills a process that does not end within
// waitTimeout, and then returns an error.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(waitTimeout):
		p.kill()
		return errors.New("the process did not stop on SIGTERM")
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
