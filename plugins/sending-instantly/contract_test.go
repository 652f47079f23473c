// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestContract runs the port's promises over the simulator.
func TestContract(t *testing.T) {
	contract.SendingPlatform(t, func(t testing.TB) contract.SendingWorld { return newWorld(t).contract(t) })
}

// looks are the accounts of section "States" of the README, with what the
// control interface is told to make them.
var looks = []struct {
	sdk.Account
	at m
}{
	{sdk.Account{State: sdk.AccountConnected}, m{"status": 1}},
	{sdk.Account{State: sdk.AccountConnected, Paused: true}, m{"status": 2}},
	{sdk.Account{State: sdk.AccountPending}, m{"status": 1, "setup_pending": true}},
	{sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, m{"status": -1}},
	{sdk.Account{State: sdk.AccountOther, HasError: true, Reason: "reconnecting"}, m{"status": -1, "reconnecting": true}},
	{sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "soft_bounce_error"}, m{"status": -2}},
	{sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "sending_error"}, m{"status": -3}},
}

// contract is the world as the suite of the port sees it.
func (w *world) contract(t testing.TB) contract.SendingWorld {
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	absent, err := w.make(sdk.Connection{Settings: map[string]string{"base_url": nobody.URL}, Secrets: map[string]secret.Text{"api_key": secret.New("a-key")}})
	if err != nil {
		t.Fatal(err)
	}
	out := contract.SendingWorld{
		Platform: w.platform(), Refused: w.with("a-guessed-key"), Absent: absent,
		Secrets: []string{w.ready.Secrets["api_key"], "a-guessed-key"}, Can: description().Capabilities,
		Put: func(_ testing.TB, accounts ...integration.Account) { w.putAll(accounts) }, Held: func(testing.TB) []string { return w.held() },
		Sessions: true, AuthHosts: []string{w.ready.Settings["auth_hosts"]},
		SignIn:  func(_ testing.TB, at sdk.SignInSession, address string) { w.decide(at.URL, address, "accept") },
		Decline: func(_ testing.TB, at sdk.SignInSession) { w.decide(at.URL, "", "deny") },
		Expire: func(_ testing.TB, at sdk.SignInSession) {
			w.control(http.MethodPost, "/sessions/"+at.ID+"/expire", m{}, nil)
		},
		Unpaid: func(t testing.TB) {
			reach, err := w.platform().Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.control(http.MethodPut, "/workspaces/"+reach.Workspaces[0].ID, m{"inactive": true}, nil)
		},
		Fail: func(_ testing.TB, how contract.Failure) func() { return w.fail(how) },
	}
	for _, l := range looks {
		out.Looks = append(out.Looks, l.Account)
	}
	return out
}

func (w *world) putAll(accounts []integration.Account) {
	var list []m
	for _, a := range accounts {
		made := m{"email": a.Address, "name": a.Name}
		for _, l := range looks {
			if l.State == a.State && l.Paused == a.Paused && l.HasError == a.HasError && l.Reason == a.Reason {
				for name, value := range l.at {
					made[name] = value
				}
			}
		}
		list = append(list, made)
	}
	if len(list) > 0 {
		w.control(http.MethodPost, "/accounts", list, nil)
	}
}

func (w *world) held() []string {
	var all []struct{ Email string }
	w.control(http.MethodGet, "/accounts", m{}, &all)
	var out []string
	for _, a := range all {
		out = append(out, a.Email)
	}
	return out
}

// fail makes every call fail until lift.
func (w *world) fail(how contract.Failure) (lift func()) {
	const often = 10000
	switch how {
	case contract.Repeats:
		w.control(http.MethodPost, "/behaviour", m{"repeat_page": true}, nil)
		return func() { w.control(http.MethodPost, "/behaviour", m{"repeat_page": false}, nil) }
	case contract.Strays:
		w.control(http.MethodPost, "/behaviour", m{"auth_host": "login.evil.example"}, nil)
		return func() { w.control(http.MethodPost, "/behaviour", m{"auth_host": ""}, nil) }
	case contract.Hangs:
		w.hang.Store(true)
		return func() { w.hang.Store(false) }
	}
	w.spoiled.Store(how == contract.Babbles || how == contract.Misshapes || how == contract.Truncates)
	w.fault(map[contract.Failure]m{
		contract.Throttles:    {"kind": "status", "status": 429, "retry_after": int(contract.ThrottleWait.Seconds()), "times": often},
		contract.IsDown:       {"kind": "status", "status": 503, "times": often},
		contract.Breaks:       {"kind": "status", "status": 500, "times": often},
		contract.Babbles:      {"kind": "html", "times": often},
		contract.Misshapes:    {"kind": "misshape", "times": often},
		contract.Truncates:    {"kind": "truncate", "times": often},
		contract.LosesRequest: {"kind": "drop_before", "times": often},
		contract.LosesAnswer:  {"kind": "drop_after", "times": often},
	}[how])
	return func() {
		w.spoiled.Store(false)
		w.control(http.MethodDelete, "/faults", m{}, nil)
	}
}
