// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// TestServeOpensTwoListeners checks that serve listens on two TCP sockets: the API and the admin
// listener.
func TestServeOpensTwoListeners(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), "")
	_, key := fixture.newAccount(env, "ann@example.com", "complete", 0)
	p, c := fixture.serve(env)
	caller{client: c, key: key}.get("/v1/tenants/connect-url") // starts the plugin
	if n := listenerCount(t, p.cmd.Process.Pid); n != 2 {
		t.Errorf("the service listens on %d sockets, want 2", n)
	}
}

func listenerCount(t *testing.T, pid int) (n int) {
	t.Helper()
	listening := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		must(t, err)
		for line := range strings.Lines(string(raw)) {
			const state, listen, inode = 3, "0A", 9
			if f := strings.Fields(line); len(f) > inode && f[state] == listen {
				listening["socket:["+f[inode]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("the process has no open files: %v", err)
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && listening[target] {
			n++
		}
	}
	return n
}

// newHungSandbox starts a sandbox whose mail platform does not answer when a domain is added. Many
// callers wait for the platform, and send their requests again after each response. newHungSandbox
// returns one of the tenants.
func newHungSandbox(t *testing.T, args ...string) accountTenant {
	t.Helper()
	const tenants, callersPerTenant = 4, 10
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{"TENANTRY_DRAIN_TIME=2s", "TENANTRY_CIRCUIT_OPEN=1ms"}, append(args, "--no-seed")...)
	c := seededAccount(t, ready)
	var connected []accountTenant
	for range tenants {
		connected = append(connected, c.newConnectedTenant(nil))
	}
	c.control("POST", "/faults", object{"provider": "microsoft365", "match": "POST /graph/v1.0/domains", "kind": "delay", "delay_ms": 2 * waitTimeout.Milliseconds(), "times": 10_000})
	for _, tenant := range connected {
		for i := range callersPerTenant {
			go func() {
				for t.Context().Err() == nil {
					_, _ = tenant.tryDo("POST", tenant.ready.APIURL+tenant.path("/domains"), tenant.key, object{"domain": fmt.Sprintf("slow-%d.test", i)})
					<-time.After(time.Second)
				}
			}()
		}
	}
	c.eventually("requests wait for the platform", func() bool { return countOf(c.operationsAt("microsoft365"), "domain.create") >= 20 })
	return connected[0]
}

// TestSlowPlatformDoesNotBlockStoredReads checks that requests which wait for the mail platform do
// not block reads of stored data. A soak checks that the 99th percentile of the reads is at most 1
// s. BenchmarkSlowPlatform measures such reads.
func TestSlowPlatformDoesNotBlockStoredReads(t *testing.T) {
	t.Parallel()
	for database, args := range map[string]func() []string{
		"sqlite":   func() []string { return nil },
		"postgres": func() []string { return []string{"--database", testserver.Database(t)} },
	} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			tenant, reads := newHungSandbox(t, args()...), 30
			if soak.Enabled() {
				reads = 300
			}
			durations := tenant.timeStoredReads(reads)
			p99 := durations[len(durations)*99/100]
			t.Logf("median %v, 99th percentile %v", durations[len(durations)/2], p99)
			if soak.Enabled() && p99 > time.Second {
				t.Errorf("the 99th percentile is %v, want at most 1 s", p99)
			}
		})
	}
}

// timeStoredReads sends n reads of stored data and returns the duration of each, in ascending
// order.
func (tenant accountTenant) timeStoredReads(n int) (durations []time.Duration) {
	tenant.t.Helper()
	for i := range n {
		path := []string{"/v1/tenants", tenant.path("/domains"), tenant.path("/mailboxes")}[i%3]
		start := time.Now()
		if got := tenant.do("GET", tenant.ready.APIURL+path, tenant.key, nil); got.status != http.StatusOK {
			tenant.t.Errorf("the read %s is answered %d %s, want 200", path, got.status, got.raw)
		}
		durations = append(durations, time.Since(start))
	}
	slices.Sort(durations)
	return durations
}

// TestOpenCircuitRefusesAtOnce checks that an open circuit refuses requests with Retry-After and
// without a call to the platform. Other tenants and reads of stored data are not affected.
func TestOpenCircuitRefusesAtOnce(t *testing.T) {
	t.Parallel()
	p, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{"TENANTRY_CIRCUIT_OPEN=10m", "TENANTRY_WORKER=false"}, "--no-seed")
	c := seededAccount(t, ready)
	tenant, otherTenant := c.newConnectedTenant(nil), c.newConnectedTenant(nil)
	tenant.injectFault("status", object{"match": "GET /graph/v1.0/domains", "status": 503, "times": 10_000})
	addDomain := func() reply { return tenant.call("POST", tenant.path("/domains"), object{"domain": "circuit.test"}) }
	tenant.eventually("the circuit opens", func() bool { addDomain(); return strings.Contains(p.logs.String(), `"circuit_open"`) })
	callsBefore := string(tenant.control("GET", "/calls?provider=microsoft365", nil).raw)
	for range 5 {
		got := addDomain()
		wait, err := strconv.Atoi(got.header.Get("Retry-After"))
		if got.status != http.StatusServiceUnavailable || got.code() != "provider_unavailable" || err != nil || wait < 1 || wait > 600 {
			t.Errorf("the request is answered %d %s with Retry-After %q, want 503 provider_unavailable with 1 to 600 seconds", got.status, got.raw, got.header.Get("Retry-After"))
		}
	}
	if callsAfter := string(tenant.control("GET", "/calls?provider=microsoft365", nil).raw); callsAfter != callsBefore {
		t.Error("the platform was called although the circuit is open")
	}
	tenant.get(tenant.path("/domains"))
	tenant.control("DELETE", "/faults", nil)
	otherTenant.post(otherTenant.path("/domains"), object{"domain": "other.test"})
}

// TestKilledPluginServesTheNextCall kills the plugin through the sandbox and by a signal. It checks
// that the next call starts a new process.
func TestKilledPluginServesTheNextCall(t *testing.T) {
	t.Parallel()
	p, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil, "--no-seed")
	tenant := seededAccount(t, ready).newConnectedTenant(nil)
	pluginPID := func() int {
		for _, id := range descendants(t, p.cmd.Process.Pid) {
			// The simulator is the same program with arguments.
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.pid))
			if strings.TrimRight(string(line), "\x00") == "mail-microsoft365" {
				return id.pid
			}
		}
		return 0
	}
	for _, method := range []struct {
		name string
		kill func(pid int)
	}{
		{"by the sandbox", func(int) { tenant.control("POST", "/plugins/microsoft365/kill", nil) }},
		{"from outside", func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }},
	} {
		pidBefore := pluginPID()
		if pidBefore == 0 {
			t.Fatal("the plugin has no process")
		}
		method.kill(pidBefore)
		tenant.eventually("the process is gone", func() bool { state, _, _ := processStat(pidBefore); return state == "" })
		tenant.mustSync()
		if pidAfter := pluginPID(); pidAfter == 0 || pidAfter == pidBefore {
			t.Errorf("killed %s: the plugin process was %d and is now %d, want a new process", method.name, pidBefore, pidAfter)
		}
	}
}
