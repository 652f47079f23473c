// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/secret"
)

// SendingPlatform is a sending platform as one credential reaches one of its
// workspaces. The setting `workspace_id` of the credential names it; only Check
// works without where the platform has several.
//
// How calls end: Refused with access_denied when the platform does not take the
// credential (or its plan has ended: cause plan_inactive), with
// capability_not_supported for what the platform cannot do, with invalid_request
// when the connection's settings make no sense. Each call is one request of the
// platform's as its budgets count them.
type SendingPlatform interface {
	// Check asks whether the platform takes the credential, and what that
	// reaches.
	Check(ctx context.Context) (integration.Reach, error)
	// Account finds the account with exactly this address, whatever the case
	// of its letters; the zero Account when there is none.
	Account(ctx context.Context, address string) (integration.Account, error)
	// Accounts lists all accounts, a page at a time: the first for an empty
	// cursor, then the one that Next of the page before names.
	Accounts(ctx context.Context, cursor string) (integration.Page, error)
	// StartSignIn begins a session in which a person signs this mailbox in
	// with Microsoft. Nothing is attached until somebody has. It may be
	// repeated: that is one more session.
	StartSignIn(ctx context.Context, address string) (integration.SignIn, error)
	// SignIn tells how a session stands. One that the platform does not know
	// (any more) is expired.
	SignIn(ctx context.Context, session string) (integration.Progress, error)
	// Remove takes an account, named by its id, out of the platform. One that
	// is not there is removed already.
	Remove(ctx context.Context, account string) error
}

// SendingPlatforms are the sending platforms that there are plugins for.
type SendingPlatforms interface {
	// Platforms lists them, by id.
	Platforms(ctx context.Context) ([]integration.Provider, error)
	// Read makes a credential of the one text that callers give: a JSON object
	// of the provider's account fields, or the field `api_key` alone. Its
	// errors quote nothing of the text. Refusals: unknown_provider,
	// invalid_request.
	Read(ctx context.Context, provider string, text secret.Text) (secret.Credential, error)
	// Capabilities is what an integration can do whose credential has these
	// fields. Nobody is called. A provider without a plugin can do nothing.
	Capabilities(ctx context.Context, provider string, given []string) integration.Capabilities
	// For is a platform as a credential reaches it. Nothing is called yet; a
	// provider without a plugin refuses every call as Down.
	For(provider string, credential secret.Credential) SendingPlatform
}
