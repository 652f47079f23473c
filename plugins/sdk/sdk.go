// SPDX-License-Identifier: Apache-2.0

// Package sdk is the package that the author of a provider plugin imports. It has the interfaces to
// implement, the types of their parameters, and Serve.
//
// A plugin's main function calls Serve with a Plugin. The Plugin has a Description and one of the
// constructors Mail, DNS and Sending. The constructor creates the provider for each call.
//
//   - sdk.go: Plugin and the types. Start here.
//   - serve.go: Serve, and the commands `describe` and `--version`.
//   - simulator.go: the command `simulate`.
//   - outcome.go: the errors that providers of all kinds return.
//   - waits.go: Waits, which refuses calls while a Retry-After applies.
//   - http.go: HTTP clients and dialers for the calls to a provider.
//   - mail.go: for mail platforms: types and errors. RefusedAs and WaitsFor are for all plugins.
//   - zone.go: for DNS providers: zones, record sets, changes, and the errors NoZone, ZoneChanged
//     and Overlapped.
//   - dns.go: for DNS providers: record contents, and locks for zones.
//   - telemetry.go: traces and log lines.
package sdk

import (
	"net/http"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// The interfaces that a plugin implements, and the types of the plugin's configuration.
type (
	// MailPlatform is a mail platform. `go doc github.com/tenantry/tenantry/ports MailPlatform`
	// prints its methods and their contracts, except those of the embedded interface Consent.
	MailPlatform = ports.MailPlatform
	// MailTenant is one tenant of a mail platform. `go doc github.com/tenantry/tenantry/ports
	// MailTenant` prints the interfaces that it embeds. For each of these, `go doc` prints the
	// methods and their contracts.
	MailTenant = ports.MailTenant
	// SignIn has the parameters of one sign-in of an administrator.
	SignIn = ports.SignIn
	// DNSProvider is a DNS provider, accessed with one connection. `go doc
	// github.com/tenantry/tenantry/ports DNSProvider` prints its methods and their contracts.
	DNSProvider = ports.DNSProvider
	// SendingPlatform is a sending platform, accessed with one credential. `go doc
	// github.com/tenantry/tenantry/ports SendingPlatform` prints its methods and their contracts.
	SendingPlatform = ports.SendingPlatform
	// Secret is a string that is redacted when it is printed.
	Secret = secret.Text
	// Connection has the settings and secrets for one call.
	Connection = wire.Connection
	// Description describes a plugin to the host.
	Description = wire.Description
	// Field is a setting or a field of a credential in a Description.
	Field = wire.Field
	// PlatformFacts is what the host must know about a mail platform without a call to the plugin.
	PlatformFacts = platform.Facts
	// PlatformHosts are the domains of a mail platform's hosts, each with a leading dot.
	PlatformHosts = dns.PlatformHosts
	// Budget is a rate limit of the provider.
	Budget = wire.Budget
)

// Plugin is the parameter of Serve. Describe and exactly one of Mail, DNS and Sending must be set.
type Plugin struct {
	Describe Description
	// Mail returns the mail platform for one call. Many calls have the same Connection. The plugin
	// may keep tokens and HTTP connections between calls, keyed by Connection.Fingerprint. It must
	// not keep the secrets of the Connection.
	Mail func(Connection) (MailPlatform, error)
	// DNS returns the DNS provider for one call. The rules of Mail apply.
	DNS func(Connection) (DNSProvider, error)
	// Sending returns the sending platform for one call. The rules of Mail apply.
	Sending func(Connection) (SendingPlatform, error)
	// Simulator returns a handler that simulates the provider's API. See package simulate. If
	// Simulator is nil, `tenantry plugin test` skips the checks that need a simulator.
	Simulator func(simulate.Options) (http.Handler, simulate.Ready, error)
	// Waits contains the waits that the provider asked for. The host shares them with the other and
	// later processes of this plugin, and with other replicas if Redis is configured. Waits may be
	// nil.
	Waits *Waits
}

// The types of the parameters and results of a SendingPlatform.
type (
	// Reach has the workspaces that a credential can access.
	Reach = integration.Reach
	// Workspace is a workspace of a sending platform.
	Workspace = integration.Workspace
	// Account is a mail account at a sending platform.
	Account = integration.Account
	// AccountState is the state of an Account.
	AccountState = integration.AccountState
	// Page is one page of a list of Accounts.
	Page = integration.Page
	// SignInSession is a session for signing a mailbox in.
	SignInSession = integration.SignIn
	// SignInState is the state of a SignInSession.
	SignInState = integration.SignInState
	// Progress has the state of a SignInSession and its result.
	Progress = integration.Progress
)

// The states of accounts and sessions, and the capabilities of a sending platform.
const (
	AccountConnected = integration.AccountConnected
	AccountPending   = integration.AccountPending
	AccountFailed    = integration.AccountFailed
	AccountOther     = integration.AccountOther

	SignInPending   = integration.SignInPending
	SignInSucceeded = integration.SignInSucceeded
	SignInFailed    = integration.SignInFailed
	SignInExpired   = integration.SignInExpired

	CanOAuth      = integration.CanOAuth
	CanRefresh    = integration.CanRefresh
	CanDisconnect = integration.CanDisconnect
)

// FaultCredential is the value of Description.FaultDomain for a sending platform that has its own
// server for each credential. The host then uses one circuit breaker for each credential.
const FaultCredential = wire.FaultCredential

// SameAddress reports whether a and b are the same mail address.
func SameAddress(a, b string) bool { return integration.SameAddress(a, b) }

// SplitAuthHosts returns the hosts in the value of the setting auth_hosts, for SignInLink. Commas
// and white space separate them.
func SplitAuthHosts(setting string) []string { return integration.SplitAuthHosts(setting) }

// SignInLink reports whether an authorization URL leads to one of the hosts and uses https. A URL
// with a loopback address may also use http, for simulators. SendingPlatform.StartSignIn must
// return only links for which SignInLink is true.
func SignInLink(link string, hosts []string) bool { return integration.IsAllowedAuthURL(link, hosts) }
