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

// testEnv is a simulated Smartlead whose plan has no rate limits.
type testEnv struct {
	*conformance.Simulator
	newPlatform func(sdk.Connection) sdk.SendingPlatform
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	env := &testEnv{Simulator: conformance.Simulate(t, simulator.New), newPlatform: func(c sdk.Connection) sdk.SendingPlatform {
		p, err := newProcessState().newPlatform(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}}
	env.Control(t, http.MethodPut, "/plan", map[string]string{"plan": "enterprise"}, nil)
	return env
}

// with returns the platform of a workspace_id.
func (env *testEnv) with(workspace string) sdk.SendingPlatform {
	return env.newPlatform(env.Connection(map[string]string{"workspace_id": workspace}, nil))
}

// newFixture returns the environment of the contract, with the simulator as Smartlead.
func newFixture(t testing.TB, newPlatform func(sdk.Connection) sdk.SendingPlatform) contract.SendingPlatformEnv {
	return newTestEnv(t).fixture(t, newPlatform)
}

// fixture returns the environment of the contract. newPlatform makes its platforms.
func (env *testEnv) fixture(t testing.TB, newPlatform func(sdk.Connection) sdk.SendingPlatform) contract.SendingPlatformEnv {
	env.newPlatform = newPlatform
	return contract.SendingPlatformEnv{
		Platform: env.with(""),
		Refused:  newPlatform(env.Connection(nil, map[string]string{"api_key": "guessed"})),
		Absent:   newPlatform(env.Connection(map[string]string{"base_url": conformance.UnreachableURL(t)}, nil)),
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
		Put: env.put, Held: env.held, Fail: env.Fail,
	}
}

// put creates or changes accounts at Smartlead.
func (env *testEnv) put(t testing.TB, accounts ...integration.Account) {
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
		env.Control(t, http.MethodPut, "/accounts/"+url.PathEscape(a.Address), doc, nil)
	}
}

// held returns the addresses of all accounts at Smartlead.
func (env *testEnv) held(t testing.TB) []string {
	t.Helper()
	var all []struct {
		FromEmail string `json:"from_email"`
	}
	env.Control(t, http.MethodGet, "/accounts", nil, &all)
	var addresses []string
	for _, a := range all {
		addresses = append(addresses, a.FromEmail)
	}
	return addresses
}

// connected returns a connected account of an address.
func connected(address string) sdk.Account {
	return sdk.Account{Address: address, Name: "Anna", State: sdk.AccountConnected}
}
