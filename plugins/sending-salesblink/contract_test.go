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

// TestContract runs the port's promises over the simulator, whatever it means by
// skip and however its lists look.
func TestContract(t *testing.T) {
	for name, knobs := range map[string]m{
		"offsets, and no search": {"skip": "offset", "search": false},
		"pages, and flat lists":  {"skip": "page", "shape": "flat"},
	} {
		t.Run(name, func(t *testing.T) { conformance.SendingInProcess(t, plugin(), opener(knobs)) })
	}
}

// TestBinary runs every suite over the plugin as it is built.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-salesblink")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{Settings: texts{"base_url": base}, Secrets: map[string]secret.Text{"api_key": secret.New("not-a-real-one")}}
	}
	conformance.Sending(t, conformance.Binary{Path: path, Connect: connect}, opener(m{"shape": "folders"}))
}

// look is a way in which senders look, and what makes them so.
type look struct {
	sdk.Account
	doc m
}

var looks = []look{
	{sdk.Account{State: sdk.AccountConnected}, m{"status": "active"}},
	{sdk.Account{State: sdk.AccountConnected, Paused: true}, m{"status": "Paused"}},
	{sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, m{"status": "active", "error": "invalid_grant"}},
	{sdk.Account{State: sdk.AccountPending}, m{"status": "connecting"}},
	{sdk.Account{State: sdk.AccountOther, Reason: "unknown_status"}, m{"status": "contemplates"}},
}

// opener opens worlds as the suite of the port sees them, with these knobs.
func opener(knobs m) conformance.SendingWorld {
	return func(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld {
		w := newWorld(t)
		w.behave(knobs)
		with := func(given texts) sdk.SendingPlatform { return platform(w.connection(given)) }
		// A key of its own: the plugin that serves one world after the other would
		// let this one's rest when a port comes back within the minute.
		own := "key-" + rand.Text()
		w.key(own, "owner", 1)
		out := contract.SendingWorld{
			Platform: with(texts{"api_key": own}), Refused: with(texts{"api_key": "key-guessed"}), Absent: with(texts{"base_url": conformance.Nowhere(t)}),
			Secrets: []string{own, "key-guessed"}, Can: description().Capabilities,
			AuthHosts: []string{w.Ready.Settings["auth_hosts"]},
			Reaching: func(_ testing.TB, n int) sdk.SendingPlatform {
				key := fmt.Sprint("key-reaching-", n)
				w.key(key, "owner", n)
				return with(texts{"api_key": key})
			},
			Put: func(_ testing.TB, accounts ...sdk.Account) {
				for i, a := range accounts {
					doc := merge(docOf(t, a), m{"from_name": a.Name, "folder": fmt.Sprint("Folder ", i%3)})
					w.put(a.Address, doc)
				}
			},
			Held: func(t testing.TB) (addresses []string) {
				var all []struct {
					Email string `json:"from_email"`
				}
				w.Control(t, http.MethodGet, "/accounts", nil, &all)
				for _, a := range all {
					addresses = append(addresses, a.Email)
				}
				return addresses
			},
			SignIn:    func(_ testing.TB, at sdk.SignInSession, address string) { w.decide(at.URL, address, "accept") },
			LeastWait: leastPause,
			Fail:      w.Fail,
		}
		for _, l := range looks {
			out.Looks = append(out.Looks, l.Account)
		}
		return out
	}
}

func docOf(t testing.TB, a sdk.Account) m {
	t.Helper()
	for _, l := range looks {
		if l.Account == (sdk.Account{State: a.State, Paused: a.Paused, HasError: a.HasError, Reason: a.Reason}) {
			return l.doc
		}
	}
	t.Fatalf("nothing looks like %+v", a)
	return nil
}

func merge(all ...m) m {
	out := m{}
	for _, some := range all {
		for name, value := range some {
			out[name] = value
		}
	}
	return out
}
