// SPDX-License-Identifier: Apache-2.0

// Command dns-cloudflare lets tenantry edit zones hosted at Cloudflare. Its
// README says what it calls.
package main

import (
	"github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{Describe: description(), DNS: newHouse().provider, Simulator: simulator.New}
}
