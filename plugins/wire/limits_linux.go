// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeFilesOnExec marks all open files of this process, the plugin host, except the standard
// streams, so that a new process does not inherit them. Go marks the files that it opens, but the
// host can itself have inherited open files. On kernels before 5.11, closeFilesOnExec has no effect.
func closeFilesOnExec() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }

// apply limits a process that has just started, and returns the limits in force: 0 for a limit that
// is not in force, for example because the kernel refuses it. The limits also apply to the
// processes that this process starts later.
//
// RLIMIT_DATA limits the memory. RLIMIT_AS is not suitable, because the runtimes of Go and
// JavaScript reserve many more addresses than they use.
func (l Limits) apply(pid int) Limits {
	// A core file would contain secrets, so it is disabled.
	_ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	inForce := Limits{
		Memory:    setLimit(pid, unix.RLIMIT_DATA, l.Memory),
		OpenFiles: setLimit(pid, unix.RLIMIT_NOFILE, l.OpenFiles),
	}
	if l.Processes > 0 && os.Geteuid() != 0 && !InPIDNamespace() {
		if running, err := tasksOfUser(); err == nil {
			granted := setLimit(pid, unix.RLIMIT_NPROC, running+l.Processes)
			inForce.Processes = granted - min(granted, running) // less than l.Processes if the hard limit is low
		}
	}
	return inForce
}

// setLimit sets the soft and the hard limit of a process, but not above the hard limit that the
// process already has. It returns the limit in force, or 0 if limit is 0 or the kernel refuses.
func setLimit(pid, resource int, limit uint64) uint64 {
	var current unix.Rlimit
	if limit == 0 || unix.Prlimit(pid, resource, nil, &current) != nil {
		return 0
	}
	limit = min(limit, current.Max)
	if unix.Prlimit(pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil) != nil {
		return 0
	}
	return limit
}

// AlmostReached returns the limits on processes and open files of which at least nine tenths are
// used. It returns nothing for a process that has exited.
func (p *Process) AlmostReached() []Usage {
	pid, limits := p.PID(), p.Limits()
	var usages []Usage
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)); err == nil {
		usages = append(usages, Usage{"open files", uint64(len(files)), limits.OpenFiles})
	}
	if limits.Processes > 0 {
		var taskLimit unix.Rlimit
		running, err := tasksOfUser()
		if err == nil && unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &taskLimit) == nil {
			remaining := taskLimit.Cur - min(taskLimit.Cur, running)
			usages = append(usages, Usage{"processes", limits.Processes - min(limits.Processes, remaining), limits.Processes})
		}
	}
	return slices.DeleteFunc(usages, func(u Usage) bool { return !u.isAlmostReached() })
}

// tasksOfUser returns the number of processes and threads of the host's user. In a PID namespace it
// would not return those of other namespaces.
func tasksOfUser() (uint64, error) {
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return 0, err
	}
	var tasks uint64
	user := []byte(strconv.Itoa(os.Getuid()))
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil {
			continue // the process has exited
		}
		owner, threads := bytes.Fields(statusLine(status, "Uid:")), statusLine(status, "Threads:")
		if len(owner) == 0 || !bytes.Equal(owner[0], user) {
			continue
		}
		n, err := strconv.ParseUint(string(bytes.TrimSpace(threads)), 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		tasks += n
	}
	return tasks, nil
}

func statusLine(status []byte, name string) []byte {
	_, rest, _ := bytes.Cut(status, []byte("\n"+name))
	value, _, _ := bytes.Cut(rest, []byte("\n"))
	return value
}
