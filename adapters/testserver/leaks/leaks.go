// SPDX-License-Identifier: Apache-2.0

// Package leaks finds goroutines that tests leave behind. It uses package goleak, but gives the
// goroutines of a busy machine more time to end. Only tests import it.
package leaks

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// timeout is how long goroutines may take to end. goleak itself waits less than half a second.
const timeout = time.Minute

// Verify returns a function that waits until all goroutines have ended that did not run when Verify
// was called. The function fails the test if one of them does not end.
func Verify(t testing.TB) func() {
	running := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		if err := find(running); err != nil {
			t.Error(err)
		}
	}
}

// VerifyTestMain runs the tests of a package and exits. If the tests pass but leave a goroutine
// that does not end, the exit code is 1.
func VerifyTestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func find(options ...goleak.Option) error {
	deadline := time.Now().Add(timeout)
	for {
		err := goleak.Find(options...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
