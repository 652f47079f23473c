// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
	"github.com/tenantry/tenantry/ports/contract"
)

// world is the simulator, with a key that has no limits.
type world struct {
	*conformance.Simulator
	platform func(sdk.Connection) sdk.SendingPlatform
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{Simulator: conformance.Simulate(t, simulator.New), platform: func(c sdk.Connection) sdk.SendingPlatform {
		p, err := newHouse().platform(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}}
	w.Control(t, http.MethodPut, "/plan", map[string]string{"plan": "enterprise"}, nil)
	return w
}

// at is the plugin with a workspace.
func (w *world) at(workspace string) sdk.SendingPlatform {
	return w.platform(w.Connection(map[string]string{"workspace_id": workspace}, nil))
}

func newSuite(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld {
	return newWorld(t).suite(t, platform)
}

// suite is the world as the suite wants it.
func (w *world) suite(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld {
	w.platform = platform
	return contract.SendingWorld{
		Platform: w.at(""),
		Refused:  platform(w.Connection(nil, map[string]string{"api_key": "guessed"})),
		Absent:   platform(w.Connection(map[string]string{"base_url": conformance.Nowhere(t)}, nil)),
		Secrets:  []string{simulator.Key},
		Can:      description().Capabilities,
		Looks: []integration.Account{
			{State: sdk.AccountConnected},
			{State: sdk.AccountConnected, Paused: true},
			{State: sdk.AccountPending},
			{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
			{State: sdk.AccountFailed, HasError: true, Reason: "smtp_failure"},
			{State: sdk.AccountFailed, HasError: true, Reason: "imap_failure"},
			{State: sdk.AccountOther},
		},
		Put: w.put, Held: w.held, Fail: w.Fail,
	}
}

func (w *world) put(t testing.TB, accounts ...integration.Account) {
	t.Helper()
	for _, a := range accounts {
		smtp := a.State != sdk.AccountFailed || a.Reason == "imap_failure"
		imap := a.State != sdk.AccountFailed || a.Reason == "smtp_failure"
		doc := map[string]any{"from_name": a.Name, "is_smtp_success": smtp, "is_imap_success": imap, "is_suspended": a.Paused}
		if !smtp {
			doc["smtp_failure_error"] = "SMTP Failure - 535 5.7.3 Authentication unsuccessful"
		}
		switch a.State {
		case sdk.AccountPending:
			doc["is_smtp_success"], doc["is_imap_success"] = nil, nil
		case sdk.AccountOther:
			doc["type"] = "SMTP"
		}
		w.Control(t, http.MethodPut, "/accounts/"+url.PathEscape(a.Address), doc, nil)
	}
}

func (w *world) held(t testing.TB) []string {
	t.Helper()
	var all []struct {
		FromEmail string `json:"from_email"`
	}
	w.Control(t, http.MethodGet, "/accounts", nil, &all)
	var addresses []string
	for _, a := range all {
		addresses = append(addresses, a.FromEmail)
	}
	return addresses
}

func connected(address string) sdk.Account {
	return sdk.Account{Address: address, Name: "Anna", State: sdk.AccountConnected}
}
