// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Accounts manages accounts for the operator. Components that serve callers' requests have no
// access to it. Every change is recorded in the audit log, as described at Audit.
type Accounts interface {
	// CreateAccount creates an account with one member, who has the e-mail address. If slots is 0,
	// the account gets the plan's number of tenant slots. CreateAccount fails with invalid_request
	// for an unknown plan, or if an account already has a member with the address.
	CreateAccount(ctx context.Context, email, plan string, slots int, now time.Time) (access.Account, error)
	// Accounts lists all accounts, including closed ones, oldest first.
	Accounts(ctx context.Context) ([]access.Account, error)
	// FindAccount returns an account by its id or by a member's e-mail address. If only closed
	// accounts had the address, it returns the account that was closed last. It fails with
	// account_not_found.
	FindAccount(ctx context.Context, idOrEmail string) (access.Account, error)
	// ChangePlan sets the account's plan and its number of tenant slots. An empty plan leaves the
	// plan unchanged. If slots is 0, the account gets the plan's number. ChangePlan fails with
	// account_not_found, account_closed, or invalid_request for an unknown plan.
	ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error)
	// SetActive activates or suspends the account. A call that changes nothing is not recorded.
	// SetActive fails with account_not_found or account_closed.
	SetActive(ctx context.Context, id access.AccountID, active bool) (access.Account, error)
	// ChangeSettings calls change with the current settings, and stores and returns the result of
	// change. All this is one transaction, which may call change more than once. A call that
	// changes nothing is not recorded. ChangeSettings fails with account_not_found or
	// account_closed, or with the error of change.
	ChangeSettings(ctx context.Context, id access.AccountID, change func(access.Settings) (access.Settings, error)) (access.Settings, error)
	// CloseAccount closes the account permanently. It revokes the keys, releases the tenants, and
	// deletes other objects such as webhooks, DNS connections and integrations. It keeps the
	// account's row, but a new account can have the e-mail address. rulesLeft names the managed
	// rules that remain in the account's tenants, for the audit record. After these changes,
	// CloseAccount deletes the enforcement log and the event log in several transactions. If a call
	// is interrupted, a second call deletes the rest of the logs and returns the time of the first
	// call. CloseAccount fails with account_not_found. If it fails to delete the logs, it returns
	// the error and the Closing of the closed account. With any other error, the Closing is zero.
	CloseAccount(ctx context.Context, id access.AccountID, now time.Time, rulesLeft ...string) (Closing, error)
}

// Closing is the result of closing an account. If an earlier call closed the account, the numbers
// are 0.
type Closing struct {
	At                           time.Time // when the account was closed
	KeysRevoked, TenantsReleased int
	DNSConnectionsRemoved        int
	IntegrationsRemoved          int
}

// IssuedKeys manages API keys for the operator. Every change is recorded as described at Audit.
type IssuedKeys interface {
	// AddKey stores a new key with its bounds, and the operator as its creator. It fails with
	// account_not_found or account_closed.
	AddKey(ctx context.Context, k access.Key) error
	// IssuedKeys lists the keys of an account, or of all accounts if owner is empty: oldest first,
	// including revoked keys, each with its last use.
	IssuedKeys(ctx context.Context, owner access.AccountID) ([]access.Key, error)
	// IssuedKey returns a key by its id. It fails with key_not_found.
	IssuedKey(ctx context.Context, id string) (access.Key, error)
	// ReplaceKey replaces a key for the operator. The new key keeps the account, the name and the
	// bounds of the old key. ReplaceKey fails with key_not_found or key_revoked.
	ReplaceKey(ctx context.Context, oldID string, newKey access.Key) (access.Key, error)
	// RevokeKey revokes a key. A second call changes nothing and returns the key with the time of
	// the first call. RevokeKey fails with key_not_found.
	RevokeKey(ctx context.Context, id string, now time.Time) (access.Key, error)
}
