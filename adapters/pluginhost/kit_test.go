// SPDX-License-Identifier: Apache-2.0

package pluginhost_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

const token = "canary-7f3a9e51d2"

// hang is how long a test waits for an event. Only a test that hangs reaches it.
const hang = 4 * time.Minute

// quick restarts plugins soon, and waits for their answers as long as a slow
// machine may need.
var quick = pluginhost.Patience{Start: hang, Ping: hang, Backoff: 20 * time.Millisecond}

// sums are the SHA-256 sums of programs, by path.
var sums sync.Map

func sumOf(t testing.TB, path string) string {
	t.Helper()
	if sum, known := sums.Load(path); known {
		return sum.(string)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	sums.Store(path, hex.EncodeToString(sum[:]))
	return hex.EncodeToString(sum[:])
}

// folder makes a plugin folder. Each argument is the name of a plugin and,
// after a colon, the program that its file is a link to.
func folder(t testing.TB, plugins ...string) string {
	t.Helper()
	dir := t.TempDir()
	var entries []pluginhost.Entry
	for _, p := range plugins {
		name, program, _ := strings.Cut(p, ":")
		path := testserver.Program(t, "testdata/"+program)
		if err := os.Symlink(path, filepath.Join(dir, "mail-"+name)); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, pluginhost.Entry{Name: name, Kind: "mail", File: "mail-" + name, SHA256: sumOf(t, path), Version: "1.2.3"})
	}
	catalog, err := json.Marshal(map[string]any{"plugins": entries})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "catalog.json"), catalog, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// journal is a log that a test can read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func host(t *testing.T, o pluginhost.Options) (*pluginhost.Host, *journal) {
	t.Helper()
	if o.Patience == (pluginhost.Patience{}) {
		o.Patience = quick
	}
	j := &journal{}
	o.Log = slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h, err := pluginhost.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, j
}

// doing is a tenant of a plugin that is asked to misbehave like this.
func doing(h *pluginhost.Host, name, what string) ports.MailTenant {
	return h.Mail(name, func(context.Context) (wire.Connection, error) {
		return wire.Connection{
			Settings: map[string]string{"do": what},
			Secrets:  map[string]secret.Text{"token": secret.New(token)},
		}, nil
	}).For("t-1")
}

// pid asks a puppet for its process id.
func pid(t *testing.T, h *pluginhost.Host, name string) int {
	t.Helper()
	p, err := doing(h, name, "").Profile(t.Context())
	if err != nil {
		t.Fatalf("%v; status %+v", err, h.Status())
	}
	n, err := strconv.Atoi(p.Name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gone waits for the end of a process, which need not be our child.
func gone(t *testing.T, pid int, within time.Duration) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	end := time.Now().Add(within)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(end).Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		if n == 0 || err != nil {
			t.Fatalf("process %d did not end within %s (%v)", pid, within, err)
		}
		return
	}
}

func signal(t *testing.T, pid int, s unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// stop stops a process and waits until each of its threads has stopped, which
// no event tells.
func stop(t *testing.T, pid int) {
	t.Helper()
	signal(t, pid, unix.SIGSTOP)
	for running := true; running; runtime.Gosched() {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("process %d is gone: %v", pid, err)
		}
		running = false
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			running = running || err != nil || !bytes.Contains(stat, []byte(") T "))
		}
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// rename changes the catalog by hand.
func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	path := filepath.Join(dir, "catalog.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte(from), []byte(to)), 0o644); err != nil {
		t.Fatal(err)
	}
}
