// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"runtime"
	"testing"
)

// failureRecorder is a T that only records a failure by Fatal or Fatalf, so that the test that runs
// the check does not fail.
type failureRecorder struct {
	T
	failed bool
}

func (r *failureRecorder) Helper() {}

func (r *failureRecorder) Skipf(string, ...any) { runtime.Goexit() }

func (r *failureRecorder) Fatalf(string, ...any) { r.stop() }

func (r *failureRecorder) Fatal(...any) { r.stop() }

// stop records a failure and ends the goroutine of the check.
func (r *failureRecorder) stop() {
	r.failed = true
	runtime.Goexit()
}

// checkFails runs a check with a failureRecorder and reports whether the check failed.
func checkFails(t *testing.T, run func(T)) bool {
	recorder := &failureRecorder{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(recorder)
	}()
	<-done
	return recorder.failed
}

// requireDetected fails the test if all checks pass. open returns a new environment that breaks a
// promise.
func requireDetected[E any](t *testing.T, checks []Check[E], open func() E) {
	t.Helper()
	for _, check := range checks {
		env := open()
		if checkFails(t, func(t T) { check.Run(t, env) }) {
			return
		}
	}
	t.Fatal("the suite does not detect the broken promise")
}
