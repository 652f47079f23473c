// SPDX-License-Identifier: Apache-2.0

// Command sending-instantly is the plugin for Instantly. The README lists its API calls.
//
//   - main.go: the function main, which serves the plugin.
//   - describe.go: the description of the plugin, and platform, which implements
//     sdk.SendingPlatform for one API key. Start here.
//   - check.go, accounts.go, signin.go: the operations of the platform, and how a status becomes a
//     state.
//   - call.go: one request to the API and the errors of its answer.
//   - simulator: a stand-in for Instantly in tests and in `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), Sending: state.newPlatform, Simulator: simulator.New, Waits: state.waits}
}
