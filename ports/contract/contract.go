// SPDX-License-Identifier: Apache-2.0

// Package contract contains the test suites of the ports that have several adapters. Every adapter
// of such a port must pass the port's suite. A check tests one promise of the port. The stores have
// only one adapter, adapters/bunstore, and its tests check the promises of their ports.
//
// An adapter's test calls the function that is named like the port, such as MailPlatform, and
// passes a function that opens a test environment with the adapter: MailPlatformEnv, DNSReaderEnv,
// DNSProviderEnv or SendingPlatformEnv. Each of these types says what its environment must be able
// to do. The suite of the rate limiter needs only the adapter.
//
// Package contract does not import package testing, because `tenantry plugin test` also runs the
// checks of the provider suites. A check gets a T, which *testing.T implements. The suite of the
// job queue needs package testing and is in queuecontract.
//
//   - contract.go: T, Check and Runner, and shared assertions. Start with mailplatform.go, the
//     first suite.
//   - mailplatform.go: MailPlatformEnv, Setup, Failure, and the checks of outcomes.
//   - mailplatform_directory.go: consent and domains. mailplatform_mailserver.go: the mail server
//     and mailboxes. mailplatform_sending.go: transport rules. mailplatform_trace.go: the message
//     trace.
//   - dnsreader.go, dnsprovider.go: public DNS, and the zones of a DNS provider.
//   - sendingplatform.go: SendingPlatformEnv, credentials and accounts.
//   - sendingplatform_signin.go: sign-in and removal at sending platforms.
//     sendingplatform_failures.go: sending platforms that fail.
//   - limiter.go: the rate limiter.
//
// The tests of this package run each suite on adapters that each break one promise, and fail if the
// suite does not detect the break.
package contract

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/panics"
)

// T has the methods of *testing.T that checks use. The runner of `tenantry plugin test` also
// implements it.
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

// Check tests one promise of a port. E is the type of the test environment in which it runs.
type Check[E any] struct {
	// ID names the check for people and reports: kind, area and name, such as dns/write/repeated.
	ID string
	// Proves is a sentence that is true for every adapter that passes.
	Proves string
	Run    func(t T, env E)
}

// runChecks runs each check as a subtest in the environment that open returns.
func runChecks[R Runner[R], E any](t R, checks []Check[E], open func(T) E) {
	for _, check := range checks {
		t.Run(check.ID, func(t R) { check.Run(t, open(t)) })
	}
}

// hangTimeout is so long that even on a slow machine only a call that hangs reaches it.
const hangTimeout = 5 * time.Minute

// callContext returns the context of a provider call. Its deadline is hangTimeout.
func callContext(t T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
	t.Cleanup(cancel)
	return ctx
}

func must(t T, action string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", action, err)
	}
}

func requireRefusal(t T, action string, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%s: got %v, want %s", action, err, code.Name)
	}
}

func requireOutcome(t T, action string, err error, kind outcome.Kind) {
	t.Helper()
	if got := outcome.KindOf(err); got != kind {
		t.Fatalf("%s: got outcome %s (%v), want %s", action, got, err, kind)
	}
}

// Concurrently calls f(0) to f(n-1) at the same time, and returns their errors in this order.
func Concurrently(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var group panics.Group
	for i := range n {
		group.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	group.Wait()
	return errs
}
