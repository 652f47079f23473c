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

// removals is a check of what only platforms have that remove accounts.
func removals(name string, run func(t testing.TB, w SendingWorld)) sendingCheck {
	return sendingCheck{name, func(t testing.TB, w SendingWorld) {
		if w.can(integration.CanDisconnect) {
			run(t, w)
		}
	}}
}

var sendingRemovalChecks = []sendingCheck{
	removals("an account is removed, also a second time, and no other", func(t testing.TB, w SendingWorld) {
		w.Put(t, connectedAs("anna@gone.example"), connectedAs("bob@gone.example"))
		id := lookup(t, w, "anna@gone.example").ID
		for range 2 {
			must(t, "remove", w.Platform.Remove(call(t), id))
			if a := lookup(t, w, "anna@gone.example"); a.There() {
				t.Fatalf("still there: %+v", a)
			}
		}
		if left := w.Held(t); len(left) != 1 || !integration.SameAddress(left[0], "bob@gone.example") {
			t.Fatalf("left are %v", left)
		}
	}),
	removals("a lost removal is unknown, and the same again removes", func(t testing.TB, w SendingWorld) {
		w.Put(t, connectedAs("anna@lost.example"), connectedAs("bob@lost.example"))
		for address, how := range map[string]Failure{"anna@lost.example": LosesAnswer, "bob@lost.example": LosesRequest} {
			id := lookup(t, w, address).ID
			lift := w.Fail(t, how)
			err := w.Platform.Remove(call(t), id)
			lift()
			ended(t, "remove", err, outcome.Unknown)
			there := slices.ContainsFunc(w.Held(t), func(held string) bool { return integration.SameAddress(held, address) })
			if there != (how == LosesRequest) {
				t.Fatalf("%s is there: %v", address, there)
			}
			must(t, "remove again", w.Platform.Remove(call(t), id))
		}
		if left := w.Held(t); len(left) > 0 {
			t.Fatalf("left are %v", left)
		}
	}),
	removals("a page of a proxy is no removal", func(t testing.TB, w SendingWorld) {
		w.Put(t, connectedAs("anna@page.example"))
		id := lookup(t, w, "anna@page.example").ID
		w.Fail(t, Babbles)
		ended(t, "remove", w.Platform.Remove(call(t), id), outcome.Broken)
	}),
}

// ownTimeout is less than the timeouts that adapters set for themselves. A call
// that takes longer does not mind the deadline of its caller.
const ownTimeout = 10 * time.Second

var sendingTroubleChecks = []sendingCheck{
	{"a platform that throttles is throttled, for as long as it says", func(t testing.TB, w SendingWorld) {
		w.Fail(t, Throttles)
		_, err := w.Platform.Check(call(t))
		ended(t, "check", err, outcome.Throttled)
		var o *outcome.Error
		want := max(ThrottleWait, w.LeastWait)
		if errors.As(err, &o); o.RetryAfter != want {
			t.Fatalf("come back after %s, want %s", o.RetryAfter, want)
		}
		w.discreet(t, "check", err)
	}},
	{"a platform out of service is down", everyCall(IsDown, outcome.Down)},
	{"a platform that fails is broken", everyCall(Breaks, outcome.Broken)},
	{"a page of a proxy is broken", everyCall(Babbles, outcome.Broken)},
	{"half an answer is broken", everyCall(Truncates, outcome.Broken)},
	{"an answer of another shape is broken", everyCall(Misshapes, outcome.Broken)},
	{"a redirect is broken, and not followed", everyCall(Redirects, outcome.Broken)},
	{"an answer without an end is broken", everyCall(Floods, outcome.Broken)},
	{"a lost answer is unknown", everyCall(LosesAnswer, outcome.Unknown)},
	{"a lost request is unknown", everyCall(LosesRequest, outcome.Unknown)},
	{"where nobody listens it is down", func(t testing.TB, w SendingWorld) {
		for what, of := range w.calls(w.Absent, "some-session") {
			err := of(call(t))
			ended(t, what, err, outcome.Down)
			w.discreet(t, what, err)
		}
	}},
	signIns("a lost start may be repeated", func(t testing.TB, w SendingWorld) {
		for _, how := range []Failure{LosesRequest, LosesAnswer} {
			lift := w.Fail(t, how)
			_, err := w.Platform.StartSignIn(call(t), "anna@again.example")
			lift()
			ended(t, "start", err, outcome.Unknown)
			begun(t, w, "anna@again.example")
		}
		if held := w.Held(t); len(held) > 0 {
			t.Fatalf("attached: %v", held)
		}
	}),
	{"no answer in time is unknown, and in time", func(t testing.TB, w SendingWorld) {
		defer w.Fail(t, Hangs)()
		for what, of := range w.calls(w.Platform, "some-session") {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			began := time.Now()
			err := of(ctx)
			cancel()
			if ended(t, what, err, outcome.Unknown); time.Since(began) > ownTimeout {
				t.Fatalf("%s returned after %s, want the end of the caller's deadline", what, time.Since(began))
			}
			w.discreet(t, what, err)
		}
	}},
	{"a call whose context has ended does nothing", func(t testing.TB, w SendingWorld) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for what, of := range w.calls(w.Platform, "some-session") {
			if err := of(ctx); err == nil || outcome.Of(err) == outcome.Refused {
				t.Fatalf("%s: got %v, want the end of the context", what, err)
			}
		}
	}},
}

// everyCall checks that every call ends so while the platform fails.
func everyCall(how Failure, want outcome.Kind) func(t testing.TB, w SendingWorld) {
	return func(t testing.TB, w SendingWorld) {
		w.Put(t, connectedAs("anna@a.example"))
		session := "some-session"
		if w.can(integration.CanOAuth) && w.Sessions {
			session = begun(t, w, "anna@a.example").ID
		}
		w.Fail(t, how)
		for what, of := range w.calls(w.Platform, session) {
			err := of(call(t))
			ended(t, what, err, want)
			w.discreet(t, what, err)
			if want == outcome.Broken && (errors.Is(err, fault.AccessDenied) || strings.Contains(err.Error(), "<html")) {
				t.Fatalf("%s: got %v", what, err)
			}
		}
	}
}

// calls are those that the platform can answer, removing aside, of which only
// the end counts.
func (w SendingWorld) calls(p ports.SendingPlatform, session string) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"check":    func(ctx context.Context) error { _, err := p.Check(ctx); return err },
		"account":  func(ctx context.Context) error { _, err := p.Account(ctx, "anna@a.example"); return err },
		"accounts": func(ctx context.Context) error { _, err := p.Accounts(ctx, ""); return err },
	}
	if w.can(integration.CanOAuth) {
		all["start"] = func(ctx context.Context) error { _, err := p.StartSignIn(ctx, "anna@a.example"); return err }
		if w.Sessions {
			all["sign in"] = func(ctx context.Context) error { _, err := p.SignIn(ctx, session); return err }
		}
	}
	return all
}
