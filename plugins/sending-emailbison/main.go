// SPDX-License-Identifier: Apache-2.0

// Command sending-emailbison connects tenantry to EmailBison. It is a module of
// its own that builds on nothing but the SDK, as a plugin of an author outside
// does. Its README says what it calls.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	return sdk.Plugin{Describe: description(), Sending: newHouse().platform, Simulator: simulator.New}
}
