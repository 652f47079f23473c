// SPDX-License-Identifier: Apache-2.0

// Command dns-rfc2136 is the plugin that reads and changes zones by zone transfer and dynamic
// update (RFC 2136), signed with a TSIG key. It works with BIND, Knot and other servers. README.md
// lists the messages.
//
//   - main.go: the function main, which serves the plugin.
//   - describe.go: the description, and how a provider is created from a connection. Start here.
//   - zone.go: reading zones and records.
//   - apply.go: writing records in one update message.
//   - call.go: sending a transfer or an update, and the meaning of the response codes.
//
// Package simulator simulates a server for tests and for `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/dns-rfc2136/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{Describe: description(), DNS: newProvider, Simulator: simulator.New}
}
