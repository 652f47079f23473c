// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestTheEndOfAProcessEndsNoThread: if the thread that started a process ended
// with it, the kernel would kill the other processes that the thread started.
func TestTheEndOfAProcessEndsNoThread(t *testing.T) {
	exe := testserver.Program(t, "testdata/puppet")
	for range 3 {
		p, err := Start(Launch{Exe: exe, Name: "mail-puppet", Line: func([]byte) {}, Timeout: hang})
		if err != nil {
			t.Fatal(err)
		}
		before := threads(t)
		p.Kill()
		<-p.Exited()
		<-time.After(100 * time.Millisecond) // one would end just after the process
		now := threads(t)
		for _, id := range before {
			if !slices.Contains(now, id) {
				t.Errorf("thread %s ended", id)
			}
		}
	}
}

func threads(t *testing.T) []string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, len(list))
	for i, task := range list {
		ids[i] = task.Name()
	}
	return ids
}
