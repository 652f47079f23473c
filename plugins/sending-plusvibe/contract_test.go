// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
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

// accountForms are the states that an account can have, by PlusVibe's status.
var accountForms = map[string]sdk.Account{
	"ACTIVE":       {State: sdk.AccountConnected},
	"PAUSED":       {State: sdk.AccountConnected, Paused: true},
	"SMTP_ERROR":   {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
	"CONNECTING":   {State: sdk.AccountPending},
	"CONTEMPLATES": {State: sdk.AccountOther, Reason: "unknown_status"},
}

// newFixture returns the environment of the contract, with the simulator as PlusVibe.
func newFixture(t testing.TB, newPlatform func(sdk.Connection) sdk.SendingPlatform) contract.SendingPlatformEnv {
	env := newTestEnv(t)
	good := env.key("examined", 1)
	workspace := good["workspace_id"]
	guessed := texts{"api_key": "guessed", "partner_username": "guessed@agency.example", "partner_password": "guessed-password"}
	with := func(given ...texts) sdk.SendingPlatform { return newPlatform(env.connection(merged(given...))) }
	out := contract.SendingPlatformEnv{
		Platform: with(good), Refused: with(good, guessed), Absent: with(good, texts{"base_url": conformance.UnreachableURL(t)}),
		Can:    description().Capabilities,
		Lesser: with(good, texts{"partner_username": "", "partner_password": ""}),
		Reaching: func(_ testing.TB, n int) sdk.SendingPlatform {
			return with(env.key(fmt.Sprint("reaching-", n), n), texts{"workspace_id": ""})
		},
		AuthHosts: []string{env.Ready.Settings["auth_hosts"]},
		Put: func(_ testing.TB, accounts ...sdk.Account) {
			for _, a := range accounts {
				first, last, _ := strings.Cut(a.Name, " ")
				env.control(http.MethodPut, "/accounts/"+url.PathEscape(a.Address)+"?workspace_id="+workspace, m{
					"status": statusOf(t, a), "payload": m{"name": m{"first_name": first, "last_name": last}},
				})
			}
		},
		Held: func(testing.TB) (addresses []string) {
			for _, a := range env.held(workspace) {
				addresses = append(addresses, a["email"].(string))
			}
			return addresses
		},
		SignIn: func(_ testing.TB, at sdk.SignInSession, address string) { env.decide(at.URL, address, "accept") },
		Fail:   env.Fail,
	}
	for _, given := range []texts{good, guessed} {
		out.Secrets = append(out.Secrets, given["api_key"], given["partner_username"], given["partner_password"])
	}
	for _, form := range accountForms {
		out.Looks = append(out.Looks, form)
	}
	return out
}

// statusOf returns PlusVibe's status for the state of an account.
func statusOf(t testing.TB, a sdk.Account) string {
	t.Helper()
	for status, form := range accountForms {
		if form == (sdk.Account{State: a.State, Paused: a.Paused, HasError: a.HasError, Reason: a.Reason}) {
			return status
		}
	}
	t.Fatalf("no status stands for %+v", a)
	return ""
}
