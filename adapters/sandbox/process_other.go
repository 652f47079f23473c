// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "syscall"

// processAttributes gives a simulator its own process group, so Ctrl-C in the terminal does not
// reach it. When this process dies, only the closed standard input ends the simulator.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
