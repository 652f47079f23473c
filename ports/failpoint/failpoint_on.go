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

// Before kills the process if TENANTRY_FAILPOINTS contains `before <call>`.
func Before(call string) { hit("before " + call) }

// After kills the process if TENANTRY_FAILPOINTS contains `after <call>`. It is called only after a
// successful call.
func After(call string) { hit("after " + call) }

// hit kills the process with SIGKILL if TENANTRY_FAILPOINTS, a comma-separated list, contains this
// name. Before that it writes the name to standard error.
func hit(name string) {
	for listed := range strings.SplitSeq(os.Getenv("TENANTRY_FAILPOINTS"), ",") {
		if listed == name {
			fmt.Fprintf(os.Stderr, "failpoint %s\n", name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // waits for the signal
		}
	}
}
