// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime/debug"
)

// collectRarely lets the heap grow to five times what is alive, not twice,
// before it is collected: what lives is about ten megabytes, and collecting
// took an eighth of the processor time of a list read. GOGC decides instead
// where it is set, and GOMEMLIMIT bounds both.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
