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
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// binaries is the folder of the programs under testdata, built.
var binaries string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "plugins")
		if err != nil {
			panic(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		build := exec.Command("go", "build", "-o", dir+"/", "./testdata/puppet", "./testdata/hostile", "./testdata/host")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build the plugins under testdata:", err)
			return 1
		}
		binaries = dir
		return m.Run()
	}())
}

const token = "canary-7f3a9e51d2"

// quick keeps tests short where the default would wait for seconds.
var quick = pluginhost.Patience{Ping: 200 * time.Millisecond, Backoff: 20 * time.Millisecond}

// folder makes a plugin folder: each name is a plugin of that name, and the
// program it is a copy of comes after the colon.
func folder(t testing.TB, plugins ...string) string {
	t.Helper()
	dir := t.TempDir()
	var entries []pluginhost.Entry
	for _, p := range plugins {
		name, program, _ := strings.Cut(p, ":")
		content, err := os.ReadFile(filepath.Join(binaries, program))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "mail-"+name), content, 0o755); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		entries = append(entries, pluginhost.Entry{Name: name, Kind: "mail", File: "mail-" + name, SHA256: hex.EncodeToString(sum[:]), Version: "1.2.3"})
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

// gone waits for the end of a process that need not be our child.
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
			t.Fatalf("process %d is still there after %s (%v)", pid, within, err)
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
