// SPDX-License-Identifier: Apache-2.0

package contract

import "context"

// T is what a check uses of a test. *testing.T implements it, and so does the runner of
// `tenantry plugin test`, which links no package testing.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Cleanup(f func())
	Context() context.Context
	TempDir() string
}

// Runner is a T that runs subtests, such as *testing.T.
type Runner[R any] interface {
	T
	Parallel()
	Run(name string, f func(t R)) bool
}

// Check is one promise of a port. E is the test environment in which it runs.
type Check[E any] struct {
	// ID names the check for people and reports: kind, area and name, such as dns/write/repeated.
	ID string
	// Proves is the sentence that is true of an adapter that passes.
	Proves string
	Run    func(t T, env E)
}

// run runs each check as a subtest in the environment that open returns.
func run[R Runner[R], E any](t R, checks []Check[E], open func(T) E) {
	for _, c := range checks {
		t.Run(c.ID, func(t R) { c.Run(t, open(t)) })
	}
}
