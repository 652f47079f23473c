// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"strings"
)

// Limits are the limits of a plugin's processes. Zero means no limit. They protect the host and the
// other plugins from a fault, such as a leak. They do not stop a plugin that was written to attack.
type Limits struct {
	// Memory is the maximum size of the private memory of each process, in bytes.
	Memory uint64
	// Processes is how many processes and threads the plugin's user may have beyond those at the
	// start of the plugin. The kernel does not enforce it for root.
	Processes uint64
	// OpenFiles is the maximum number of open files and sockets of each process.
	OpenFiles uint64
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
