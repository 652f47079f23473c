// SPDX-License-Identifier: Apache-2.0

//go:build unix

package server

import (
	"math"
	"syscall"
)

// maxOpenFiles returns how many files and connections the process may have open, at most
// math.MaxInt32.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || uint64(limit.Cur) > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur)
}
