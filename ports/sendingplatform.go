// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
)

// SendingPlatform is a sending platform, accessed with one credential in one of its workspaces. The
// credential's setting `workspace_id` names the workspace. If the credential has access to several
// workspaces, only Check works without this setting.
//
// A call fails with access_denied if the platform rejects the credential. The cause of this error
// is plan_inactive if the credential's plan has ended. A call fails with capability_not_supported
// if the platform does not support the operation, and with invalid_request if settings are invalid.
// All these errors have the kind outcome.Refused. The budgets in the plugin's description say how
// many requests a call costs. The default is 1.
type SendingPlatform interface {
	// Check tests the credential and returns the workspaces to which it has access.
	Check(ctx context.Context) (integration.Reach, error)
	// Account returns the account with this address, ignoring case, or the zero Account.
	Account(ctx context.Context, address string) (integration.Account, error)
	// Accounts returns one page of all accounts. cursor is empty for the first page, then Next of
	// the previous page.
	Accounts(ctx context.Context, cursor string) (integration.Page, error)
	// StartSignIn returns a link with which a person signs in to the mailbox with this address. The
	// platform adds the account only after the sign-in. Each call returns a new link.
	StartSignIn(ctx context.Context, address string) (integration.SignIn, error)
	// SignIn returns the progress of a session. An unknown session counts as expired.
	SignIn(ctx context.Context, session string) (integration.Progress, error)
	// Remove deletes the account with this id from the platform. It succeeds if the account does
	// not exist.
	Remove(ctx context.Context, account string) error
}

// SendingPlatforms lists the sending platforms that have plugins.
type SendingPlatforms interface {
	// Platforms lists the platforms, sorted by id. A platform whose plugin does not run may be
	// missing.
	Platforms(ctx context.Context) ([]integration.Provider, error)
	// Platform returns one platform. It fails with outcome.Down if the platform has no plugin, or
	// if the plugin does not run and has not described itself yet.
	Platform(ctx context.Context, provider string) (integration.Provider, error)
	// ParseCredential parses a credential: a JSON object of the provider's account fields, or the
	// value of the field `api_key`. Its errors do not quote the text. It fails with
	// unknown_provider, with invalid_request, or with service_unavailable if the plugin does not
	// start soon.
	ParseCredential(ctx context.Context, provider string, text secret.Text) (secret.Credential, error)
	// Capabilities returns what an integration can do if its credential has these fields. It makes
	// no call. A provider without a plugin has no capabilities. Capabilities fails with
	// outcome.Down if the plugin does not run and has not described itself yet.
	Capabilities(ctx context.Context, provider string, fields []string) (integration.Capabilities, error)
	// For returns a platform, accessed with a credential. It makes no call. If the provider has no
	// plugin, every call fails with outcome.Down.
	For(provider string, credential secret.Credential) SendingPlatform
}
