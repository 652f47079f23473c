// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "syscall"

// processAttributes returns attributes that give a simulator its own process group, so Ctrl-C in
// the terminal does not reach it. If this process dies, only the closed standard input makes the
// simulator exit.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
