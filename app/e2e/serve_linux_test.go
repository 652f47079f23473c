// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServeListensTwice: the API and the admin's pages, no control interface.
func TestServeListensTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, binary(t, release))
	p, c := r.serve(r.env(t.TempDir(), ""))
	c.ready.APIKey = "none"
	c.api("GET", "/v1/tenants/connect-url", nil) // whatever is started on demand
	if n := listeners(t, p.cmd.Process.Pid); n != 2 {
		t.Errorf("it listens on %d sockets", n)
	}
}

// listeners counts the TCP sockets on which a process listens.
func listeners(t *testing.T, pid int) (n int) {
	t.Helper()
	listening := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			const state, listen, inode = 3, "0A", 9
			if f := strings.Fields(line); len(f) > inode && f[state] == listen {
				listening["socket:["+f[inode]+"]"] = true
			}
		}
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no open files: %v", err)
	}
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && listening[to] {
			n++
		}
	}
	return n
}
