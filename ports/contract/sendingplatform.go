// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// SendingWorld is a sending platform with one good credential and what happens
// there past the adapter. Everything must be set but what is said to be nil.
type SendingWorld struct {
	// Platform is what the suite examines: with a credential that the platform
	// takes, in a workspace without accounts. Refused has one that it does not
	// take, and nobody listens where Absent calls.
	Platform, Refused, Absent ports.SendingPlatform
	// Secrets are those of the credential; no error may quote them.
	Secrets []string
	// Can are the capabilities of Platform. Lesser is the platform with a
	// credential that cannot sign in though another can, nil where there is
	// none such.
	Can    []string
	Lesser ports.SendingPlatform
	// Reaching is the platform with a credential that reaches so many
	// workspaces and names none; nil where it always reaches one.
	Reaching func(t testing.TB, workspaces int) ports.SendingPlatform
	// Looks are all the ways in which an account there may look: State, Paused,
	// HasError and Reason. One of them is connected without an error.
	Looks []integration.Account
	// Put makes accounts with an address, a name and one of Looks be there.
	Put func(t testing.TB, accounts ...integration.Account)
	// Held are the addresses of the accounts there.
	Held func(t testing.TB) []string
	// Sessions says that the platform has sessions of its own. AuthHosts are
	// the hosts that the operator's settings allow for its links.
	Sessions  bool
	AuthHosts []string
	// SignIn is a person at a link, who signs in with an address. Decline and
	// Expire end a session otherwise; nil where the platform cannot tell. All
	// of them are nil where Platform cannot sign in.
	SignIn          func(t testing.TB, at integration.SignIn, address string)
	Decline, Expire func(t testing.TB, at integration.SignIn)
	// Unpaid ends the plan that the credential is under, nil where the
	// platform does not tell.
	Unpaid func(t testing.TB)
	// LeastWait is how long the platform wants to be left alone whenever it
	// throttles, whatever Retry-After says; zero where that is all.
	LeastWait time.Duration
	// Fail makes every call to the platform fail until lift.
	Fail func(t testing.TB, how Failure) (lift func())
}

// More failures of a sending platform. Throttles asks for ThrottleWait.
const (
	// Babbles answers with a page of a proxy, by 200 OK.
	Babbles Failure = iota + 11
	// Truncates cuts its answers in half.
	Truncates
	// Misshapes answers with JSON of another shape.
	Misshapes
	// Hangs takes requests and never answers.
	Hangs
	// Repeats answers every request for a page with the first one.
	Repeats
	// Redirects sends every call to another host.
	Redirects
	// Floods answers without an end.
	Floods
	// Strays gives out links to hosts that nobody declared.
	Strays
)

// ThrottleWait is what a platform that Throttles asks for by Retry-After.
const ThrottleWait = 7 * time.Second

type sendingCheck struct {
	name string
	run  func(t testing.TB, w SendingWorld)
}

// SendingPlatform runs the contract of ports.SendingPlatform. open returns a new
// world each time.
func SendingPlatform(t *testing.T, open func(testing.TB) SendingWorld) {
	for _, c := range sendingChecks() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // some of it is waiting
			w := open(t)
			w.complete(t)
			c.run(t, w)
		})
	}
}

func sendingChecks() []sendingCheck {
	var all []sendingCheck
	all = append(all, sendingCredentialChecks...)
	all = append(all, sendingAccountChecks...)
	all = append(all, sendingListChecks...)
	all = append(all, sendingSignInChecks...)
	all = append(all, sendingRemovalChecks...)
	return append(all, sendingTroubleChecks...)
}

// complete keeps a world that leaves something out from passing for one that
// was examined.
func (w SendingWorld) complete(t testing.TB) {
	t.Helper()
	for what, missing := range map[string]bool{
		"Platform": w.Platform == nil, "Refused": w.Refused == nil, "Absent": w.Absent == nil, "Secrets": len(w.Secrets) == 0,
		"Looks": !slices.Contains(w.Looks, integration.Account{State: integration.AccountConnected}),
		"Put":   w.Put == nil, "Held": w.Held == nil, "Fail": w.Fail == nil,
		"AuthHosts": w.can(integration.CanOAuth) && len(w.AuthHosts) == 0,
		"SignIn":    w.can(integration.CanOAuth) != (w.SignIn != nil),
		"Decline":   w.Sessions && w.Decline == nil, "Expire": w.Sessions && w.Expire == nil,
	} {
		if missing {
			t.Fatalf("the world's %s is not what it should be", what)
		}
	}
}

func (w SendingWorld) can(capability string) bool { return slices.Contains(w.Can, capability) }

// connectedAs is a working account with this address.
func connectedAs(address string) integration.Account {
	return integration.Account{Address: address, Name: "Anna Schmidt", State: integration.AccountConnected}
}

// several are working accounts with addresses of their own.
func several(n int) []integration.Account {
	all := make([]integration.Account, n)
	for i := range all {
		all[i] = connectedAs(fmt.Sprintf("user%04d@many.example", i))
	}
	return all
}

// discreet checks that an error quotes no secret, however it is printed.
func (w SendingWorld) discreet(t testing.TB, what string, err error) {
	t.Helper()
	for _, s := range w.Secrets {
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); err != nil && strings.Contains(text, s) {
			t.Fatalf("%s: the error quotes a secret", what)
		}
	}
}

func lookup(t testing.TB, w SendingWorld, address string) integration.Account {
	t.Helper()
	a, err := w.Platform.Account(call(t), address)
	must(t, "look up "+address, err)
	return a
}

// sameLook compares what an account is like, without its id and stamp.
func sameLook(a, b integration.Account) bool {
	return integration.SameAddress(a.Address, b.Address) && a.State == b.State && a.Paused == b.Paused && a.HasError == b.HasError && a.Reason == b.Reason
}
