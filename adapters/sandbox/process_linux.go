// SPDX-License-Identifier: Apache-2.0

package sandbox

import "syscall"

// attributes ties a simulator to this process: it is killed when this one
// dies, and a Ctrl-C that is meant for this one is not its.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
