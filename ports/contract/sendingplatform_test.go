// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// fakeSending is the fake as the suite sees it.
func fakeSending(p *fake.SendingPlatform) SendingWorld {
	absent := fake.AbsentSending()
	w := SendingWorld{
		Platform: p, Refused: fake.RefusingSending(), Absent: absent, Secrets: []string{"a-key-of-the-fake"},
		Reaching: fakeReaching, Sessions: !p.Sessionless, AuthHosts: []string{"login.microsoftonline.com"},
		Looks: []integration.Account{
			{State: integration.AccountConnected}, {State: integration.AccountConnected, Paused: true},
			{State: integration.AccountConnected, HasError: true, Reason: "sending_error"}, {State: integration.AccountPending},
			{State: integration.AccountFailed, HasError: true, Reason: "connection_error"}, {State: integration.AccountOther},
		},
		Put: func(_ testing.TB, accounts ...integration.Account) { p.Put(accounts...) },
		Held: func(testing.TB) []string {
			var all []string
			for _, a := range p.Held() {
				all = append(all, a.Address)
			}
			return all
		},
		Unpaid: func(testing.TB) { p.Unpaid(true) },
		Fail:   func(_ testing.TB, how Failure) func() { return failSending(p, how) },
	}
	can := func(capability string) bool { return len(p.Cannot) == 0 || p.Cannot[0] != capability }
	for _, capability := range []string{integration.CanOAuth, integration.CanRefresh, integration.CanDisconnect} {
		if can(capability) {
			w.Can = append(w.Can, capability)
		}
	}
	if can(integration.CanOAuth) {
		w.SignIn = func(_ testing.TB, at integration.SignIn, address string) { p.Complete(at.URL, address, "Anna Schmidt") }
		w.Decline = func(_ testing.TB, at integration.SignIn) { p.Deny(at.URL) }
		w.Expire = func(_ testing.TB, at integration.SignIn) { p.Expire(at.URL) }
		w.Lesser = &fake.SendingPlatform{Reach: p.Reach, Cannot: []string{integration.CanOAuth}}
	}
	return w
}

func fakeReaching(_ testing.TB, workspaces int) ports.SendingPlatform {
	p := fake.NewSendingPlatform()
	p.Reach.Workspaces = nil
	for i := range workspaces {
		p.Reach.Workspaces = append(p.Reach.Workspaces, integration.Workspace{ID: string(rune('a' + i)), Name: "One of several"})
	}
	return p
}

func failSending(p *fake.SendingPlatform, how Failure) (lift func()) {
	switch how {
	case Hangs:
		gates := map[*fake.Gate]bool{}
		for _, method := range []string{"Check", "Account", "Accounts", "StartSignIn", "SignIn", "Remove"} {
			gates[p.Hold(method)] = true
		}
		return func() {
			for g := range gates {
				g.Release()
			}
		}
	case Repeats:
		return p.Fail(fake.Fault{Method: "Accounts", Skip: 1, Kind: outcome.Broken})
	}
	kinds := map[Failure]outcome.Kind{
		Throttles: outcome.Throttled, IsDown: outcome.Down, LosesRequest: outcome.Unknown, LosesAnswer: outcome.Unknown,
	}
	kind, known := kinds[how]
	if !known {
		kind = outcome.Broken
	}
	return p.Fail(fake.Fault{Kind: kind, AfterEffect: how == LosesAnswer})
}

// fakeSendingWorlds are platforms that differ in what they can do.
func fakeSendingWorlds() map[string]func() SendingWorld {
	with := func(set func(*fake.SendingPlatform)) func() SendingWorld {
		return func() SendingWorld {
			p := fake.NewSendingPlatform()
			set(p)
			return fakeSending(p)
		}
	}
	return map[string]func() SendingWorld{
		"all":         with(func(*fake.SendingPlatform) {}),
		"no sessions": with(func(p *fake.SendingPlatform) { p.Sessionless = true }),
		"no sign-in":  with(func(p *fake.SendingPlatform) { p.Cannot, p.Sessionless = []string{integration.CanOAuth}, true }),
		"no removal":  with(func(p *fake.SendingPlatform) { p.Cannot = []string{integration.CanDisconnect} }),
	}
}

func TestFakeSendingPlatformKeepsTheContract(t *testing.T) {
	for name, open := range fakeSendingWorlds() {
		t.Run(name, func(t *testing.T) {
			SendingPlatform(t, func(testing.TB) SendingWorld {
				w := open()
				if w.SignIn != nil && !w.Sessions {
					w.Decline, w.Expire = nil, nil
				}
				return w
			})
		})
	}
}

// A world that leaves out what it has to arrange is no examination.
func TestAWorldThatLeavesSomethingOut(t *testing.T) {
	for name, spoil := range map[string]func(*SendingWorld){
		"no secrets":         func(w *SendingWorld) { w.Secrets = nil },
		"nobody signs in":    func(w *SendingWorld) { w.SignIn = nil },
		"no hosts":           func(w *SendingWorld) { w.AuthHosts = nil },
		"nothing declines":   func(w *SendingWorld) { w.Decline = nil },
		"nothing expires":    func(w *SendingWorld) { w.Expire = nil },
		"nothing looks well": func(w *SendingWorld) { w.Looks = w.Looks[1:] },
		"nothing fails":      func(w *SendingWorld) { w.Fail = nil },
		"a sign-in too many": func(w *SendingWorld) { w.Can = w.Can[1:] },
	} {
		w := fakeSendingWorlds()["all"]()
		spoil(&w)
		if !fails(t, w.complete) {
			t.Errorf("%s: nobody notices", name)
		}
	}
}

var errBare = errors.New("the key a-key-of-the-fake is not taken")
