// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "syscall"

// processAttributes returns attributes that give a simulator its own process group, so Ctrl-C in
// the terminal does not reach it. If the sandbox's process dies, the simulator exits because its
// standard input is closed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
