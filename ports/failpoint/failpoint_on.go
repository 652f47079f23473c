// SPDX-License-Identifier: Apache-2.0

//go:build failpoints

// Package failpoint marks the points in use cases at which tests kill the process.
package failpoint

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Hit kills the process with SIGKILL if TENANTRY_FAILPOINTS, a comma-separated list, contains this
// name. Before that it writes the name to standard error.
func Hit(name string) {
	for armed := range strings.SplitSeq(os.Getenv("TENANTRY_FAILPOINTS"), ",") {
		if armed == name {
			fmt.Fprintf(os.Stderr, "failpoint %s\n", name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // waits for the signal
		}
	}
}
