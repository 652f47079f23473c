// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"syscall"
	"testing"
)

// TestDevStopsBesideStoppedProcesses: a plugin and a simulator that do not run
// keep nobody from stopping the sandbox, not even with a request under way.
func TestDevStopsBesideStoppedProcesses(t *testing.T) {
	t.Parallel()
	e, p, below := held(t, "TENANTRY_DRAIN_TIME=4s")
	for _, k := range below {
		if err := syscall.Kill(k.pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.process.stop(); err != nil {
		t.Fatal(err)
	}
	if rest := left(below); len(rest) > 0 {
		t.Errorf("left after the stop: %v", rest)
	}
	if <-p.answered; p.err == nil && p.got.status < 500 {
		t.Errorf("the request under way: %d %s", p.got.status, p.got.raw)
	}
}
