// SPDX-License-Identifier: Apache-2.0

// Command sending-salesblink lets tenantry connect mailboxes to SalesBlink. Its
// README says what it calls, and what of that is a guess.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-salesblink/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{Describe: description(), Sending: newHouse().provider, Simulator: simulator.New}
}
