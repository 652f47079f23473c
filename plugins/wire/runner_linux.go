// SPDX-License-Identifier: Apache-2.0

package wire

import "syscall"

// processAttributes puts a plugin into its own process group, so that a Ctrl-C for the host does
// not reach it. The kernel kills the plugin when the host dies, even while the plugin is stopped.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
