// SPDX-License-Identifier: Apache-2.0

// Command dns-example is the tenantry plugin for the DNS provider Example. The README says how to
// build, test and install it.
//
//   - describe.go: the description, and how a provider is created from a connection. Start here.
//   - provider.go: the four operations of a DNS provider.
//   - call.go: one request to the API, and the meaning of its status.
//   - simulator: a program that imitates the API in tests and in `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"

	"github.com/tenantry/tenantry/plugins/template/go-dns/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), DNS: state.provider, Simulator: simulator.New, Waits: state.waits}
}
