// SPDX-License-Identifier: Apache-2.0

package wire

import "syscall"

// processAttributes returns attributes that put a plugin into its own process group, so that Ctrl-C
// in the host's terminal does not reach it. With these attributes, the kernel kills the plugin when
// the host dies, even if the plugin is suspended.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
