// SPDX-License-Identifier: Apache-2.0

// Command dns-cloudflare is the plugin that reads and changes zones at Cloudflare through API v4.
// README.md lists the API calls.
//
//   - main.go: the function main, which serves the plugin.
//   - describe.go: the description, and how a provider is created from a connection. Start here.
//   - zone.go: the check of a token, and reading zones and records.
//   - apply.go: writing records in one batch.
//   - call.go: one API call and the meaning of its errors.
//   - budget.go: the rate limit of a token.
//
// Package simulator simulates the API for tests and for `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), DNS: state.provider, Simulator: simulator.New, Waits: state.waits}
}
