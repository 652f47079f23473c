// SPDX-License-Identifier: Apache-2.0

package testserver

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// leakTimeout is how long goroutines may take to end. goleak itself waits less than half a second,
// which is too short for a busy machine.
const leakTimeout = time.Minute

// VerifyNoLeaks returns a function that waits until all goroutines have ended that did not run when
// VerifyNoLeaks was called. The function fails the test if one of them does not end.
func VerifyNoLeaks(t testing.TB) func() {
	running := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		if err := findLeaks(running); err != nil {
			t.Error(err)
		}
	}
}

// RunWithoutLeaks runs the tests of a package and exits. The exit code is 1 if a goroutine of a
// test does not end.
func RunWithoutLeaks(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := findLeaks(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func findLeaks(options ...goleak.Option) error {
	deadline := time.Now().Add(leakTimeout)
	for {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
