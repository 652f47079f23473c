// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// built holds the binaries that tests start, built once without the race
// detector, which makes the embedded database many times slower.
type built struct{ folder, binary string }

var (
	release    = sync.OnceValues(func() (built, error) { return build("release") })
	failpoints = sync.OnceValues(func() (built, error) { return build("failpoints", "-tags", "failpoints") })
	scratch    string
)

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "tenantry-e2e-"); err != nil {
		panic(err)
	}
	// Most tests wait for other processes, so there are more of them at a
	// time than cores.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// build makes what `make build` makes, in a folder of its own.
func build(name string, flags ...string) (built, error) {
	b := built{folder: filepath.Join(scratch, name)}
	b.binary = filepath.Join(b.folder, "tenantry")
	plugin := filepath.Join(b.folder, "plugins", "mail-microsoft365")
	for _, args := range [][]string{
		append(append([]string{"go", "build"}, flags...), "-o", b.binary, "."),
		append(append([]string{"go", "build"}, flags...), "-o", plugin, "../../plugins/mail-microsoft365"),
		{b.binary, "plugin", "add", "--plugin-dir", filepath.Dir(plugin), plugin},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return b, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	return b, nil
}

func binary(t *testing.T, make func() (built, error)) built {
	t.Helper()
	b, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

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

// launch runs a binary until somebody stops it.
func launch(b built, env []string, out io.Writer, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(b.binary, args...), logs: &safeBuffer{}, done: make(chan struct{})}
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch}, env...)
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

// stop ends the process as an operator would, and by force after 30 s, which
// is an error.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(30 * time.Second):
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
	case <-time.After(60 * time.Second):
		return p, ready, errors.New("no ready line in a minute")
	}
}

// client calls one started service.
type client struct {
	t     *testing.T
	ready sandbox.Ready
}

// reply is an answer with its raw body.
type reply struct {
	status int
	header http.Header
	raw    []byte
	object
}

// do sends a request to any URL of the service or its control interface.
func (c client) do(method, url, key string, body any) reply {
	c.t.Helper()
	r, err := c.try(method, url, key, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, url, err)
	}
	return r
}

// try is do for calls that may fail on the way.
func (c client) try(method, url, key string, body any) (reply, error) {
	payload := []byte(nil)
	if body != nil {
		var err error
		if payload, err = json.Marshal(body); err != nil {
			return reply{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(payload))
	if err != nil {
		return reply{}, err
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if method != http.MethodGet {
		req.Header.Set("Idempotency-Key", fmt.Sprint(time.Now().UnixNano()))
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	return parsed(answer, raw), err
}

func parsed(answer *http.Response, raw []byte) reply {
	got := reply{status: answer.StatusCode, header: answer.Header, raw: raw, object: object{}}
	_ = json.Unmarshal(raw, &got.object)
	return got
}

// api calls the API with the seeded key, control the control interface.
func (c client) api(method, path string, body any) reply {
	c.t.Helper()
	return c.do(method, c.ready.APIURL+path, c.ready.APIKey, body)
}

func (c client) control(method, path string, body any) reply {
	c.t.Helper()
	got := c.do(method, c.ready.ControlURL+path, "", body)
	if got.status != http.StatusOK {
		c.t.Fatalf("control %s %s: %d %s", method, path, got.status, got.raw)
	}
	return got
}

// eventually repeats a call until it is good.
func (c client) eventually(what string, good func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); {
		if good() {
			return
		}
		<-time.After(200 * time.Millisecond)
	}
	c.t.Fatalf("not in a minute: %s", what)
}
