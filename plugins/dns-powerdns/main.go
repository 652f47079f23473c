// SPDX-License-Identifier: Apache-2.0

// Command dns-powerdns lets tenantry edit zones of a PowerDNS Authoritative
// Server through its HTTP API. Its README says what it calls.
package main

import "github.com/tenantry/tenantry/plugins/sdk"

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{Describe: description(), DNS: newHouse().provider}
}
