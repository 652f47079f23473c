// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// newSendingEnvironment starts the plugin and its simulator, and returns the environment of the
// contract of a sending platform.
func newSendingEnvironment(t T, e *environment) contract.SendingPlatformEnv {
	t.Helper()
	e.start(t, newWorld(t, e.description.Name).url)
	newPlatform := func(c sdk.Connection) (sdk.SendingPlatform, error) { return e.sending(e.process, e.complete(c)), nil }
	test := &SendingTest{Simulator: e.simulator, t: t, newPlatform: newPlatform}
	if status, _ := e.simulator.callControl(t, "GET", "/suite", nil); status != 200 {
		t.Fatalf("the simulator answers GET /_control/suite with %d", status)
	}
	fixture := test.Fixture(e.description, func(c sdk.Connection) sdk.SendingPlatform {
		platform, _ := newPlatform(c)
		return platform
	})
	e.exchange.learn(e.simulator.Ready.Secrets)
	return fixture
}

// sendingDescription is the check of a sending platform's description.
var sendingDescription = check{ID: "sending/describe/fields", Proves: "the description fits a sending platform", Run: func(t T, b Binary) {
	checkSending(t, describe(t, b.Start(t)))
}}
