// SPDX-License-Identifier: Apache-2.0

// Command sending-smartlead connects tenantry to Smartlead. Its README says
// what it calls.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{Describe: description(), Sending: newHouse().platform, Simulator: simulator.New}
}
