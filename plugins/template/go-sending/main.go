// SPDX-License-Identifier: Apache-2.0

// Command sending-example is the tenantry plugin for the sending platform Example. The README says
// how to build, test and install it.
//
//   - describe.go: the description, and how a platform is created from a connection. Start here.
//   - platform.go: the six operations of a sending platform.
//   - call.go: one request to the API, and the meaning of its status.
//   - simulator: a program that imitates the API in tests and in `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"

	"github.com/tenantry/tenantry/plugins/template/go-sending/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), Sending: state.platform, Simulator: simulator.New, Waits: state.waits}
}
