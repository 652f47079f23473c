// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Limits are the limits of a plugin's processes. Zero means no limit. The limits protect the host
// and the other plugins from faults, such as a memory leak. They do not protect against a malicious
// plugin.
type Limits struct {
	// Memory is the maximum size of the private memory of each process, in bytes.
	Memory uint64
	// Processes limits the processes and threads of the host's user. Once the user has added this
	// many since the start of the plugin, the plugin can start no others. The kernel does not
	// enforce this limit for root. In a container, it is not in force (see InPIDNamespace).
	Processes uint64
	// OpenFiles is the maximum number of open files and sockets of each process.
	OpenFiles uint64
}

// initialPIDNamespace is what /proc/self/ns/pid links to outside containers: PROC_PID_INIT_INO in
// include/linux/proc_ns.h of the kernel.
const initialPIDNamespace = "pid:[4026531836]"

// InPIDNamespace reports whether this process is in a PID namespace of a container. There, /proc
// does not show the processes of other containers. If they have the same user id, the kernel counts
// them as processes of the same user.
func InPIDNamespace() bool {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && namespace != initialPIDNamespace
}

// Usage says how much of a limit is used.
type Usage struct {
	Resource    string // "processes" or "open files"
	Used, Limit uint64
}

func (u Usage) isAlmostReached() bool { return u.Limit > 0 && u.Used >= u.Limit-u.Limit/10 }

// ErrOutputTooLong is the error of Output for a command that prints too many bytes.
var ErrOutputTooLong = errors.New("the output is too long")

// start starts a command, and returns the limits in force. On Linux, the command inherits only the
// open files that cmd names (see closeFilesOnExec).
func (l Limits) start(cmd *exec.Cmd) (Limits, error) {
	closeFilesOnExec()
	if err := cmd.Start(); err != nil {
		return Limits{}, err
	}
	return l.apply(cmd.Process.Pid), nil
}

// Output runs a command within the limits and returns its standard output. It fails with
// ErrOutputTooLong if the output is longer than `most` bytes. When the context of the command ends,
// Output kills the process group of the command. It also kills the descendants that are left in
// this group when the command has ended.
func (l Limits) Output(cmd *exec.Cmd, most int) ([]byte, error) {
	output := &limitedBuffer{remaining: most}
	cmd.Stdout, cmd.WaitDelay, cmd.SysProcAttr = output, pipeDrainTime, processAttributes()
	if cmd.Cancel != nil {
		cmd.Cancel = func() error {
			killGroup(cmd.Process.Pid)
			return nil
		}
	}
	runtime.LockOSThread() // see processRunner.Start
	defer runtime.UnlockOSThread()
	if _, err := l.start(cmd); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	killGroup(cmd.Process.Pid)
	if output.remaining < 0 {
		err = ErrOutputTooLong
	}
	return output.text, err
}

// limitedBuffer stores the bytes that are written to it, up to a limit. remaining is negative if
// more bytes were written.
type limitedBuffer struct {
	text      []byte
	remaining int
}

// Write implements io.Writer. After an error of Write, os/exec closes the pipe, and the command can
// print nothing more.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.remaining -= len(p); b.remaining < 0 {
		return 0, ErrOutputTooLong
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// String returns the limits in words.
func (l Limits) String() string {
	var parts []string
	for _, limit := range []struct {
		value      uint64
		text, name string
	}{
		{l.Memory >> 20, "%d MiB of memory", "memory"},
		{l.Processes, "%d processes", "processes"},
		{l.OpenFiles, "%d open files", "open files"},
	} {
		if limit.value == 0 {
			parts = append(parts, limit.name+" not limited")
		} else {
			parts = append(parts, fmt.Sprintf(limit.text, limit.value))
		}
	}
	return strings.Join(parts, ", ")
}
