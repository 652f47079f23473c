// SPDX-License-Identifier: Apache-2.0

package wire

import "syscall"

// processAttributes ties a plugin to its host: it is killed when the host
// dies, even while it is stopped, and a Ctrl-C meant for the host is not its.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
