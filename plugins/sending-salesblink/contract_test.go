// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestContract runs the contract of a sending platform over the plugin's code and the simulator,
// with both meanings of skip and two forms of lists.
func TestContract(t *testing.T) {
	for name, knobs := range map[string]m{
		"offsets, and no search": {"skip": "offset", "search": false},
		"pages, and flat lists":  {"skip": "page", "shape": "flat"},
	} {
		t.Run(name, func(t *testing.T) { conformance.SendingInProcess(t, plugin(), fixtureWith(knobs)) })
	}
}

// TestBinary runs every suite of a sending platform over the built plugin.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-salesblink")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: texts{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, fixtureWith(m{"shape": "folders"}))
}

// accountForms are the states that an account can have, with the fields that create such a sender.
var accountForms = []conformance.AccountForm{
	{Account: sdk.Account{State: sdk.AccountConnected}, Members: m{"status": "active"}},
	{Account: sdk.Account{State: sdk.AccountConnected, Paused: true}, Members: m{"status": "Paused"}},
	{Account: sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, Members: m{"status": "active", "error": "invalid_grant"}},
	{Account: sdk.Account{State: sdk.AccountPending}, Members: m{"status": "connecting"}},
	{Account: sdk.Account{State: sdk.AccountOther, Reason: "unknown_status"}, Members: m{"status": "contemplates"}},
}

// fixtureWith returns the function that makes the environment of the contract, with the simulator
// as SalesBlink in a given behaviour.
func fixtureWith(behaviour m) conformance.NewSendingFixture {
	return func(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
		env := newTestEnv(t)
		env.Behave(behaviour)
		// Each fixture has its own key. The plugin process serves all fixtures; when a fixture gets the
		// port of an earlier one, the pause of the earlier key would still apply for a minute.
		own := "key-" + rand.Text()
		env.key(own, "owner", 1)
		env.Ready.Secrets["api_key"] = own
		folder := 0
		out := env.Fixture(description(), newPlatform, accountForms, "from_email", func(name string) m {
			folder++
			return m{"from_name": name, "folder": fmt.Sprint("Folder ", folder%3)}
		})
		out.LeastWait = minPause
		out.WithWorkspaces = func(_ conformance.T, n int) sdk.SendingPlatform {
			key := fmt.Sprint("key-reaching-", n)
			env.key(key, "owner", n)
			return newPlatform(env.Given(texts{"api_key": key}))
		}
		return out
	}
}
