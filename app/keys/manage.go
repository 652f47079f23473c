// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// KeyRequest is the input of Create. The key gets no limit for Tenants, Networks or ExpiresAt if
// the field is nil.
type KeyRequest struct {
	Name                      string
	Scopes, Tenants, Networks []string
	ExpiresAt                 *time.Time
}

// IssuedKey is a key whose secret was just created. The row of the key has only a hash and the last
// characters of Secret. The encrypted answer that is stored for replays contains Secret for 24
// hours.
type IssuedKey struct {
	access.Key

	Secret secret.Text
}

// List returns a page of the account's keys, newest first. If the caller's key is limited to some
// tenants, the page omits keys for other tenants, so it can have fewer keys than q.Limit.
func (s *Service) List(ctx context.Context, caller access.Caller, q page.Query) (page.Page[access.Key], error) {
	keys, err := s.AccountKeys.KeyPage(ctx, caller.Account.ID, q)
	if err != nil {
		return keys, fmt.Errorf("list keys: %w", err)
	}
	keys.Entries = slices.DeleteFunc(keys.Entries, func(k access.Key) bool {
		return access.Bounds{Tenants: caller.Bounds.Tenants}.CheckCovers(access.Bounds{Tenants: k.Bounds.Tenants}, access.KeysRead) != nil
	})
	for i, k := range keys.Entries {
		keys.Entries[i] = s.withLastUse(k)
	}
	return keys, nil
}

// Create adds a key to the caller's account. It fails with invalid_request for invalid bounds, with
// insufficient_scope if the new key would allow more than the caller's key, or with account_closed.
func (s *Service) Create(ctx context.Context, caller access.Caller, wanted KeyRequest, encoder ports.AnswerEncoder[IssuedKey]) (IssuedKey, error) {
	now := s.now()
	bounds, err := access.NewBounds(wanted.Scopes, wanted.Tenants, wanted.Networks, wanted.ExpiresAt, now)
	if err != nil {
		return IssuedKey{}, err
	}
	if err := caller.Bounds.CheckCovers(bounds, access.KeysWrite); err != nil {
		return IssuedKey{}, err
	}
	key, text, err := access.NewKey(s.Random, s.Prefix, access.Live, caller.Account.ID, wanted.Name, now)
	if err != nil {
		return IssuedKey{}, fmt.Errorf("create key: %w", err)
	}
	key.Bounds, key.CreatedBy = bounds, caller.KeyID
	created := IssuedKey{key, text}
	storedAnswer, err := encoder.Encode(created)
	if err != nil {
		return IssuedKey{}, err
	}
	if err := s.AccountKeys.IssueKey(ctx, key, storedAnswer); err != nil {
		return IssuedKey{}, fmt.Errorf("create key: %w", err)
	}
	return created, nil
}

// RenewSecret replaces the secret of a key of the account. The old secret keeps working for the
// duration overlap. RenewSecret fails with key_not_found or key_revoked, and with
// insufficient_scope if the key allows more than the caller's key.
func (s *Service) RenewSecret(ctx context.Context, caller access.Caller, id string, overlap time.Duration, encoder ports.AnswerEncoder[IssuedKey]) (IssuedKey, error) {
	key, err := s.changeableKey(ctx, caller, id)
	if err != nil {
		return IssuedKey{}, err
	}
	if key.Status() == access.StatusRevoked {
		return IssuedKey{}, access.RevokedError()
	}
	now := s.now()
	newKey, text, err := access.NewKey(s.Random, s.Prefix, access.Live, caller.Account.ID, key.Name, now)
	if err != nil {
		return IssuedKey{}, fmt.Errorf("renew secret of key: %w", err)
	}
	key.Hash, key.Form, key.Hint = newKey.Hash, newKey.Form, newKey.Hint
	renewed := IssuedKey{key, text}
	storedAnswer, err := encoder.Encode(renewed)
	if err != nil {
		return IssuedKey{}, err
	}
	if err := s.AccountKeys.RenewKeySecret(ctx, caller.Account.ID, key.ID, newKey, now.Add(overlap), storedAnswer); err != nil {
		return IssuedKey{}, fmt.Errorf("renew secret of key: %w", err)
	}
	return renewed, nil
}

// Revoke revokes a key of the account with all its secrets. A revoked key keeps the time of its
// first revocation. Revoke fails with key_not_found, and with insufficient_scope if the key allows
// more than the caller's key.
func (s *Service) Revoke(ctx context.Context, caller access.Caller, id string, encoder ports.AnswerEncoder[access.Key]) (access.Key, error) {
	key, err := s.changeableKey(ctx, caller, id)
	if err != nil || key.Status() == access.StatusRevoked {
		return key, err
	}
	key.RevokedAt = s.now()
	storedAnswer, err := encoder.Encode(key)
	if err != nil {
		return access.Key{}, err
	}
	err = s.AccountKeys.RevokeOwnKey(ctx, caller.Account.ID, key.ID, key.RevokedAt, storedAnswer)
	if errors.Is(err, fault.KeyRevoked) { // a concurrent request revoked it
		return s.changeableKey(ctx, caller, id)
	}
	if err != nil {
		return access.Key{}, fmt.Errorf("revoke key: %w", err)
	}
	return key, nil
}

// changeableKey returns a key that the caller may change, and fails with key_not_found or
// insufficient_scope. The bounds of a key never change, so the permission is still valid when the
// key is changed later.
func (s *Service) changeableKey(ctx context.Context, caller access.Caller, id string) (access.Key, error) {
	key, err := s.AccountKeys.AccountKey(ctx, caller.Account.ID, id)
	if err != nil {
		return access.Key{}, err
	}
	return s.withLastUse(key), caller.Bounds.CheckCovers(key.Bounds, access.KeysWrite)
}

// withLastUse returns the key with its last use, which this process may not have stored yet.
func (s *Service) withLastUse(k access.Key) access.Key {
	if s.Uses != nil {
		k.LastUsedAt = s.Uses.lastUse(k.ID, k.LastUsedAt)
	}
	return k
}

// now returns the time in the precision of the store.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }
