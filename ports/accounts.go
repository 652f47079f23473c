// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Accounts is the operator's view of accounts. Nothing that serves requests of
// callers is given it. Every change is recorded as ports.Audit says.
type Accounts interface {
	// CreateAccount makes an account whose first member is the e-mail
	// address. slots 0 takes the plan's. Refusals: invalid_request for an
	// unknown plan or an address that has an account which is not closed.
	CreateAccount(ctx context.Context, email, plan string, slots int, now time.Time) (access.Account, error)
	// Accounts lists all accounts, closed ones too, oldest first.
	Accounts(ctx context.Context) ([]access.Account, error)
	// FindAccount finds an account by id or by a member's e-mail address; by
	// an address that only closed accounts had, the one closed last. Refusal:
	// account_not_found.
	FindAccount(ctx context.Context, idOrEmail string) (access.Account, error)
	// ChangePlan gives the account a plan (empty: the one it has) and the
	// number of slots beside it; 0 takes the plan's, whatever the account had
	// of its own before. Refusals: account_not_found, account_closed,
	// invalid_request for an unknown plan.
	ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error)
	// SetActive suspends the account or lets it go on. What is so already is
	// no act. Refusals: account_not_found, account_closed.
	SetActive(ctx context.Context, id access.AccountID, active bool) (access.Account, error)
	// CloseAccount ends the account for good: its keys are revoked, its
	// tenants free to be connected elsewhere, its DNS connections and its
	// integrations removed with their credentials, its e-mail address free for a
	// new account. The log of enforcement goes too, a day at a time. The account
	// itself stays, to be looked at, and the record names the rules of ours that
	// are left in its tenants. Closing again drops what is left of the log,
	// changes nothing else and returns the first time. Refusal:
	// account_not_found.
	CloseAccount(ctx context.Context, id access.AccountID, now time.Time, rulesLeft ...string) (Closing, error)
}

// Closing is what the closing of an account did.
type Closing struct {
	At                           time.Time
	KeysRevoked, TenantsReleased int
	DNSConnectionsRemoved        int
	IntegrationsRemoved          int
}

// IssuedKeys is the operator's view of API keys. Every change is recorded as
// ports.Audit says.
type IssuedKeys interface {
	// AddKey stores a new key of an account. Refusals: account_not_found,
	// account_closed.
	AddKey(ctx context.Context, k access.Key) error
	// IssuedKeys lists the keys of one account, or of all when owner is
	// empty: oldest first, revoked ones too.
	IssuedKeys(ctx context.Context, owner access.AccountID) ([]access.Key, error)
	// IssuedKey finds a key by its id. Refusal: key_not_found.
	IssuedKey(ctx context.Context, id string) (access.Key, error)
	// ReplaceKey is RotateKey on the operator's behalf. The new key goes to
	// the account of the old one and keeps its name. Refusals: key_not_found,
	// key_revoked.
	ReplaceKey(ctx context.Context, oldID string, fresh access.Key) (access.Key, error)
	// RevokeKey ends a key. Revoking again changes nothing and returns the
	// key with its first time. Refusal: key_not_found.
	RevokeKey(ctx context.Context, id string, now time.Time) (access.Key, error)
}
