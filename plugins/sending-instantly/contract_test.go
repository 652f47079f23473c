// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestContract runs the port's promises over the simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), open) }

// TestBinary runs every suite over the plugin as it is built.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-instantly")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: map[string]string{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, open)
}

// looks are the accounts of the README's section "States", with what the
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

// open is a world as the suite of the port sees it.
func open(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld {
	w := newWorld(t)
	out := contract.SendingWorld{
		Platform: platform(w.Connection(nil, nil)),
		Refused:  platform(w.Connection(nil, map[string]string{"api_key": "a-guessed-key"})),
		Absent:   platform(w.Connection(map[string]string{"base_url": conformance.Nowhere(t)}, nil)),
		Secrets:  []string{simulator.Key, "a-guessed-key"}, Can: description().Capabilities,
		Put: func(_ testing.TB, accounts ...integration.Account) { w.putAll(accounts) }, Held: w.held,
		Sessions: true, AuthHosts: []string{w.Ready.Settings["auth_hosts"]},
		SignIn:  func(_ testing.TB, at sdk.SignInSession, address string) { w.decide(at.URL, address, "accept") },
		Decline: func(_ testing.TB, at sdk.SignInSession) { w.decide(at.URL, "", "deny") },
		Expire: func(_ testing.TB, at sdk.SignInSession) {
			w.control(http.MethodPost, "/sessions/"+at.ID+"/expire", m{})
		},
		Unpaid: func(testing.TB) { w.control(http.MethodPut, "/workspaces/"+simulator.Workspace, m{"inactive": true}) },
		Fail:   w.Fail,
	}
	for _, l := range looks {
		out.Looks = append(out.Looks, l.Account)
	}
	return out
}

func (w *world) putAll(accounts []integration.Account) {
	list := []m{}
	for _, a := range accounts {
		made := m{"email": a.Address, "name": a.Name}
		for _, l := range looks {
			if l.State == a.State && l.Paused == a.Paused && l.HasError == a.HasError && l.Reason == a.Reason {
				maps.Copy(made, l.at)
			}
		}
		list = append(list, made)
	}
	w.control(http.MethodPost, "/accounts", list)
}

func (w *world) held(t testing.TB) []string {
	var all []struct{ Email string }
	w.Control(t, http.MethodGet, "/accounts", nil, &all)
	var out []string
	for _, a := range all {
		out = append(out, a.Email)
	}
	return out
}
