// SPDX-License-Identifier: Apache-2.0

//go:build failpoints

// Package failpoint names the points in use cases where tests stop the
// process.
package failpoint

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Hit kills the process with SIGKILL when TENANTRY_FAILPOINTS, a
// comma-separated list, names this point. Its last words tell which it was.
func Hit(name string) {
	for armed := range strings.SplitSeq(os.Getenv("TENANTRY_FAILPOINTS"), ",") {
		if armed == name {
			fmt.Fprintf(os.Stderr, "failpoint %s\n", name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way
		}
	}
}
