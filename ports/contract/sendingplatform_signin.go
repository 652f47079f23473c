// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// signInCheck returns a check that is skipped on platforms that cannot sign in.
func signInCheck(name string, run func(t testing.TB, w SendingPlatformEnv)) sendingCheck {
	return sendingCheck{name, func(t testing.TB, w SendingPlatformEnv) {
		if w.hasCapability(integration.CanOAuth) {
			run(t, w)
		}
	}}
}

var sendingSignInChecks = []sendingCheck{
	signInCheck("a sign-in link leads to an allowed host", func(t testing.TB, w SendingPlatformEnv) {
		first, second := startSignIn(t, w, "anna@link.example"), startSignIn(t, w, "anna@link.example")
		if first.URL == second.URL {
			t.Fatal("two sessions have one link")
		}
		if w.Sessions && (first.ID == "" || first.ID == second.ID || first.ExpiresAt.IsZero()) {
			t.Fatalf("sessions %q until %s and %q", first.ID, first.ExpiresAt, second.ID)
		}
		if !w.Sessions && (first.ID != "" || !first.ExpiresAt.IsZero()) {
			t.Fatalf("a session %q until %s of a platform that has none", first.ID, first.ExpiresAt)
		}
		if a := findAccount(t, w, "anna@link.example"); a.Exists() || len(w.Held(t)) > 0 {
			t.Fatalf("attached before anybody signed in: %+v", a)
		}
	}),
	signInCheck("a link to a host that is not allowed is not returned", func(t testing.TB, w SendingPlatformEnv) {
		w.Fail(t, Strays)
		s, err := w.Platform.StartSignIn(callContext(t), "anna@stray.example")
		if s.URL != "" {
			t.Fatal("a link is given out")
		}
		requireOutcome(t, "start", err, outcome.Broken)
		w.requireNoSecrets(t, "start", err)
	}),
	signInCheck("a person who signs in gets an account", func(t testing.TB, w SendingPlatformEnv) {
		s := startSignIn(t, w, "anna@done.example")
		requireSignInState(t, w, s, integration.SignInPending)
		w.SignIn(t, s, "Anna@done.example")
		a := waitForAccount(t, w, "anna@done.example")
		if a.State != integration.AccountConnected || a.Stamp == "" {
			t.Fatalf("got %+v", a)
		}
		if p := requireSignInState(t, w, s, integration.SignInSucceeded); w.Sessions && !integration.SameAddress(p.Address, a.Address) {
			t.Fatalf("the session tells of %q", p.Address)
		}
		again := startSignIn(t, w, "anna@done.example")
		if now := findAccount(t, w, "anna@done.example"); now.Stamp != a.Stamp {
			t.Fatalf("the stamp moves from %q to %q before anybody signed in", a.Stamp, now.Stamp)
		}
		w.SignIn(t, again, "anna@done.example")
		if now := waitForAccount(t, w, "anna@done.example"); now.Stamp == a.Stamp || now.ID != a.ID {
			t.Fatalf("after a second sign-in: %+v, before: %+v", now, a)
		}
	}),
	signInCheck("a sign-in reports the person who signed in, not the expected one", func(t testing.TB, w SendingPlatformEnv) {
		s := startSignIn(t, w, "anna@wrong.example")
		w.SignIn(t, s, "bob@wrong.example")
		waitForAccount(t, w, "bob@wrong.example")
		if a := findAccount(t, w, "anna@wrong.example"); a.Exists() {
			t.Fatalf("got %+v", a)
		}
		if p := requireSignInState(t, w, s, integration.SignInSucceeded); w.Sessions && !integration.SameAddress(p.Address, "bob@wrong.example") {
			t.Fatalf("the session tells of %q", p.Address)
		}
	}),
	signInCheck("a declined session has failed, with a reason", func(t testing.TB, w SendingPlatformEnv) {
		if w.Decline == nil {
			return
		}
		s := startSignIn(t, w, "anna@declined.example")
		w.Decline(t, s)
		if p := requireSignInState(t, w, s, integration.SignInFailed); p.Reason == "" || p.Address != "" {
			t.Fatalf("got %+v", p)
		}
		if a := findAccount(t, w, "anna@declined.example"); a.Exists() {
			t.Fatalf("got %+v", a)
		}
	}),
	signInCheck("an expired session and an unknown session are expired", func(t testing.TB, w SendingPlatformEnv) {
		if !w.Sessions {
			return
		}
		s := startSignIn(t, w, "anna@expired.example")
		w.Expire(t, s)
		requireSignInState(t, w, s, integration.SignInExpired)
		requireSignInState(t, w, integration.SignIn{ID: "00000000-0000-4000-8000-000000000000"}, integration.SignInExpired)
	}),
	{"a missing capability is reported as such", func(t testing.TB, w SendingPlatformEnv) {
		less := w.Lesser
		if !w.hasCapability(integration.CanOAuth) {
			less = w.Platform
		}
		if less != nil {
			_, err := less.StartSignIn(callContext(t), "anna@less.example")
			requireRefusal(t, "start", err, fault.CapabilityMissing)
			_, err = less.Check(callContext(t))
			must(t, "check with the same credential", err)
		}
		if !w.hasCapability(integration.CanOAuth) || !w.Sessions {
			_, err := w.Platform.SignIn(callContext(t), "some-session")
			requireRefusal(t, "sign in", err, fault.CapabilityMissing)
		}
		if !w.hasCapability(integration.CanDisconnect) {
			w.Put(t, workingAccount("anna@less.example"))
			requireRefusal(t, "remove", w.Platform.Remove(callContext(t), findAccount(t, w, "anna@less.example").ID), fault.CapabilityMissing)
			if len(w.Held(t)) != 1 {
				t.Fatal("the account is gone")
			}
		}
	}},
}

func startSignIn(t testing.TB, w SendingPlatformEnv, address string) integration.SignIn {
	t.Helper()
	s, err := w.Platform.StartSignIn(callContext(t), address)
	must(t, "start", err)
	if !integration.AuthURL(s.URL, w.AuthHosts) {
		t.Fatalf("the link does not lead to one of %v", w.AuthHosts)
	}
	return s
}

// requireSignInState checks the state of a session. It does nothing on platforms without sessions.
func requireSignInState(t testing.TB, w SendingPlatformEnv, s integration.SignIn, want integration.SignInState) integration.Progress {
	t.Helper()
	if !w.Sessions {
		return integration.Progress{}
	}
	p, err := w.Platform.SignIn(callContext(t), s.ID)
	must(t, "sign in", err)
	if p.State != want {
		t.Fatalf("the session is %q, want %q", p.State, want)
	}
	return p
}

// waitForAccount waits for an account that was signed in. A platform may list it late, with no
// stated limit.
func waitForAccount(t testing.TB, w SendingPlatformEnv, address string) integration.Account {
	t.Helper()
	for end := time.Now().Add(hangTimeout); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if a := findAccount(t, w, address); a.Exists() {
			return a
		}
	}
	t.Fatalf("%s is not attached", address)
	return integration.Account{}
}

// removalCheck returns a check that is skipped on platforms that cannot remove accounts.
func removalCheck(name string, run func(t testing.TB, w SendingPlatformEnv)) sendingCheck {
	return sendingCheck{name, func(t testing.TB, w SendingPlatformEnv) {
		if w.hasCapability(integration.CanDisconnect) {
			run(t, w)
		}
	}}
}

var sendingRemovalChecks = []sendingCheck{
	removalCheck("removing an account twice removes only this account", func(t testing.TB, w SendingPlatformEnv) {
		w.Put(t, workingAccount("anna@gone.example"), workingAccount("bob@gone.example"))
		id := findAccount(t, w, "anna@gone.example").ID
		for range 2 {
			must(t, "remove", w.Platform.Remove(callContext(t), id))
			if a := findAccount(t, w, "anna@gone.example"); a.Exists() {
				t.Fatalf("still there: %+v", a)
			}
		}
		if left := w.Held(t); len(left) != 1 || !integration.SameAddress(left[0], "bob@gone.example") {
			t.Fatalf("left are %v", left)
		}
	}),
	removalCheck("a removal whose answer is lost is unknown and can be repeated", func(t testing.TB, w SendingPlatformEnv) {
		w.Put(t, workingAccount("anna@lost.example"), workingAccount("bob@lost.example"))
		for address, failure := range map[string]Failure{"anna@lost.example": LosesAnswer, "bob@lost.example": LosesRequest} {
			id := findAccount(t, w, address).ID
			lift := w.Fail(t, failure)
			err := w.Platform.Remove(callContext(t), id)
			lift()
			requireOutcome(t, "remove", err, outcome.Unknown)
			there := slices.ContainsFunc(w.Held(t), func(held string) bool { return integration.SameAddress(held, address) })
			if there != (failure == LosesRequest) {
				t.Fatalf("%s is there: %v", address, there)
			}
			must(t, "remove again", w.Platform.Remove(callContext(t), id))
		}
		if left := w.Held(t); len(left) > 0 {
			t.Fatalf("left are %v", left)
		}
	}),
	removalCheck("a proxy's HTML page does not count as a removal", func(t testing.TB, w SendingPlatformEnv) {
		w.Put(t, workingAccount("anna@page.example"))
		id := findAccount(t, w, "anna@page.example").ID
		w.Fail(t, Babbles)
		requireOutcome(t, "remove", w.Platform.Remove(callContext(t), id), outcome.Broken)
	}),
}

// adapterTimeout is shorter than the timeouts of the adapters. A call that takes longer ignores its
// caller's deadline.
const adapterTimeout = 10 * time.Second

var sendingTroubleChecks = []sendingCheck{
	{"a platform that throttles is throttled, for as long as it says", func(t testing.TB, w SendingPlatformEnv) {
		w.Fail(t, Throttles)
		_, err := w.Platform.Check(callContext(t))
		requireOutcome(t, "check", err, outcome.Throttled)
		var o *outcome.Error
		want := max(ThrottleWait, w.LeastWait)
		if errors.As(err, &o); o.RetryAfter != want {
			t.Fatalf("RetryAfter is %s, want %s", o.RetryAfter, want)
		}
		w.requireNoSecrets(t, "check", err)
	}},
	{"a platform out of service is down", everyCall(IsDown, outcome.Down)},
	{"a platform that fails is broken", everyCall(Breaks, outcome.Broken)},
	{"a proxy's HTML page is broken", everyCall(Babbles, outcome.Broken)},
	{"half an answer is broken", everyCall(Truncates, outcome.Broken)},
	{"an answer of an unexpected shape is broken", everyCall(Misshapes, outcome.Broken)},
	{"a redirect is broken, and not followed", everyCall(Redirects, outcome.Broken)},
	{"an endless answer is broken", everyCall(Floods, outcome.Broken)},
	{"a lost answer is unknown", everyCall(LosesAnswer, outcome.Unknown)},
	{"a lost request is unknown", everyCall(LosesRequest, outcome.Unknown)},
	{"an address where nothing listens is down", func(t testing.TB, w SendingPlatformEnv) {
		for what, of := range w.calls(w.Absent, "some-session") {
			err := of(callContext(t))
			requireOutcome(t, what, err, outcome.Down)
			w.requireNoSecrets(t, what, err)
		}
	}},
	signInCheck("a lost start may be repeated", func(t testing.TB, w SendingPlatformEnv) {
		for _, failure := range []Failure{LosesRequest, LosesAnswer} {
			lift := w.Fail(t, failure)
			_, err := w.Platform.StartSignIn(callContext(t), "anna@again.example")
			lift()
			requireOutcome(t, "start", err, outcome.Unknown)
			startSignIn(t, w, "anna@again.example")
		}
		if held := w.Held(t); len(held) > 0 {
			t.Fatalf("attached: %v", held)
		}
	}),
	{"a call without an answer ends unknown at its deadline", func(t testing.TB, w SendingPlatformEnv) {
		defer w.Fail(t, Hangs)()
		for what, of := range w.calls(w.Platform, "some-session") {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			began := time.Now()
			err := of(ctx)
			cancel()
			if requireOutcome(t, what, err, outcome.Unknown); time.Since(began) > adapterTimeout {
				t.Fatalf("%s returned after %s, want the end of the caller's deadline", what, time.Since(began))
			}
			w.requireNoSecrets(t, what, err)
		}
	}},
	{"a call with a cancelled context does nothing", func(t testing.TB, w SendingPlatformEnv) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for what, of := range w.calls(w.Platform, "some-session") {
			if err := of(ctx); err == nil || outcome.Of(err) == outcome.Refused {
				t.Fatalf("%s: got %v, want the end of the context", what, err)
			}
		}
	}},
}

// everyCall returns a check that every call ends with this outcome while the platform fails in this
// way.
func everyCall(failure Failure, want outcome.Kind) func(t testing.TB, w SendingPlatformEnv) {
	return func(t testing.TB, w SendingPlatformEnv) {
		w.Put(t, workingAccount("anna@a.example"))
		session := "some-session"
		if w.hasCapability(integration.CanOAuth) && w.Sessions {
			session = startSignIn(t, w, "anna@a.example").ID
		}
		w.Fail(t, failure)
		for what, of := range w.calls(w.Platform, session) {
			err := of(callContext(t))
			requireOutcome(t, what, err, want)
			w.requireNoSecrets(t, what, err)
			if want == outcome.Broken && (errors.Is(err, fault.AccessDenied) || strings.Contains(err.Error(), "<html")) {
				t.Fatalf("%s: got %v", what, err)
			}
		}
	}
}

// calls returns the methods of p that the platform supports, without Remove. Each returns only the
// error.
func (w SendingPlatformEnv) calls(p ports.SendingPlatform, session string) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"check":    func(ctx context.Context) error { _, err := p.Check(ctx); return err },
		"account":  func(ctx context.Context) error { _, err := p.Account(ctx, "anna@a.example"); return err },
		"accounts": func(ctx context.Context) error { _, err := p.Accounts(ctx, ""); return err },
	}
	if w.hasCapability(integration.CanOAuth) {
		all["start"] = func(ctx context.Context) error { _, err := p.StartSignIn(ctx, "anna@a.example"); return err }
		if w.Sessions {
			all["sign in"] = func(ctx context.Context) error { _, err := p.SignIn(ctx, session); return err }
		}
	}
	return all
}
