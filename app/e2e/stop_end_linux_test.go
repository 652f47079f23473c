// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/tenantry/tenantry/app/cli"
)

// held is a sandbox with a request that the mail platform holds for longer than
// the test waits.
func held(t *testing.T, env ...string) (e *errand, p *pending, below []kin) {
	t.Helper()
	m := &mortal{client: client{t: t}, binary: binary(t, release), data: t.TempDir(), given: env}
	m.start()
	return workingAt(t, setOut(m), 2*hang)
}

// TestStopCutsWhatTakesTooLong: near the end of drain_time what is under way
// is cancelled and says so. What it had begun is looked up by the next try.
func TestStopCutsWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	e, p, below := held(t, "TENANTRY_DRAIN_TIME=4s")
	if err := e.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-e.process.done
	if <-p.answered; p.err != nil || p.got.status != http.StatusServiceUnavailable && p.got.status != http.StatusGatewayTimeout {
		t.Errorf("what was cut: %v %d %s", p.err, p.got.status, p.got.raw)
	}
	if p.got.status == http.StatusServiceUnavailable && p.got.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	if code := e.process.cmd.ProcessState.ExitCode(); code != cli.ExitRefused || !strings.Contains(e.process.logs.String(), "1 requests were not finished in drain_time") {
		t.Errorf("exit code %d without saying that a request was cut", code)
	}
	if rest := left(below); len(rest) > 0 {
		t.Errorf("left after the stop: %v", rest)
	}
	e.start()
	e.insist(request{method: "POST", path: e.api("/domains"), body: object{"domain": e.domain}})
	domains, _ := e.platform(e.tenant)
	e.expect("domains at the platform", len(domains), 1)
	done, _ := e.journal()
	e.expect("domains created", done["domain.create"], 1)
}

// TestSecondSignalStopsAtOnce checks that a second signal ends the process although
// a request is under way and drain_time is longer than the test waits.
func TestSecondSignalStopsAtOnce(t *testing.T) {
	t.Parallel()
	e, p, below := held(t, "TENANTRY_DRAIN_TIME="+(2*hang).String())
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := e.process.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		e.eventually("the signal is taken", func() bool { return strings.Contains(e.process.logs.String(), "stop") })
	}
	e.eventually("the process ends", func() bool {
		select {
		case <-e.process.done:
			return true
		default:
			return false
		}
	})
	if code := e.process.cmd.ProcessState.ExitCode(); code != cli.ExitRefused {
		t.Errorf("exit code %d", code)
	}
	if <-p.answered; p.err == nil {
		t.Errorf("answered %d", p.got.status)
	}
	e.eventually("no process is left", func() bool { return len(left(below)) == 0 })
}

// TestSignalToAllProcesses: as service managers send it. The plugin is there
// until its last call is answered, and the last spans of both are exported.
func TestSignalToAllProcesses(t *testing.T) {
	t.Parallel()
	o, r := newReceiver(t), newRig(t, binary(t, release))
	r.given = append(r.given, o.env()...)
	p, h := inUse(t, r)
	h.synced()
	h.control("POST", "/faults", object{"provider": "microsoft365", "match": "POST /graph/v1.0/domains", "kind": "delay_after", "delay_ms": 2000, "times": 1})
	got, before := make(chan int, 1), len(r.requests())
	go func() {
		got <- traced(h.client, "POST", h.path("/domains"), object{"domain": "last.test"})
	}()
	h.eventually("the platform is asked", func() bool { return len(r.requests()) > before })
	for _, k := range append(descendants(t, p.cmd.Process.Pid), kin{pid: p.cmd.Process.Pid}) {
		if err := syscall.Kill(k.pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	if status := <-got; status != http.StatusOK {
		t.Errorf("the request under way: %d", status)
	}
	<-p.done
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	spans, _ := o.all(t)
	services := map[string]int{}
	for _, s := range spans {
		if s.trace() == traceID {
			services[s.service]++
		}
	}
	if services["tenantry"] == 0 || services["tenantry-plugin-microsoft365"] == 0 {
		t.Errorf("spans of the last request, by service: %v", services)
	}
}
