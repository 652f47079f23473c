// SPDX-License-Identifier: Apache-2.0

// Command sending-emailbison is the plugin for EmailBison. It is a separate Go module, like the
// plugin of an outside author. Its code, except the tests, imports only the SDK of tenantry. The
// README lists its API calls.
//
//   - main.go: the function main, which serves the plugin.
//   - describe.go: the description of the plugin, and platform, which implements
//     sdk.SendingPlatform for one token. Start here.
//   - instance.go: how the credential names an instance, and which instances may be called.
//   - check.go, accounts.go: the operations of the platform.
//   - call.go: one request, its errors, the pages of a list and the decoding of answers.
//   - simulator: a stand-in for EmailBison in tests and in `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), Sending: state.newPlatform, Simulator: simulator.New, Waits: state.waits}
}
