// SPDX-License-Identifier: Apache-2.0

// Command mail-microsoft365 is the plugin through which tenantry manages Microsoft 365 tenants. It
// implements sdk.MailPlatform and sdk.MailTenant. The README lists the calls and the permissions.
//
// Start with provider.go: platform makes the calls of one connection, and tenantClient makes the
// calls for one tenant. The other files:
//
//   - main.go: the function main, which serves the plugin.
//   - settings.go: the description of the plugin and the settings of a connection.
//   - consent.go, bootstrap.go, grants.go: consent, sign-in, and the preparation of Exchange.
//   - directory.go, domains.go, records.go, licenses.go: the tenant's profile and users, its
//     domains, their DNS records, and its licences.
//   - mailboxes.go, createmailbox.go, mailboxuser.go, dkim.go, smtpauth.go: mailboxes and mail
//     settings.
//   - rules.go, rulesteps.go, rulerow.go, trace.go: rules that block senders, and the message
//     trace.
//   - createonce.go: how a request is repeated without creating an object twice.
//
// The sub-packages: call sends HTTP requests, login gets tokens and checks sign-ins, graph talks to
// Microsoft Graph, exchange runs cmdlets, and simulator imitates the login host, Graph and
// Exchange.
package main

import (
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func main() {
	sdk.Serve(plugin())
}

func plugin() sdk.Plugin {
	state := newProcessState()
	return sdk.Plugin{Describe: description(), Mail: state.newPlatform, Simulator: simulator.New, Waits: state.waits}
}
