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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/app/cli"
)

// processID identifies a process by its id and its start time, because ids are reused.
type processID struct {
	pid     int
	started string
}

// processStat returns state, parent and start time of a process from /proc. If the process does not
// exist, the state is "".
func processStat(pid int) (state string, parent int, started string) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, ""
	}
	// The name, in parentheses, may contain spaces.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent, fields[19]
}

// descendants returns the child processes of a process, and their descendants.
func descendants(t *testing.T, ancestor int) (found []processID) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no process was found: %v", err)
	}
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		if state, parent, started := processStat(pid); parent == ancestor && state != "Z" {
			found = append(append(found, processID{pid, started}), descendants(t, pid)...)
		}
	}
	return found
}

// runningProcesses returns the processes that still run. Zombies do not count.
func runningProcesses(processes []processID) []processID {
	return slices.DeleteFunc(slices.Clone(processes), func(id processID) bool {
		state, _, started := processStat(id.pid)
		return state == "" || state == "Z" || started != id.started
	})
}

// startSlowRequest starts a sandbox, connects a tenant, and starts a request that the mail platform
// delays. It returns the request in progress and the child processes of the service with their
// descendants.
func startSlowRequest(t *testing.T, delay time.Duration, env ...string) (o *onboarding, pending *pendingRequest, children []processID) {
	t.Helper()
	server := &restartingSandbox{client: client{t: t}, build: requirePrograms(t, releaseBuild), dataDir: t.TempDir(), extraEnv: env}
	server.start()
	o = newOnboarding(server)
	o.run(onboardingSteps()[:2], retrying(o))
	counts, _ := o.operationCounts()
	o.injectFault(object{"operation": "domain.create", "kind": "delay_after", "delay_ms": delay.Milliseconds(), "times": 1})
	pending = o.sendAsync(request{method: "POST", path: o.path("/domains"), body: object{"domain": o.domain}})
	if !o.waitForOperation(pending, "domain.create", counts["domain.create"]) {
		t.Fatalf("the request was answered before the platform executed it: %d %s", pending.reply.status, pending.reply.raw)
	}
	if children = descendants(t, o.process.cmd.Process.Pid); len(children) < 3 {
		t.Fatalf("the service has %d descendants, want at least 3, plugin and simulators", len(children))
	}
	return o, pending, children
}

// TestStopLetsRequestsFinish checks that SIGTERM closes the listener, lets requests in progress
// finish, and leaves no process.
func TestStopLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	o, pending, children := startSlowRequest(t, 20*time.Second, "TENANTRY_DRAIN_TIME=2m")
	must(t, o.process.cmd.Process.Signal(syscall.SIGTERM))
	o.eventually("the listener is closed", func() bool {
		_, err := o.tryDo("GET", o.ready.APIURL+"/v1/tenants", o.ready.APIKey, nil)
		return err != nil
	})
	select {
	case <-pending.answered:
		if soak.Enabled() { // a slow machine can need longer than the platform's delay
			t.Error("the listener closed only after the request in progress was answered")
		}
	default:
	}
	if <-pending.answered; pending.err != nil || pending.reply.status != http.StatusOK || pending.reply.text("status") != "added" {
		t.Errorf("the request in progress failed (%v) or was answered %d %s, want an added domain", pending.err, pending.reply.status, pending.reply.raw)
	}
	<-o.process.done
	if code := o.process.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the service ended with the exit code %d, want 0", code)
	}
	if remaining := runningProcesses(children); len(remaining) > 0 {
		t.Errorf("processes are left after the stop: %v", remaining)
	}
	o.start() // a restart works
	o.checkEqual("domains after the next start", o.accountTenant().get(o.path("/domains")).text("count"), 1)
}

// TestKilledServiceLeavesNoProcesses checks that plugins and simulators end after SIGKILL to the
// service. They do not wait for the call in progress: it takes longer than the test waits for them.
func TestKilledServiceLeavesNoProcesses(t *testing.T) {
	t.Parallel()
	o, pending, children := startSlowRequest(t, 2*waitTimeout)
	o.process.kill()
	o.eventually("no process is left", func() bool { return len(runningProcesses(children)) == 0 })
	if <-pending.answered; pending.err == nil {
		t.Errorf("the killed service answered %d, want no answer", pending.reply.status)
	}
}

// TestStopCancelsRequestsAfterDrainTime checks that a request that outlasts drain_time is cancelled
// and answered 503 or 504. A later attempt resolves the outcome of the platform call. The service
// closes the connection before the end of drain_time, so the answer can be lost if the machine
// stalls.
func TestStopCancelsRequestsAfterDrainTime(t *testing.T) {
	t.Parallel()
	// The service cancels the request 3 s after the signal and closes the connection after 5 s.
	o, pending, children := startSlowRequest(t, 2*waitTimeout, "TENANTRY_DRAIN_TIME=6s")
	longestStall := watchStalls(t)
	signalled := time.Now()
	must(t, o.process.cmd.Process.Signal(syscall.SIGTERM))
	<-o.process.done
	duration, stall := time.Since(signalled), longestStall()
	if <-pending.answered; pending.err != nil && duration < 10*time.Second && stall < time.Second {
		t.Errorf("the cancelled request got no answer, want 503 or 504, in a stop of %s in which the machine stalled for at most %s: %v", duration, stall, pending.err)
	}
	if pending.err == nil && pending.reply.status != http.StatusServiceUnavailable && pending.reply.status != http.StatusGatewayTimeout {
		t.Errorf("the cancelled request is answered %d %s, want 503 or 504", pending.reply.status, pending.reply.raw)
	}
	if pending.reply.status == http.StatusServiceUnavailable && pending.reply.header.Get("Retry-After") == "" {
		t.Error("the answer 503 has no Retry-After")
	}
	if code := o.process.cmd.ProcessState.ExitCode(); code != cli.ExitRefused || !strings.Contains(o.process.logs.String(), "1 requests were not finished in drain_time") {
		t.Errorf("the service ended with the exit code %d, want %d and a log line about 1 unfinished request", code, cli.ExitRefused)
	}
	// If the end of drain_time interrupts the stop, the plugins end by themselves a moment later.
	o.eventually("no process is left", func() bool { return len(runningProcesses(children)) == 0 })
	o.start()
	o.retryUntilSuccess(request{method: "POST", path: o.path("/domains"), body: object{"domain": o.domain}})
	domains, _ := o.platformState(o.tenant)
	o.checkEqual("domains at the platform", len(domains), 1)
	counts, _ := o.operationCounts()
	o.checkEqual("domains created", counts["domain.create"], 1)
}

// watchStalls measures the stalls of the machine until the end of the test: how late a short sleep
// of this process ends. longest returns the longest stall so far.
func watchStalls(t *testing.T) (longest func() time.Duration) {
	t.Helper()
	const pause = 20 * time.Millisecond
	var stall atomic.Int64
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			began := time.Now()
			time.Sleep(pause)
			stall.Store(max(stall.Load(), int64(time.Since(began)-pause)))
		}
	}()
	return func() time.Duration { return time.Duration(stall.Load()) }
}

// TestSecondSignalStopsAtOnce checks that a second signal ends the process although a request is in
// progress and drain_time is longer than the test waits.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	o, pending, children := startSlowRequest(t, 2*waitTimeout, "TENANTRY_DRAIN_TIME="+(2*waitTimeout).String())
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		must(t, o.process.cmd.Process.Signal(s))
		o.eventually("the signal is handled", func() bool { return strings.Contains(o.process.logs.String(), "stop") })
	}
	o.eventually("the process ends", func() bool {
		select {
		case <-o.process.done:
			return true
		default:
			return false
		}
	})
	if code := o.process.cmd.ProcessState.ExitCode(); code != cli.ExitRefused {
		t.Errorf("the service ended with the exit code %d, want %d", code, cli.ExitRefused)
	}
	if <-pending.answered; pending.err == nil {
		t.Errorf("the request was answered %d, want no answer", pending.reply.status)
	}
	o.eventually("no process is left", func() bool { return len(runningProcesses(children)) == 0 })
}

// TestHangupDoesNotStopTheService checks that SIGHUP is logged and has no other effect, because
// many operators send it to reload files.
func TestHangupDoesNotStopTheService(t *testing.T) {
	t.Parallel()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	p, server := fixture.serve(fixture.env(t.TempDir(), ""))
	for range 2 { // twice, because a second SIGTERM ends the process at once
		before := strings.Count(p.logs.String(), "SIGHUP is ignored")
		must(t, p.cmd.Process.Signal(syscall.SIGHUP))
		server.eventually("the signal is logged", func() bool { return strings.Count(p.logs.String(), "SIGHUP is ignored") > before })
	}
	if got := server.do("GET", server.ready.AdminURL+"/readyz", "", nil); got.status != http.StatusOK {
		t.Errorf("after SIGHUP /readyz answers %d, want 200", got.status)
	}
	if err := p.stop(); err != nil || p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("the stop failed: %v, exit code %d, want 0", err, p.cmd.ProcessState.ExitCode())
	}
}

// TestSignalToAllProcessesFinishesRequests signals service and plugins, as service managers do. The
// plugin runs until its last call is answered. Service and plugin export their last spans.
func TestSignalToAllProcessesFinishesRequests(t *testing.T) {
	t.Parallel()
	receiver, fixture := newSpanReceiver(t), newServiceFixture(t, requirePrograms(t, releaseBuild))
	fixture.extraEnv = append(append(fixture.extraEnv, receiver.env()...), "TENANTRY_DRAIN_TIME=2m") // more than a busy machine needs
	p, tenant := newConnectedService(t, fixture)
	tenant.mustSync()
	tenant.control("POST", "/faults", object{"provider": "microsoft365", "match": "POST /graph/v1.0/domains", "kind": "delay_after", "delay_ms": 2000, "times": 1})
	answered, requestsBefore := make(chan int, 1), len(fixture.recordedRequests())
	go func() {
		answered <- sendTraced(tenant.client, "POST", tenant.path("/domains"), object{"domain": "last.test"})
	}()
	tenant.eventually("the platform is asked", func() bool { return len(fixture.recordedRequests()) > requestsBefore })
	for _, id := range append(descendants(t, p.cmd.Process.Pid), processID{pid: p.cmd.Process.Pid}) {
		must(t, syscall.Kill(id.pid, syscall.SIGTERM))
	}
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the request in progress is answered %d, want 200", status)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the service ended with the exit code %d, want 0", code)
	}
	spans, _ := receiver.received(t)
	services := map[string]int{}
	for _, span := range spans {
		if span.trace() == traceID {
			services[span.service]++
		}
	}
	if services["tenantry"] == 0 || services["tenantry-plugin-microsoft365"] == 0 {
		t.Errorf("the spans of the last request by service are %v, want spans of the service and of the plugin", services)
	}
}

// TestSandboxStopsWithSuspendedChildren checks that the sandbox stops although its plugin and
// simulator processes are suspended and a request is in progress.
func TestSandboxStopsWithSuspendedChildren(t *testing.T) {
	t.Parallel()
	o, pending, children := startSlowRequest(t, 2*waitTimeout, "TENANTRY_DRAIN_TIME=4s")
	for _, id := range children {
		must(t, syscall.Kill(id.pid, syscall.SIGSTOP))
	}
	must(t, o.process.stop())
	if remaining := runningProcesses(children); len(remaining) > 0 {
		t.Errorf("processes are left after the stop: %v", remaining)
	}
	if <-pending.answered; pending.err == nil && pending.reply.status < 500 {
		t.Errorf("the request in progress is answered %d %s, want no answer or a 5xx status", pending.reply.status, pending.reply.raw)
	}
}
