// SPDX-License-Identifier: Apache-2.0

// Command sending-smartlead is the plugin for Smartlead. The README lists its API calls.
//
//   - main.go: the function main, which serves the plugin.
//   - describe.go: the description of the plugin, and platform, which implements
//     sdk.SendingPlatform for one API key. Start here.
//   - check.go, accounts.go: the operations of the platform. states.go: the state of an account.
//   - call.go: one request to the API and the errors of its answer.
//   - lenient.go: the JSON types that accept the different forms of Smartlead's answers.
//   - simulator: a stand-in for Smartlead in tests and in `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), Sending: state.newPlatform, Simulator: simulator.New, Waits: state.waits}
}
