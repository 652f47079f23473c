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

// TestContract runs the contract of a sending platform over the plugin's code and the simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestBinary runs every suite of a sending platform over the built plugin.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-instantly")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: map[string]string{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, newFixture)
}

// accountForms are the states of the README's section "States", each with the fields that the
// control interface needs to create such an account.
var accountForms = []struct {
	sdk.Account
	fields m
}{
	{sdk.Account{State: sdk.AccountConnected}, m{"status": 1}},
	{sdk.Account{State: sdk.AccountConnected, Paused: true}, m{"status": 2}},
	{sdk.Account{State: sdk.AccountPending}, m{"status": 1, "setup_pending": true}},
	{sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, m{"status": -1}},
	{sdk.Account{State: sdk.AccountOther, HasError: true, Reason: "reconnecting"}, m{"status": -1, "reconnecting": true}},
	{sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "soft_bounce_error"}, m{"status": -2}},
	{sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "sending_error"}, m{"status": -3}},
}

// newFixture returns the environment of the contract, with the simulator as Instantly.
func newFixture(t testing.TB, newPlatform func(sdk.Connection) sdk.SendingPlatform) contract.SendingPlatformEnv {
	env := newTestEnv(t)
	out := contract.SendingPlatformEnv{
		Platform: newPlatform(env.Connection(nil, nil)),
		Refused:  newPlatform(env.Connection(nil, map[string]string{"api_key": "a-guessed-key"})),
		Absent:   newPlatform(env.Connection(map[string]string{"base_url": conformance.UnreachableURL(t)}, nil)),
		Secrets:  []string{simulator.Key, "a-guessed-key"}, Can: description().Capabilities,
		Put: func(_ testing.TB, accounts ...integration.Account) { env.putAll(accounts) }, Held: env.held,
		Sessions: true, AuthHosts: []string{env.Ready.Settings["auth_hosts"]},
		SignIn:  func(_ testing.TB, at sdk.SignInSession, address string) { env.decide(at.URL, address, "accept") },
		Decline: func(_ testing.TB, at sdk.SignInSession) { env.decide(at.URL, "", "deny") },
		Expire: func(_ testing.TB, at sdk.SignInSession) {
			env.control(http.MethodPost, "/sessions/"+at.ID+"/expire", m{})
		},
		Unpaid: func(testing.TB) { env.control(http.MethodPut, "/workspaces/"+simulator.Workspace, m{"inactive": true}) },
		Fail:   env.Fail,
	}
	for _, form := range accountForms {
		out.Looks = append(out.Looks, form.Account)
	}
	return out
}

// putAll creates the accounts at Instantly.
func (env *testEnv) putAll(accounts []integration.Account) {
	list := []m{}
	for _, a := range accounts {
		fields := m{"email": a.Address, "name": a.Name}
		for _, form := range accountForms {
			if form.State == a.State && form.Paused == a.Paused && form.HasError == a.HasError && form.Reason == a.Reason {
				maps.Copy(fields, form.fields)
			}
		}
		list = append(list, fields)
	}
	env.control(http.MethodPost, "/accounts", list)
}

// held returns the addresses of all accounts at Instantly.
func (env *testEnv) held(t testing.TB) []string {
	var all []struct{ Email string }
	env.Control(t, http.MethodGet, "/accounts", nil, &all)
	var out []string
	for _, a := range all {
		out = append(out, a.Email)
	}
	return out
}
