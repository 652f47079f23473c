// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/page"
)

// Keys authenticates callers.
type Keys interface {
	// Caller returns the owner and the bounds of the key whose current or replaced secret has this
	// hash. It fails with invalid_api_key. For a revoked key it returns both the caller and this
	// error. It does not check the bounds or SecretUntil.
	Caller(ctx context.Context, hash [32]byte) (access.Caller, error)
	// Account returns the current state of an account, for a browser session. It fails with
	// account_not_found.
	Account(ctx context.Context, id access.AccountID) (access.Account, error)
	// Member reports whether the address is a member of the account.
	Member(ctx context.Context, owner access.AccountID, email string) (bool, error)
	// RotateKey replaces the key oldID by newKey in one transaction. Only one of several concurrent
	// calls succeeds. The new key keeps the name and the bounds of the old key. RotateKey fails
	// with invalid_api_key if the old key is revoked or unknown.
	RotateKey(ctx context.Context, owner access.AccountID, oldID string, newKey access.Key) error
}

// AccountKeys manages the API keys of an account for its own callers. To an account, the keys of
// other accounts do not exist. Each change is one transaction with its stored answer.
type AccountKeys interface {
	// KeyPage lists the keys of the account, newest first, including revoked keys, each with its
	// last use.
	KeyPage(ctx context.Context, owner access.AccountID, q page.Query) (page.Page[access.Key], error)
	// AccountKey returns a key by its id. It fails with key_not_found.
	AccountKey(ctx context.Context, owner access.AccountID, id string) (access.Key, error)
	// IssueKey stores a new key with its bounds and its creator. It fails with account_closed.
	IssueKey(ctx context.Context, k access.Key, storedAnswer *StoredAnswer) error
	// RenewKeySecret gives a key the hash, the form and the hint of newKey. The replaced secret is
	// accepted until oldUntil, or not at all if oldUntil is not after newKey.CreatedAt. Secrets
	// that were replaced earlier expire at that time at the latest. RenewKeySecret fails with
	// key_revoked if the key is revoked or unknown.
	RenewKeySecret(ctx context.Context, owner access.AccountID, id string, newKey access.Key, oldUntil time.Time, storedAnswer *StoredAnswer) error
	// RevokeOwnKey revokes a key with all its secrets. It fails with key_revoked if the key is
	// already revoked, or unknown.
	RevokeOwnKey(ctx context.Context, owner access.AccountID, id string, now time.Time, storedAnswer *StoredAnswer) error
}

// KeyUses stores when API keys were last used.
type KeyUses interface {
	// SaveKeyUses stores the last uses of keys. lastUsed is keyed by the key's id. SaveKeyUses
	// never replaces a later time by an earlier time, so several processes can store the uses of
	// one key.
	SaveKeyUses(ctx context.Context, lastUsed map[string]time.Time) error
}
