// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

// signIns is a check of what only platforms have that can sign in.
func signIns(name string, run func(t testing.TB, w SendingWorld)) sendingCheck {
	return sendingCheck{name, func(t testing.TB, w SendingWorld) {
		if w.can(integration.CanOAuth) {
			run(t, w)
		}
	}}
}

var sendingSignInChecks = []sendingCheck{
	signIns("a link leads to a declared host", func(t testing.TB, w SendingWorld) {
		first, second := begun(t, w, "anna@link.example"), begun(t, w, "anna@link.example")
		if first.URL == second.URL {
			t.Fatal("two sessions have one link")
		}
		if w.Sessions && (first.ID == "" || first.ID == second.ID || first.ExpiresAt.IsZero()) {
			t.Fatalf("sessions %q until %s and %q", first.ID, first.ExpiresAt, second.ID)
		}
		if !w.Sessions && (first.ID != "" || !first.ExpiresAt.IsZero()) {
			t.Fatalf("a session %q until %s of a platform that has none", first.ID, first.ExpiresAt)
		}
		if a := lookup(t, w, "anna@link.example"); a.There() || len(w.Held(t)) > 0 {
			t.Fatalf("attached before anybody signed in: %+v", a)
		}
	}),
	signIns("a link elsewhere is not given out", func(t testing.TB, w SendingWorld) {
		w.Fail(t, Strays)
		s, err := w.Platform.StartSignIn(call(t), "anna@stray.example")
		if s.URL != "" {
			t.Fatal("a link is given out")
		}
		ended(t, "start", err, outcome.Broken)
		w.discreet(t, "start", err)
	}),
	signIns("who signs in is attached", func(t testing.TB, w SendingWorld) {
		s := begun(t, w, "anna@done.example")
		stands(t, w, s, integration.SignInPending)
		w.SignIn(t, s, "Anna@done.example")
		a := attached(t, w, "anna@done.example")
		if a.State != integration.AccountConnected || a.Stamp == "" {
			t.Fatalf("got %+v", a)
		}
		if p := stands(t, w, s, integration.SignInSucceeded); w.Sessions && !integration.SameAddress(p.Address, a.Address) {
			t.Fatalf("the session tells of %q", p.Address)
		}
		again := begun(t, w, "anna@done.example")
		if now := lookup(t, w, "anna@done.example"); now.Stamp != a.Stamp {
			t.Fatalf("the stamp moves from %q to %q before anybody signed in", a.Stamp, now.Stamp)
		}
		w.SignIn(t, again, "anna@done.example")
		if now := attached(t, w, "anna@done.example"); now.Stamp == a.Stamp || now.ID != a.ID {
			t.Fatalf("signed in anew: %+v, before %+v", now, a)
		}
	}),
	signIns("whoever signs in is told, not who was expected", func(t testing.TB, w SendingWorld) {
		s := begun(t, w, "anna@wrong.example")
		w.SignIn(t, s, "bob@wrong.example")
		attached(t, w, "bob@wrong.example")
		if a := lookup(t, w, "anna@wrong.example"); a.There() {
			t.Fatalf("got %+v", a)
		}
		if p := stands(t, w, s, integration.SignInSucceeded); w.Sessions && !integration.SameAddress(p.Address, "bob@wrong.example") {
			t.Fatalf("the session tells of %q", p.Address)
		}
	}),
	signIns("a declined session has failed, with a reason", func(t testing.TB, w SendingWorld) {
		if w.Decline == nil {
			return
		}
		s := begun(t, w, "anna@declined.example")
		w.Decline(t, s)
		if p := stands(t, w, s, integration.SignInFailed); p.Reason == "" || p.Address != "" {
			t.Fatalf("got %+v", p)
		}
		if a := lookup(t, w, "anna@declined.example"); a.There() {
			t.Fatalf("got %+v", a)
		}
	}),
	signIns("an expired session, and one that nobody knows, are expired", func(t testing.TB, w SendingWorld) {
		if !w.Sessions {
			return
		}
		s := begun(t, w, "anna@expired.example")
		w.Expire(t, s)
		stands(t, w, s, integration.SignInExpired)
		stands(t, w, integration.SignIn{ID: "00000000-0000-4000-8000-000000000000"}, integration.SignInExpired)
	}),
	{"what the platform or the credential cannot do is said so", func(t testing.TB, w SendingWorld) {
		less := w.Lesser
		if !w.can(integration.CanOAuth) {
			less = w.Platform
		}
		if less != nil {
			_, err := less.StartSignIn(call(t), "anna@less.example")
			refused(t, "start", err, fault.CapabilityMissing)
			_, err = less.Check(call(t))
			must(t, "check with the same credential", err)
		}
		if !w.can(integration.CanOAuth) || !w.Sessions {
			_, err := w.Platform.SignIn(call(t), "some-session")
			refused(t, "sign in", err, fault.CapabilityMissing)
		}
		if !w.can(integration.CanDisconnect) {
			w.Put(t, connectedAs("anna@less.example"))
			refused(t, "remove", w.Platform.Remove(call(t), lookup(t, w, "anna@less.example").ID), fault.CapabilityMissing)
			if len(w.Held(t)) != 1 {
				t.Fatal("the account is gone")
			}
		}
	}},
}

func begun(t testing.TB, w SendingWorld, address string) integration.SignIn {
	t.Helper()
	s, err := w.Platform.StartSignIn(call(t), address)
	must(t, "start", err)
	if !integration.AuthURL(s.URL, w.AuthHosts) {
		t.Fatalf("the link does not lead to one of %v", w.AuthHosts)
	}
	return s
}

// stands checks how a session stands, where the platform has sessions.
func stands(t testing.TB, w SendingWorld, s integration.SignIn, want integration.SignInState) integration.Progress {
	t.Helper()
	if !w.Sessions {
		return integration.Progress{}
	}
	p, err := w.Platform.SignIn(call(t), s.ID)
	must(t, "sign in", err)
	if p.State != want {
		t.Fatalf("the session is %q, want %q", p.State, want)
	}
	return p
}

// attached waits for an account that was signed in. A platform may list it late
// and does not say how late.
func attached(t testing.TB, w SendingWorld, address string) integration.Account {
	t.Helper()
	for end := time.Now().Add(onlyAHang); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if a := lookup(t, w, address); a.There() {
			return a
		}
	}
	t.Fatalf("%s is not attached", address)
	return integration.Account{}
}
