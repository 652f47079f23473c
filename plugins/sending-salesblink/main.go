// SPDX-License-Identifier: Apache-2.0

// Command sending-salesblink is the plugin for SalesBlink. The README lists its API calls, and the
// properties of the calls that SalesBlink does not document.
//
//   - main.go: the function main, which serves the plugin.
//   - describe.go: the description of the plugin, and platform, which implements
//     sdk.SendingPlatform for one API key. Start here.
//   - check.go: the check of a key. signin.go: the sign-in, and Remove, which always fails.
//   - paging.go: the list of senders, page by page. accounts.go: how a list is decoded.
//   - guesses.go: guesses about names of JSON members, statuses, and the workspace of a request.
//   - call.go: one request to the API, the errors of its answer, and the pause after a 429.
//   - simulator: a stand-in for SalesBlink in tests and in `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-salesblink/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), Sending: state.newPlatform, Simulator: simulator.New, Waits: state.waits}
}
