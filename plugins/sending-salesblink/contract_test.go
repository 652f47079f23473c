// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
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

// accountForm is a state that an account can have, and the fields that create such a sender.
type accountForm struct {
	sdk.Account
	fields m
}

var accountForms = []accountForm{
	{sdk.Account{State: sdk.AccountConnected}, m{"status": "active"}},
	{sdk.Account{State: sdk.AccountConnected, Paused: true}, m{"status": "Paused"}},
	{sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, m{"status": "active", "error": "invalid_grant"}},
	{sdk.Account{State: sdk.AccountPending}, m{"status": "connecting"}},
	{sdk.Account{State: sdk.AccountOther, Reason: "unknown_status"}, m{"status": "contemplates"}},
}

// fixtureWith returns the function that makes the environment of the contract, with the simulator
// as SalesBlink in a given behaviour.
func fixtureWith(behaviour m) conformance.NewSendingFixture {
	return func(t testing.TB, newPlatform func(sdk.Connection) sdk.SendingPlatform) contract.SendingPlatformEnv {
		env := newTestEnv(t)
		env.behave(behaviour)
		with := func(given texts) sdk.SendingPlatform { return newPlatform(env.connection(given)) }
		// Each fixture has its own key. The plugin process serves all fixtures; when a fixture gets the
		// port of an earlier one, the pause of the earlier key would still apply for a minute.
		own := "key-" + rand.Text()
		env.key(own, "owner", 1)
		out := contract.SendingPlatformEnv{
			Platform: with(texts{"api_key": own}), Refused: with(texts{"api_key": "key-guessed"}), Absent: with(texts{"base_url": conformance.UnreachableURL(t)}),
			Secrets: []string{own, "key-guessed"}, Can: description().Capabilities,
			AuthHosts: []string{env.Ready.Settings["auth_hosts"]},
			Reaching: func(_ testing.TB, n int) sdk.SendingPlatform {
				key := fmt.Sprint("key-reaching-", n)
				env.key(key, "owner", n)
				return with(texts{"api_key": key})
			},
			Put: func(_ testing.TB, accounts ...sdk.Account) {
				for i, a := range accounts {
					fields := merge(fieldsOf(t, a), m{"from_name": a.Name, "folder": fmt.Sprint("Folder ", i%3)})
					env.put(a.Address, fields)
				}
			},
			Held: func(t testing.TB) (addresses []string) {
				var all []struct {
					Email string `json:"from_email"`
				}
				env.Control(t, http.MethodGet, "/accounts", nil, &all)
				for _, a := range all {
					addresses = append(addresses, a.Email)
				}
				return addresses
			},
			SignIn:    func(_ testing.TB, at sdk.SignInSession, address string) { env.decide(at.URL, address, "accept") },
			LeastWait: minPause,
			Fail:      env.Fail,
		}
		for _, form := range accountForms {
			out.Looks = append(out.Looks, form.Account)
		}
		return out
	}
}

// fieldsOf returns the fields that create a sender with the state of a.
func fieldsOf(t testing.TB, a sdk.Account) m {
	t.Helper()
	for _, form := range accountForms {
		if form.Account == (sdk.Account{State: a.State, Paused: a.Paused, HasError: a.HasError, Reason: a.Reason}) {
			return form.fields
		}
	}
	t.Fatalf("no fields stand for %+v", a)
	return nil
}

func merge(all ...m) m {
	out := m{}
	for _, fields := range all {
		for name, value := range fields {
			out[name] = value
		}
	}
	return out
}
