// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// token is the secret that tests pass to plugins. It must appear neither in a log nor in an error.
const token = "canary-7f3a9e51d2"

// testTimeout is how long a test waits for an event. Only a test that hangs reaches it.
const testTimeout = 4 * time.Minute

// fastRestart restarts plugins after a short delay. Its timeouts are long enough for a slow
// machine.
var fastRestart = pluginhost.SupervisionPolicy{StartTimeout: testTimeout, PingTimeout: testTimeout, Backoff: 20 * time.Millisecond}

// checksums caches the SHA-256 sums of programs, by path.
var checksums sync.Map

func checksumOf(t testing.TB, path string) string {
	t.Helper()
	if sum, exists := checksums.Load(path); exists {
		return sum.(string)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	checksums.Store(path, hex.EncodeToString(sum[:]))
	return hex.EncodeToString(sum[:])
}

// pluginDir creates a plugin folder with a catalog and returns its path. Each argument is the name
// of a plugin, a colon, and the program of testdata that its file links to.
func pluginDir(t testing.TB, plugins ...string) string {
	t.Helper()
	dir := t.TempDir()
	var entries []pluginhost.CatalogEntry
	for _, plugin := range plugins {
		name, program, _ := strings.Cut(plugin, ":")
		path := testserver.Program(t, "testdata/"+program)
		if err := os.Symlink(path, filepath.Join(dir, "mail-"+name)); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, pluginhost.CatalogEntry{Name: name, Kind: "mail", File: "mail-" + name, SHA256: checksumOf(t, path), Version: "1.2.3"})
	}
	writeCatalog(t, dir, entries...)
	return dir
}

func writeCatalog(t testing.TB, dir string, entries ...pluginhost.CatalogEntry) {
	t.Helper()
	catalog, err := json.Marshal(map[string]any{"plugins": entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), catalog, 0o644); err != nil {
		t.Fatal(err)
	}
}

// logBuffer collects the log of a host. It is safe for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// countLines returns the number of lines of a log that contain all the texts.
func countLines(logged *logBuffer, texts ...string) int {
	count := 0
	for line := range strings.Lines(logged.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			count++
		}
	}
	return count
}

// waitForLine waits until a log has exactly one line that contains all the texts.
func waitForLine(t *testing.T, logged *logBuffer, texts ...string) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); countLines(logged, texts...) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d lines contain %q, want 1:\n%s", countLines(logged, texts...), texts, logged)
		}
	}
}

// newHost returns a host that is closed at the end of the test, and its log. It uses fastRestart if
// the options have no supervision policy.
func newHost(t *testing.T, options pluginhost.Options) (*pluginhost.Host, *logBuffer) {
	t.Helper()
	if options.Supervision == (pluginhost.SupervisionPolicy{}) {
		options.Supervision = fastRestart
	}
	logged := &logBuffer{}
	options.Log = slog.New(slog.NewJSONHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	host, err := pluginhost.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Close)
	return host, logged
}

// tenantOf returns a tenant whose calls go to the plugin with this name. misbehaviour is the value
// of the plugin's setting `do`, which selects how testdata/puppet misbehaves. With "" the plugin
// works normally.
func tenantOf(host *pluginhost.Host, name, misbehaviour string, interceptors ...wire.Interceptor) ports.MailTenant {
	return host.Mail(name, func(context.Context) (wire.Connection, error) {
		return wire.Connection{
			Settings: map[string]string{"do": misbehaviour},
			Secrets:  map[string]secret.Text{"token": secret.New(token)},
		}, nil
	}, interceptors...).For("t-1")
}

// logCalls returns the interceptor with which the service logs the failed calls of a plugin.
func logCalls(t *testing.T, logged *logBuffer, name string) wire.Interceptor {
	t.Helper()
	calls, err := telemetry.NewCallInterceptor(telemetry.CallOptions{Provider: name, Log: slog.New(slog.NewJSONHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

// processID calls a plugin that runs testdata/puppet, and returns the id of its process.
func processID(t *testing.T, host *pluginhost.Host, name string) int {
	t.Helper()
	profile, err := tenantOf(host, name, "").Profile(t.Context())
	if err != nil {
		t.Fatalf("a call of the plugin %s: %v; status %+v", name, err, host.Status())
	}
	pid, err := strconv.Atoi(profile.Name)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// requireRunning calls a plugin that runs testdata/puppet. If no process runs, the call starts one.
func requireRunning(t *testing.T, host *pluginhost.Host, name string) {
	t.Helper()
	processID(t, host, name)
}

// waitForExit waits until a process has exited. The process need not be a child of the test.
func waitForExit(t *testing.T, pid int, timeout time.Duration) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	deadline := time.Now().Add(timeout)
	for {
		ready, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(max(0, time.Until(deadline)).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if ready == 0 || err != nil {
			t.Fatalf("process %d did not end within %s (%v)", pid, timeout, err)
		}
		return
	}
}

func sendSignal(t *testing.T, pid int, signal unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

// suspend stops a process with SIGSTOP. It polls until each thread has stopped, because no event
// reports the stop.
func suspend(t *testing.T, pid int) {
	t.Helper()
	sendSignal(t, pid, unix.SIGSTOP)
	for running := true; running; runtime.Gosched() {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d has exited: %v", pid, err)
		}
		running = false
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			running = running || err != nil || !bytes.Contains(stat, []byte(") T "))
		}
	}
}

func withTimeout(t *testing.T, timeout time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// editCatalog replaces text in the catalog file.
func editCatalog(t *testing.T, dir, before, after string) {
	t.Helper()
	path := filepath.Join(dir, "catalog.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(before), []byte(after)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// writeScript writes a shell script to a temporary file and returns its path.
func writeScript(t *testing.T, text string, mode fs.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mail-script")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), mode); err != nil {
		t.Fatal(err)
	}
	return file
}
