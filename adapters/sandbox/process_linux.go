// SPDX-License-Identifier: Apache-2.0

package sandbox

import "syscall"

// processAttributes returns attributes with which the kernel kills a simulator when this process
// dies. The simulator gets its own process group, so Ctrl-C in the terminal does not reach it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
