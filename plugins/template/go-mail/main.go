// SPDX-License-Identifier: Apache-2.0

// Command mail-example is the tenantry plugin for the mail platform Example. The README says how to
// build, test and install it.
//
//   - describe.go: the description, and how a platform is created from a connection. Start here.
//   - consent.go: how an administrator gives the application access to a tenant.
//   - tenant.go, mailserver.go, mailboxes.go, sending.go: the operations of one tenant.
//   - call.go: one request to the API, and the meaning of its status and of its error codes.
//   - simulator: a program that imitates the API in tests and in `tenantry dev`.
package main

import (
	"github.com/tenantry/tenantry/plugins/sdk"

	"github.com/tenantry/tenantry/plugins/template/go-mail/simulator"
)

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), Mail: state.platform, Simulator: simulator.New, Waits: state.waits}
}
