// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package wire

import "syscall"

// processAttributes keeps a Ctrl-C meant for the host from the plugin. Only
// the lifeline ends it with its host here.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
