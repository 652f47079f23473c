// SPDX-License-Identifier: Apache-2.0

package sandbox

import "syscall"

// processAttributes makes the kernel kill a simulator when this process dies. A process group of
// its own keeps Ctrl-C from it.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
