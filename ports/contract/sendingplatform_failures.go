// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// deadlineTolerance is the time after which a call with a short deadline must have returned. It is
// shorter than the adapters' own timeouts, so the check fails if only such a timeout ends the call.
const deadlineTolerance = 10 * time.Second

var sendingFailureChecks = []sendingCheck{
	{"sending/failures/throttled", "a throttled call is reported with the platform's Retry-After or a longer wait", func(t T, env SendingPlatformEnv) {
		env.Fail(t, Throttles)
		_, err := env.Platform.Check(callContext(t))
		requireOutcome(t, "check", err, outcome.Throttled)
		var result *outcome.Error
		want := max(ThrottleWait, env.LeastWait)
		if errors.As(err, &result); result.RetryAfter != want {
			t.Fatalf("RetryAfter is %s, want %s", result.RetryAfter, want)
		}
		env.requireNoSecrets(t, "check", err)
	}},
	{"sending/failures/down", "a platform that answers 503 is reported as down", everyCallFails(IsDown, outcome.Down)},
	{"sending/failures/broken", "a platform that answers 500 is reported as broken", everyCallFails(Breaks, outcome.Broken)},
	{"sending/failures/html-page", "an HTML page of a proxy is reported as broken", everyCallFails(AnswersHTML, outcome.Broken)},
	{"sending/failures/half-an-answer", "half an answer is reported as broken", everyCallFails(Truncates, outcome.Broken)},
	{"sending/failures/unexpected-shape", "an answer of an unexpected shape is reported as broken", everyCallFails(AnswersWrongShape, outcome.Broken)},
	{"sending/failures/redirect", "a redirect is reported as broken, and not followed", everyCallFails(Redirects, outcome.Broken)},
	{"sending/failures/endless-answer", "an endless answer is reported as broken", everyCallFails(AnswersWithoutEnd, outcome.Broken)},
	{"sending/failures/lost-answer", "the outcome of a call whose answer is lost is unknown", everyCallFails(LosesAnswer, outcome.Unknown)},
	{"sending/failures/lost-request", "the outcome of a call whose request is lost is unknown", everyCallFails(LosesRequest, outcome.Unknown)},
	{"sending/failures/nothing-listens", "a refused connection is reported as down", func(t T, env SendingPlatformEnv) {
		for operation, call := range env.supportedCalls(env.Absent, "some-session") {
			err := call(callContext(t))
			requireOutcome(t, operation, err, outcome.Down)
			env.requireNoSecrets(t, operation, err)
		}
	}},
	signInCheck("sending/sign-in/lost-start", "a sign-in can be started again after the answer was lost", func(t T, env SendingPlatformEnv) {
		for _, failure := range []Failure{LosesRequest, LosesAnswer} {
			lift := env.Fail(t, failure)
			_, err := env.Platform.StartSignIn(callContext(t), "anna@again.example")
			lift()
			requireOutcome(t, "start", err, outcome.Unknown)
			startSignIn(t, env, "anna@again.example")
		}
		if held := env.Held(t); len(held) > 0 {
			t.Fatalf("nobody has signed in, but the platform has the accounts %v", held)
		}
	}),
	{"sending/failures/deadline", "a call without an answer ends at its deadline, and its outcome is unknown", func(t T, env SendingPlatformEnv) {
		defer env.Fail(t, Hangs)()
		for operation, call := range env.supportedCalls(env.Platform, "some-session") {
			var took time.Duration
			for range 3 { // a slow machine can delay one call
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				began := time.Now()
				err := call(ctx)
				took = time.Since(began)
				cancel()
				requireOutcome(t, operation, err, outcome.Unknown)
				env.requireNoSecrets(t, operation, err)
				if took <= deadlineTolerance {
					break
				}
			}
			if took > deadlineTolerance {
				t.Fatalf("%s returned after %s, want a return at its deadline of 200 ms", operation, took)
			}
		}
	}},
	{"sending/failures/cancelled", "a call with a cancelled context fails, and a cancelled write ends its request", func(t T, env SendingPlatformEnv) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for operation, call := range env.supportedCalls(env.Platform, "some-session") {
			if err := call(ctx); err == nil || outcome.KindOf(err) == outcome.Refused {
				t.Fatalf("%s: got %v, want an error that is not a refusal", operation, err)
			}
		}
		if env.Silent != nil {
			silentPlatform, asked, requireQuiet := env.Silent(t)
			requireEndOfRequests(t, func(ctx context.Context) <-chan error {
				return startCall(func() error { return env.callWrite(ctx, silentPlatform) })
			}, asked, requireQuiet)
		}
	}},
}

// callWrite makes a call that changes the platform, or calls Check if the platform supports no such
// call.
func (env SendingPlatformEnv) callWrite(ctx context.Context, p ports.SendingPlatform) (err error) {
	switch {
	case env.hasCapability(integration.CanOAuth):
		_, err = p.StartSignIn(ctx, "anna@a.example")
	case env.hasCapability(integration.CanDisconnect):
		err = p.Remove(ctx, "some-account")
	default:
		_, err = p.Check(ctx)
	}
	return err
}

// everyCallFails returns a check that makes the platform fail with the failure. The check requires
// the outcome want from each call of supportedCalls.
func everyCallFails(failure Failure, want outcome.Kind) func(t T, env SendingPlatformEnv) {
	return func(t T, env SendingPlatformEnv) {
		env.Put(t, workingAccount("anna@a.example"))
		session := "some-session"
		if env.hasCapability(integration.CanOAuth) && env.Sessions {
			session = startSignIn(t, env, "anna@a.example").ID
		}
		env.Fail(t, failure)
		for operation, call := range env.supportedCalls(env.Platform, session) {
			err := call(callContext(t))
			requireOutcome(t, operation, err, want)
			env.requireNoSecrets(t, operation, err)
			if want == outcome.Broken && (errors.Is(err, fault.AccessDenied) || strings.Contains(err.Error(), "<html")) {
				t.Fatalf("%s: got %v, want neither access_denied nor HTML in the error", operation, err)
			}
		}
	}
}

// supportedCalls returns a call of each method of p that the platform supports, except Remove. A
// call returns only the error of its method.
func (env SendingPlatformEnv) supportedCalls(p ports.SendingPlatform, session string) map[string]func(context.Context) error {
	calls := map[string]func(context.Context) error{
		"check":    func(ctx context.Context) error { _, err := p.Check(ctx); return err },
		"account":  func(ctx context.Context) error { _, err := p.Account(ctx, "anna@a.example"); return err },
		"accounts": func(ctx context.Context) error { _, err := p.Accounts(ctx, ""); return err },
	}
	if env.hasCapability(integration.CanOAuth) {
		calls["start"] = func(ctx context.Context) error { _, err := p.StartSignIn(ctx, "anna@a.example"); return err }
		if env.Sessions {
			calls["sign in"] = func(ctx context.Context) error { _, err := p.SignIn(ctx, session); return err }
		}
	}
	return calls
}
