// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "syscall"

// processAttributes keeps Ctrl-C from a simulator. When this process dies, only the closed standard
// input ends the simulator.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
