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

// TestContract runs the port's promises over the simulator.
func TestContract(t *testing.T) { conformance.SendingInProcess(t, plugin(), open) }

// TestBinary runs every suite over the plugin as it is built.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-plusvibe")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: texts{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, open)
}

// looks are the ways in which accounts look, by PlusVibe's word for them.
var looks = map[string]sdk.Account{
	"ACTIVE":       {State: sdk.AccountConnected},
	"PAUSED":       {State: sdk.AccountConnected, Paused: true},
	"SMTP_ERROR":   {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
	"CONNECTING":   {State: sdk.AccountPending},
	"CONTEMPLATES": {State: sdk.AccountOther, Reason: "unknown_status"},
}

// open is a world as the suite of the port sees it.
func open(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld {
	w := newWorld(t)
	good := w.key("examined", 1)
	in := good["workspace_id"]
	guessed := texts{"api_key": "guessed", "partner_username": "guessed@agency.example", "partner_password": "guessed-password"}
	with := func(given ...texts) sdk.SendingPlatform { return platform(w.connection(merged(given...))) }
	out := contract.SendingWorld{
		Platform: with(good), Refused: with(good, guessed), Absent: with(good, texts{"base_url": conformance.Nowhere(t)}),
		Can:    description().Capabilities,
		Lesser: with(good, texts{"partner_username": "", "partner_password": ""}),
		Reaching: func(_ testing.TB, n int) sdk.SendingPlatform {
			return with(w.key(fmt.Sprint("reaching-", n), n), texts{"workspace_id": ""})
		},
		AuthHosts: []string{w.Ready.Settings["auth_hosts"]},
		Put: func(_ testing.TB, accounts ...sdk.Account) {
			for _, a := range accounts {
				first, last, _ := strings.Cut(a.Name, " ")
				w.control(http.MethodPut, "/accounts/"+url.PathEscape(a.Address)+"?workspace_id="+in, m{
					"status": statusOf(t, a), "payload": m{"name": m{"first_name": first, "last_name": last}},
				})
			}
		},
		Held: func(testing.TB) (addresses []string) {
			for _, a := range w.held(in) {
				addresses = append(addresses, a["email"].(string))
			}
			return addresses
		},
		SignIn: func(_ testing.TB, at sdk.SignInSession, address string) { w.decide(at.URL, address, "accept") },
		Fail:   w.Fail,
	}
	for _, given := range []texts{good, guessed} {
		out.Secrets = append(out.Secrets, given["api_key"], given["partner_username"], given["partner_password"])
	}
	for _, look := range looks {
		out.Looks = append(out.Looks, look)
	}
	return out
}

func statusOf(t testing.TB, a sdk.Account) string {
	t.Helper()
	for status, look := range looks {
		if look == (sdk.Account{State: a.State, Paused: a.Paused, HasError: a.HasError, Reason: a.Reason}) {
			return status
		}
	}
	t.Fatalf("nothing looks like %+v", a)
	return ""
}
