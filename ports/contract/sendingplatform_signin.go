// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

// signInCheck returns a check that is skipped on platforms that cannot sign in.
func signInCheck(id, proves string, run func(t T, env SendingPlatformEnv)) sendingCheck {
	return sendingCheck{id, proves, func(t T, env SendingPlatformEnv) {
		if !env.hasCapability(integration.CanOAuth) {
			t.Skipf("the plugin has no capability %s", integration.CanOAuth)
		}
		run(t, env)
	}}
}

var sendingSignInChecks = []sendingCheck{
	signInCheck("sending/sign-in/link", "a sign-in link leads to an allowed host", func(t T, env SendingPlatformEnv) {
		first, second := startSignIn(t, env, "anna@link.example"), startSignIn(t, env, "anna@link.example")
		if first.URL == second.URL {
			t.Fatal("two sessions have one link")
		}
		if env.Sessions && (first.ID == "" || first.ID == second.ID || first.ExpiresAt.IsZero()) {
			t.Fatalf("sessions %q until %s and %q", first.ID, first.ExpiresAt, second.ID)
		}
		if !env.Sessions && (first.ID != "" || !first.ExpiresAt.IsZero()) {
			t.Fatalf("a session %q until %s of a platform that has none", first.ID, first.ExpiresAt)
		}
		if a := findAccount(t, env, "anna@link.example"); a.Exists() || len(env.Held(t)) > 0 {
			t.Fatalf("attached before anybody signed in: %+v", a)
		}
	}),
	signInCheck("sending/sign-in/foreign-host", "a link to a host that is not allowed is not returned", func(t T, env SendingPlatformEnv) {
		env.Fail(t, ReturnsForeignLinks)
		s, err := env.Platform.StartSignIn(callContext(t), "anna@stray.example")
		if s.URL != "" {
			t.Fatal("a link is returned")
		}
		requireOutcome(t, "start", err, outcome.Broken)
		env.requireNoSecrets(t, "start", err)
	}),
	signInCheck("sending/sign-in/account", "a person who signs in gets an account", func(t T, env SendingPlatformEnv) {
		s := startSignIn(t, env, "anna@done.example")
		requireSignInState(t, env, s, integration.SignInPending)
		env.SignIn(t, s, "Anna@done.example")
		a := waitForAccount(t, env, "anna@done.example")
		if a.State != integration.AccountConnected || a.Stamp == "" {
			t.Fatalf("got %+v", a)
		}
		if p := requireSignInState(t, env, s, integration.SignInSucceeded); env.Sessions && !integration.SameAddress(p.Address, a.Address) {
			t.Fatalf("the session tells of %q", p.Address)
		}
		second := startSignIn(t, env, "anna@done.example")
		if current := findAccount(t, env, "anna@done.example"); current.Stamp != a.Stamp {
			t.Fatalf("the stamp moves from %q to %q before anybody signed in", a.Stamp, current.Stamp)
		}
		env.SignIn(t, second, "anna@done.example")
		if current := waitForAccount(t, env, "anna@done.example"); current.Stamp == a.Stamp || current.ID != a.ID {
			t.Fatalf("after a second sign-in: %+v, before: %+v", current, a)
		}
	}),
	signInCheck("sending/sign-in/other-person", "a sign-in reports the person who signed in, not the expected one", func(t T, env SendingPlatformEnv) {
		s := startSignIn(t, env, "anna@wrong.example")
		env.SignIn(t, s, "bob@wrong.example")
		waitForAccount(t, env, "bob@wrong.example")
		if a := findAccount(t, env, "anna@wrong.example"); a.Exists() {
			t.Fatalf("got %+v", a)
		}
		if p := requireSignInState(t, env, s, integration.SignInSucceeded); env.Sessions && !integration.SameAddress(p.Address, "bob@wrong.example") {
			t.Fatalf("the session tells of %q", p.Address)
		}
	}),
	signInCheck("sending/sign-in/declined", "a declined session is reported as failed, with a reason", func(t T, env SendingPlatformEnv) {
		if env.Decline == nil {
			t.Skipf("the platform does not report a declined sign-in")
		}
		s := startSignIn(t, env, "anna@declined.example")
		env.Decline(t, s)
		if p := requireSignInState(t, env, s, integration.SignInFailed); p.Reason == "" || p.Address != "" {
			t.Fatalf("got %+v", p)
		}
		if a := findAccount(t, env, "anna@declined.example"); a.Exists() {
			t.Fatalf("got %+v", a)
		}
	}),
	signInCheck("sending/sign-in/expired", "an expired session and an unknown session are reported as expired", func(t T, env SendingPlatformEnv) {
		if !env.Sessions {
			t.Skipf("the platform has no sign-in sessions")
		}
		s := startSignIn(t, env, "anna@expired.example")
		env.Expire(t, s)
		requireSignInState(t, env, s, integration.SignInExpired)
		requireSignInState(t, env, integration.SignIn{ID: "00000000-0000-4000-8000-000000000000"}, integration.SignInExpired)
	}),
	{"sending/capabilities/missing", "a missing capability is reported as such", func(t T, env SendingPlatformEnv) {
		limited := env.Lesser
		if !env.hasCapability(integration.CanOAuth) {
			limited = env.Platform
		}
		if limited != nil {
			_, err := limited.StartSignIn(callContext(t), "anna@less.example")
			requireRefusal(t, "start", err, fault.CapabilityMissing)
			_, err = limited.Check(callContext(t))
			must(t, "check with the same credential", err)
		}
		if !env.hasCapability(integration.CanOAuth) || !env.Sessions {
			_, err := env.Platform.SignIn(callContext(t), "some-session")
			requireRefusal(t, "sign in", err, fault.CapabilityMissing)
		}
		if !env.hasCapability(integration.CanDisconnect) {
			env.Put(t, workingAccount("anna@less.example"))
			requireRefusal(t, "remove", env.Platform.Remove(callContext(t), findAccount(t, env, "anna@less.example").ID), fault.CapabilityMissing)
			if len(env.Held(t)) != 1 {
				t.Fatal("the account is gone")
			}
		}
	}},
}

func startSignIn(t T, env SendingPlatformEnv, address string) integration.SignIn {
	t.Helper()
	s, err := env.Platform.StartSignIn(callContext(t), address)
	must(t, "start", err)
	if !integration.IsAllowedAuthURL(s.URL, env.AuthHosts) {
		t.Fatalf("the link does not lead to one of %v", env.AuthHosts)
	}
	return s
}

// requireSignInState checks the state of a session. It does nothing on platforms without sessions.
func requireSignInState(t T, env SendingPlatformEnv, s integration.SignIn, want integration.SignInState) integration.Progress {
	t.Helper()
	if !env.Sessions {
		return integration.Progress{}
	}
	p, err := env.Platform.SignIn(callContext(t), s.ID)
	must(t, "sign in", err)
	if p.State != want {
		t.Fatalf("the session is %q, want %q", p.State, want)
	}
	return p
}

// waitForAccount waits for an account that was signed in. A platform may list it late, and
// documents no maximum delay.
func waitForAccount(t T, env SendingPlatformEnv, address string) integration.Account {
	t.Helper()
	for end := time.Now().Add(hangTimeout); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if a := findAccount(t, env, address); a.Exists() {
			return a
		}
	}
	t.Fatalf("%s is not attached", address)
	return integration.Account{}
}

// removalCheck returns a check that is skipped on platforms that cannot remove accounts.
func removalCheck(id, proves string, run func(t T, env SendingPlatformEnv)) sendingCheck {
	return sendingCheck{id, proves, func(t T, env SendingPlatformEnv) {
		if !env.hasCapability(integration.CanDisconnect) {
			t.Skipf("the plugin has no capability %s", integration.CanDisconnect)
		}
		run(t, env)
	}}
}

var sendingRemovalChecks = []sendingCheck{
	removalCheck("sending/remove/twice", "removing an account twice removes only this account", func(t T, env SendingPlatformEnv) {
		env.Put(t, workingAccount("anna@gone.example"), workingAccount("bob@gone.example"))
		id := findAccount(t, env, "anna@gone.example").ID
		for range 2 {
			must(t, "remove", env.Platform.Remove(callContext(t), id))
			if a := findAccount(t, env, "anna@gone.example"); a.Exists() {
				t.Fatalf("still there: %+v", a)
			}
		}
		if held := env.Held(t); len(held) != 1 || !integration.SameAddress(held[0], "bob@gone.example") {
			t.Fatalf("left are %v", held)
		}
	}),
	removalCheck("sending/remove/lost-answer", "the outcome of a removal whose answer is lost is unknown, and the removal can be repeated", func(t T, env SendingPlatformEnv) {
		env.Put(t, workingAccount("anna@lost.example"), workingAccount("bob@lost.example"))
		for address, failure := range map[string]Failure{"anna@lost.example": LosesAnswer, "bob@lost.example": LosesRequest} {
			id := findAccount(t, env, address).ID
			lift := env.Fail(t, failure)
			err := env.Platform.Remove(callContext(t), id)
			lift()
			requireOutcome(t, "remove", err, outcome.Unknown)
			isHeld := slices.ContainsFunc(env.Held(t), func(held string) bool { return integration.SameAddress(held, address) })
			if isHeld != (failure == LosesRequest) {
				t.Fatalf("%s is there: %v", address, isHeld)
			}
			must(t, "remove again", env.Platform.Remove(callContext(t), id))
		}
		if held := env.Held(t); len(held) > 0 {
			t.Fatalf("left are %v", held)
		}
	}),
	removalCheck("sending/remove/html-page", "a proxy's HTML page does not count as a removal", func(t T, env SendingPlatformEnv) {
		env.Put(t, workingAccount("anna@page.example"))
		id := findAccount(t, env, "anna@page.example").ID
		env.Fail(t, AnswersHTML)
		requireOutcome(t, "remove", env.Platform.Remove(callContext(t), id), outcome.Broken)
	}),
}
