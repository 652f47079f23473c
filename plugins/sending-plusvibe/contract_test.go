// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract of a sending platform over the plugin's code and the simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), newFixture) }

// TestBinary runs every suite of a sending platform over the built plugin.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-plusvibe")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: texts{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, newFixture)
}

// accountForms are the states that an account can have, with PlusVibe's status.
var accountForms = []conformance.AccountForm{
	{Account: sdk.Account{State: sdk.AccountConnected}, Members: m{"status": "ACTIVE"}},
	{Account: sdk.Account{State: sdk.AccountConnected, Paused: true}, Members: m{"status": "PAUSED"}},
	{Account: sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, Members: m{"status": "SMTP_ERROR"}},
	{Account: sdk.Account{State: sdk.AccountPending}, Members: m{"status": "CONNECTING"}},
	{Account: sdk.Account{State: sdk.AccountOther, Reason: "unknown_status"}, Members: m{"status": "CONTEMPLATES"}},
}

// newFixture returns the environment of the contract, with the simulator as PlusVibe.
func newFixture(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
	env := newTestEnv(t)
	maps.Copy(env.Ready.Secrets, env.key("examined", 1))
	out := env.Fixture(description(), newPlatform, accountForms, "email", func(name string) m {
		first, last, _ := strings.Cut(name, " ")
		return m{"payload": m{"name": m{"first_name": first, "last_name": last}}}
	})
	out.Lesser = newPlatform(env.Given(texts{"partner_username": "", "partner_password": ""}))
	out.WithWorkspaces = func(_ conformance.T, n int) sdk.SendingPlatform {
		return newPlatform(env.Given(env.key(fmt.Sprint("reaching-", n), n), texts{"workspace_id": ""}))
	}
	return out
}
