// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
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
var accountForms = []conformance.AccountForm{
	{Account: sdk.Account{State: sdk.AccountConnected}, Members: m{"status": 1}},
	{Account: sdk.Account{State: sdk.AccountConnected, Paused: true}, Members: m{"status": 2}},
	{Account: sdk.Account{State: sdk.AccountPending}, Members: m{"status": 1, "setup_pending": true}},
	{Account: sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, Members: m{"status": -1}},
	{Account: sdk.Account{State: sdk.AccountOther, HasError: true, Reason: "reconnecting"}, Members: m{"status": -1, "reconnecting": true}},
	{Account: sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "soft_bounce_error"}, Members: m{"status": -2}},
	{Account: sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "sending_error"}, Members: m{"status": -3}},
}

// newFixture returns the environment of the contract, with the simulator as Instantly.
func newFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	env := newTestEnv(t)
	out := env.Fixture(description(), newPlatform, accountForms, "email", func(name string) m { return m{"name": name} })
	out.Sessions = true
	out.Decline = func(_ conformance.T, at sdk.SignInSession) { env.Decide(at.URL, "", "deny") }
	out.Expire = func(_ conformance.T, at sdk.SignInSession) {
		env.Send(http.MethodPost, "/sessions/"+at.ID+"/expire", m{})
	}
	out.Unpaid = func(conformance.T) { env.Send(http.MethodPut, "/workspaces/"+simulator.Workspace, m{"inactive": true}) }
	return out
}

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}
