// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

// signInCheck returns a check that is skipped if the plugin has no capability CanOAuth.
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
		firstSignIn, secondSignIn := startSignIn(t, env, "anna@link.example"), startSignIn(t, env, "anna@link.example")
		if firstSignIn.URL == secondSignIn.URL {
			t.Fatal("two sign-ins got the same link")
		}
		if env.Sessions && (firstSignIn.ID == "" || firstSignIn.ID == secondSignIn.ID || firstSignIn.ExpiresAt.IsZero()) {
			t.Fatalf("the session ids are %q and %q, and the first session expires at %s: each sign-in must have its own session id and an expiry", firstSignIn.ID, secondSignIn.ID, firstSignIn.ExpiresAt)
		}
		if !env.Sessions && (firstSignIn.ID != "" || !firstSignIn.ExpiresAt.IsZero()) {
			t.Fatalf("the platform has no sessions, but the sign-in has the session id %q and the expiry %s", firstSignIn.ID, firstSignIn.ExpiresAt)
		}
		if a, held := findAccount(t, env, "anna@link.example"), env.Held(t); a.Exists() || len(held) > 0 {
			t.Fatalf("nobody has signed in, but the adapter returns the account %+v and the platform has the accounts %v", a, held)
		}
	}),
	signInCheck("sending/sign-in/foreign-host", "a link to a host that is not allowed is not returned", func(t T, env SendingPlatformEnv) {
		env.Fail(t, ReturnsForeignLinks)
		s, err := env.Platform.StartSignIn(callContext(t), "anna@stray.example")
		if s.URL != "" {
			t.Fatal("the adapter returned a link to a host that is not allowed")
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
			t.Fatalf("got the account %+v, want it connected, with a stamp", a)
		}
		if p := requireSignInState(t, env, s, integration.SignInSucceeded); env.Sessions && !integration.SameAddress(p.Address, a.Address) {
			t.Fatalf("the session reports the address %q, want %q", p.Address, a.Address)
		}
		secondSignIn := startSignIn(t, env, "anna@done.example")
		if current := findAccount(t, env, "anna@done.example"); current.Stamp != a.Stamp {
			t.Fatalf("the stamp changed from %q to %q before the second sign-in", a.Stamp, current.Stamp)
		}
		env.SignIn(t, secondSignIn, "anna@done.example")
		if current := waitForAccount(t, env, "anna@done.example"); current.Stamp == a.Stamp || current.ID != a.ID {
			t.Fatalf("the account was %+v and is %+v after the second sign-in, want a new stamp and the same id", a, current)
		}
	}),
	signInCheck("sending/sign-in/other-person", "a sign-in reports the person who signed in, not the expected one", func(t T, env SendingPlatformEnv) {
		s := startSignIn(t, env, "anna@wrong.example")
		env.SignIn(t, s, "bob@wrong.example")
		waitForAccount(t, env, "bob@wrong.example")
		if a := findAccount(t, env, "anna@wrong.example"); a.Exists() {
			t.Fatalf("only bob@wrong.example signed in, but the platform has the account %+v", a)
		}
		if p := requireSignInState(t, env, s, integration.SignInSucceeded); env.Sessions && !integration.SameAddress(p.Address, "bob@wrong.example") {
			t.Fatalf("the session reports the address %q, want bob@wrong.example", p.Address)
		}
	}),
	signInCheck("sending/sign-in/declined", "a declined session is reported as failed, with a reason", func(t T, env SendingPlatformEnv) {
		if !env.Sessions {
			t.Skipf("the platform does not report a declined sign-in")
		}
		s := startSignIn(t, env, "anna@declined.example")
		env.Decline(t, s)
		if p := requireSignInState(t, env, s, integration.SignInFailed); p.Reason == "" || p.Address != "" {
			t.Fatalf("got %+v, want a reason and no address", p)
		}
		if a := findAccount(t, env, "anna@declined.example"); a.Exists() {
			t.Fatalf("the sign-in was declined, but the platform has the account %+v", a)
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
			if held := env.Held(t); len(held) != 1 {
				t.Fatalf("after the refused removal the platform has the accounts %v, want one", held)
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

// requireSignInState checks the state of a session and returns its progress. On platforms without
// sessions it checks nothing and returns the zero Progress.
func requireSignInState(t T, env SendingPlatformEnv, s integration.SignIn, want integration.SignInState) integration.Progress {
	t.Helper()
	if !env.Sessions {
		return integration.Progress{}
	}
	p, err := env.Platform.SignIn(callContext(t), s.ID)
	must(t, "sign in", err)
	if p.State != want {
		t.Fatalf("the state of the session is %q, want %q", p.State, want)
	}
	return p
}

// accountTimeout is how long a check waits for the account of a person who has signed in. Platforms
// may return a new account late, and they document no maximum delay.
const accountTimeout = hangTimeout

// waitForAccount waits until the platform returns the account with this address, and returns it.
func waitForAccount(t T, env SendingPlatformEnv, address string) integration.Account {
	t.Helper()
	for end := time.Now().Add(accountTimeout); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if a := findAccount(t, env, address); a.Exists() {
			return a
		}
	}
	t.Fatalf("the platform returned no account of %s within %s", address, accountTimeout)
	return integration.Account{}
}

// removalCheck returns a check that is skipped if the plugin has no capability CanDisconnect.
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
				t.Fatalf("the removed account still exists: %+v", a)
			}
		}
		if held := env.Held(t); len(held) != 1 || !integration.SameAddress(held[0], "bob@gone.example") {
			t.Fatalf("the platform has the accounts %v, want only bob@gone.example", held)
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
			if wantHeld := failure == LosesRequest; isHeld != wantHeld {
				t.Fatalf("account of %s exists: %v, want %v", address, isHeld, wantHeld)
			}
			must(t, "remove again", env.Platform.Remove(callContext(t), id))
		}
		if held := env.Held(t); len(held) > 0 {
			t.Fatalf("the platform has the accounts %v, want none", held)
		}
	}),
	removalCheck("sending/remove/html-page", "a proxy's HTML page does not count as a removal", func(t T, env SendingPlatformEnv) {
		env.Put(t, workingAccount("anna@page.example"))
		id := findAccount(t, env, "anna@page.example").ID
		env.Fail(t, AnswersHTML)
		requireOutcome(t, "remove", env.Platform.Remove(callContext(t), id), outcome.Broken)
	}),
}
