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
)

// kin is a process by its id and the time it was started, as ids come again.
type kin struct {
	pid     int
	started string
}

// stat reads what Linux tells of a process: its state, parent and start.
func stat(pid int) (state string, parent int, started string) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, ""
	}
	// The name, in parentheses, may hold spaces.
	fields := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	return fields[0], parent, fields[19]
}

// descendants are the processes below one.
func descendants(t *testing.T, of int) (found []kin) {
	t.Helper()
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no processes: %v", err)
	}
	for _, folder := range folders {
		pid, _ := strconv.Atoi(filepath.Base(folder))
		if state, parent, started := stat(pid); parent == of && state != "Z" {
			found = append(append(found, kin{pid, started}), descendants(t, pid)...)
		}
	}
	return found
}

// left are those that still run. A dead one that nobody collected does not.
func left(of []kin) []kin {
	return slices.DeleteFunc(slices.Clone(of), func(k kin) bool {
		state, _, started := stat(k.pid)
		return state == "" || state == "Z" || started != k.started
	})
}

// working is a sandbox with its plugin and simulator running, and a request
// under way at the mail platform.
func working(t *testing.T, delay time.Duration) (e *errand, p *pending, below []kin) {
	t.Helper()
	return workingAt(t, setOut(newMortal(t, binary(t, release), nil)), delay)
}

func workingAt(t *testing.T, e *errand, delay time.Duration) (_ *errand, p *pending, below []kin) {
	t.Helper()
	e.run(mainJob()[:2], undisturbed(e))
	done, _ := e.journal()
	e.fault(object{"operation": "domain.create", "kind": "delay_after", "delay_ms": delay.Milliseconds(), "times": 1})
	p = e.ask(request{method: "POST", path: e.api("/domains"), body: object{"domain": e.domain}})
	if !e.until(p, "domain.create", done["domain.create"]) {
		t.Fatalf("answered too soon: %d %s", p.got.status, p.got.raw)
	}
	if below = descendants(t, e.process.cmd.Process.Pid); len(below) < 3 {
		t.Fatalf("%d processes below the service, want plugin and simulators", len(below))
	}
	return e, p, below
}

// TestStopLetsRequestsFinish: on SIGTERM what is under way is answered, new
// requests are not taken, and no process is left.
func TestStopLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	e, p, below := working(t, 8*time.Second)
	if err := e.process.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	e.eventually("the listener is closed", func() bool {
		_, err := e.try("GET", e.ready.APIURL+"/v1/tenants", e.ready.APIKey, nil)
		return err != nil
	})
	select {
	case <-p.answered:
		t.Error("the request under way ended with the listener")
	default:
	}
	<-p.answered
	if p.err != nil || p.got.status != http.StatusOK || p.got.text("status") != "added" {
		t.Errorf("the request under way: %v %d %s", p.err, p.got.status, p.got.raw)
	}
	<-e.process.done
	if code := e.process.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if rest := left(below); len(rest) > 0 {
		t.Errorf("left after the stop: %v", rest)
	}
	e.start() // and it goes on
	e.expect("domains after the next start", e.holding().get(e.api("/domains")).text("count"), 1)
}

// TestKilledServiceLeavesNothing checks that plugins and simulators end after
// SIGKILL to the service. A call that is under way would hold them longer than
// the test waits.
func TestKilledServiceLeavesNothing(t *testing.T) {
	t.Parallel()
	e, p, below := working(t, 2*hang)
	e.process.kill()
	e.eventually("no process is left", func() bool { return len(left(below)) == 0 })
	if <-p.answered; p.err == nil {
		t.Errorf("a killed service answered %d", p.got.status)
	}
}
