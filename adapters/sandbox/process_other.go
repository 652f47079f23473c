// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sandbox

import "syscall"

// attributes keeps a Ctrl-C that is meant for this process from a simulator.
// The closed standard input alone ends it when this process dies.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
