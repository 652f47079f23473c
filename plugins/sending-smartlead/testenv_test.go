// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
)

type jsonObject = map[string]any

// testEnv is a simulated Smartlead whose plan has no rate limits.
type testEnv struct{ *conformance.SendingTest }

func newTestEnv(t conformance.T) testEnv {
	t.Helper()
	env := testEnv{conformance.SimulateSending(t, simulator.New, newProcessState().newPlatform)}
	env.Send(http.MethodPut, "/plan", jsonObject{"plan": "enterprise"})
	return env
}

// platformFor returns the platform for a connection with this workspace_id.
func (env testEnv) platformFor(workspace string) sdk.SendingPlatform {
	return env.With(map[string]string{"workspace_id": workspace})
}

// createConnected creates connected accounts at Smartlead.
func (env testEnv) createConnected(addresses ...string) {
	for _, address := range addresses {
		env.Put(address, jsonObject{"from_name": "Anna"})
	}
}

// fixtureWithQuirks returns a function that creates environments for the contract suite (package
// ports/contract). The simulator of each environment has these quirks.
func fixtureWithQuirks(quirks jsonObject) conformance.NewSendingFixture {
	return func(t conformance.T, newPlatform func(sdk.Connection) sdk.SendingPlatform) conformance.SendingFixture {
		env := newTestEnv(t)
		env.Send(http.MethodPut, "/quirks", quirks)
		return env.Fixture(description(), newPlatform)
	}
}
