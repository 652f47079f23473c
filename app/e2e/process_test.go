// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// process is a started binary. Its logs are kept for the test's output and
// for looking into.
type process struct {
	cmd  *exec.Cmd
	logs *safeBuffer
	done chan struct{}
}

// safeBuffer is a bytes.Buffer for one writer and any reader.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs a binary until the test ends. env is added to a clean
// environment; out gets standard output.
func start(t *testing.T, b built, env []string, out io.Writer, args ...string) *process {
	t.Helper()
	p, err := launch(b, env, out, args...)
	if err != nil {
		t.Fatal(err)
	}
	p.until(t)
	return p
}

// launch runs a binary until somebody stops it. Tests ask for more than any
// account may, so limits are off unless env says otherwise.
func launch(b built, env []string, out io.Writer, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(b.binary, args...), logs: &safeBuffer{}, done: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TENANTRY_LIMITS=off"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = out, p.logs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	return p, nil
}

// until ties the process to a test.
func (p *process) until(t *testing.T) {
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

// stop sends SIGTERM and waits for the end. A process that does not stop is
// killed, and stop returns an error.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(hang):
		p.kill()
		return errors.New("the process did not stop on SIGTERM")
	}
}

// kill ends the process with SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// startDev starts the sandbox and waits for its ready line.
func startDev(t *testing.T, b built, data string, env []string, args ...string) (*process, sandbox.Ready) {
	t.Helper()
	p, ready, err := launchDev(b, data, env, args...)
	if p != nil {
		p.until(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p, ready
}

// launchDev is startDev without a test.
func launchDev(b built, data string, env []string, args ...string) (*process, sandbox.Ready, error) {
	var ready sandbox.Ready
	read, write := io.Pipe()
	p, err := launch(b, env, write, append([]string{"dev", "--json", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
	if err != nil {
		return nil, ready, err
	}
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(read).ReadString('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, read)
	}()
	go func() { <-p.done; _ = write.Close() }()
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &ready); err != nil {
			return p, ready, fmt.Errorf("ready line %q: %w", line, err)
		}
		return p, ready, nil
	case <-time.After(hang):
		return p, ready, fmt.Errorf("no ready line in %s", hang)
	}
}
