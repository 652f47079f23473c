// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestProcessExitDoesNotEndThreads checks that the thread which started a process continues after
// the end of the process. If the thread ended, the kernel would kill the other processes which the
// thread has started.
func TestProcessExitDoesNotEndThreads(t *testing.T) {
	exe := testserver.Program(t, "testdata/puppet")
	for range 3 { // each process can be started by a different thread
		p, err := Start(Launch{Exe: exe, Name: "mail-puppet", OnLine: func([]byte) {}, Timeout: testTimeout})
		if err != nil {
			t.Fatal(err)
		}
		threadsBefore := threadIDs(t)
		p.Kill()
		<-p.Exited()
		<-time.After(100 * time.Millisecond) // if the thread ended, it would end just after the process
		threadsAfter := threadIDs(t)
		for _, id := range threadsBefore {
			if !slices.Contains(threadsAfter, id) {
				t.Errorf("the thread %s ended with the process, want it to continue", id)
			}
		}
	}
}

func threadIDs(t *testing.T) []string {
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
