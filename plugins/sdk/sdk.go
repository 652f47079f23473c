// SPDX-License-Identifier: Apache-2.0

// Package sdk is all that the author of a provider plugin imports: the
// interfaces to implement, the types they speak, and Serve.
package sdk

import (
	"net/http"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// The interfaces that plugins implement are the ports that use cases call.
type (
	// MailPlatform is a mail platform.
	MailPlatform = ports.MailPlatform
	// MailTenant is one tenant at a mail platform.
	MailTenant = ports.MailTenant
	// SignIn is one sign-in of an administrator.
	SignIn = ports.SignIn
	// DNSProvider is a DNS provider as one connection reaches it.
	DNSProvider = ports.DNSProvider
	// SendingPlatform is a sending platform as one credential reaches it.
	SendingPlatform = ports.SendingPlatform
	// Secret is a string that cannot be printed by accident.
	Secret = secret.Text
	// Connection carries an operator's or account's settings and secrets
	// with each call.
	Connection = wire.Connection
	// Description is what a plugin says of itself.
	Description = wire.Description
	// Field is one setting or credential field of a Description.
	Field = wire.Field
	// Budget is one limit that the provider sets.
	Budget = wire.Budget
)

// Plugin is what Serve serves. Describe must be filled in; exactly one of the
// provider constructors is set.
type Plugin struct {
	Describe Description
	// Mail makes the provider for one call. Connections repeat, so a
	// provider may keep what is costly (tokens, HTTP connections) in the
	// closure, keyed by Connection.Fingerprint, and must not keep secrets.
	Mail func(Connection) (MailPlatform, error)
	// DNS makes the DNS provider for one call; the rules are those of Mail.
	DNS func(Connection) (DNSProvider, error)
	// Sending makes the sending platform for one call; the rules are those
	// of Mail.
	Sending func(Connection) (SendingPlatform, error)
	// Simulator makes the loopback stand-in of the provider's API, or is
	// nil where the provider can be run locally. See package simulate.
	Simulator func(simulate.Options) (http.Handler, simulate.Ready, error)
}
