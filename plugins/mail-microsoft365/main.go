// SPDX-License-Identifier: Apache-2.0

// Command mail-microsoft365 lets tenantry manage Microsoft 365 tenants. Its
// README says what it calls and which permissions that needs.
package main

import (
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func main() {
	sdk.Serve(plugin())
}

func plugin() sdk.Plugin {
	h := newHouse()
	return sdk.Plugin{Describe: description(), Mail: h.platform, Simulator: simulator.New}
}
