// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
)

// m is a JSON object.
type m = map[string]any

// testEnv is a simulated Smartlead whose plan has no rate limits.
type testEnv struct{ *conformance.SendingTest }

func newTestEnv(t conformance.T) testEnv {
	t.Helper()
	env := testEnv{conformance.SimulateSending(t, simulator.New, newProcessState().newPlatform)}
	env.Send(http.MethodPut, "/plan", m{"plan": "enterprise"})
	return env
}

// with returns the platform of a workspace_id.
func (env testEnv) with(workspace string) sdk.SendingPlatform {
	return env.With(map[string]string{"workspace_id": workspace})
}

// connect creates connected accounts at Smartlead.
func (env testEnv) connect(addresses ...string) {
	for _, address := range addresses {
		env.Put(address, m{"from_name": "Anna"})
	}
}

// form returns a state of an account, and the fields that create such an account.
func form(a sdk.Account, smtp, imap any, kind string) conformance.AccountForm {
	members := m{"is_smtp_success": smtp, "is_imap_success": imap, "is_suspended": a.Paused, "type": kind}
	if smtp == false {
		members["smtp_failure_error"] = "SMTP Failure - 535 5.7.3 Authentication unsuccessful"
	}
	return conformance.AccountForm{Account: a, Members: members}
}

var accountForms = []conformance.AccountForm{
	form(sdk.Account{State: sdk.AccountConnected}, true, true, "OUTLOOK"),
	form(sdk.Account{State: sdk.AccountConnected, Paused: true}, true, true, "OUTLOOK"),
	form(sdk.Account{State: sdk.AccountPending}, nil, nil, "OUTLOOK"),
	form(sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}, false, false, "OUTLOOK"),
	form(sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "smtp_failure"}, false, true, "OUTLOOK"),
	form(sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "imap_failure"}, true, false, "OUTLOOK"),
	form(sdk.Account{State: sdk.AccountOther}, true, true, "SMTP"),
}

// fixtureWith returns the function that makes the environment of the contract, with the simulator
// as Smartlead with quirks.
func fixtureWith(quirks m) conformance.NewSendingFixture {
	return func(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
		env := newTestEnv(t)
		env.Send(http.MethodPut, "/quirks", quirks)
		return env.Fixture(description(), newPlatform, accountForms, "from_email", func(name string) m { return m{"from_name": name} })
	}
}

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}
