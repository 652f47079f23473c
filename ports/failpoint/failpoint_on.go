// SPDX-License-Identifier: Apache-2.0

//go:build failpoints

// Package failpoint lets a test kill the process before or after a call of a port.
package failpoint

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Before kills the process if `before <call>` is armed.
func Before(call string) { hit("before " + call) }

// After kills the process if `after <call>` is armed. Only a successful call has this point.
func After(call string) { hit("after " + call) }

// hit kills the process with SIGKILL if TENANTRY_FAILPOINTS, a comma-separated list, contains this
// name. Before that it writes the name to standard error.
func hit(name string) {
	for armed := range strings.SplitSeq(os.Getenv("TENANTRY_FAILPOINTS"), ",") {
		if armed == name {
			fmt.Fprintf(os.Stderr, "failpoint %s\n", name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // waits for the signal
		}
	}
}
