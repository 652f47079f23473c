// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package wire

import "syscall"

// processAttributes returns attributes that put a plugin into its own process group, so that Ctrl-C
// in the host's terminal does not reach it. Not all of these systems have a parent-death signal, so
// it sets none. The plugin exits when its standard input is closed.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func closeFilesOnExec() {}

// AlmostReached returns nothing, because no limit is in force.
func (*Process) AlmostReached() []Usage { return nil }

// apply does nothing: only Linux can limit a process from outside. No limit is in force.
func (Limits) apply(int) Limits { return Limits{} }
