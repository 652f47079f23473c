// SPDX-License-Identifier: Apache-2.0

// Package keys authenticates API keys, and lets callers manage the keys of their account.
//
// The format and the bounds of keys are defined in core/access. Start reading at
// Service.Authenticate.
//
//   - keys.go: Authenticate, which returns the caller of a request, and Rotate, which replaces the
//     caller's key
//   - manage.go: List, Create, RenewSecret and Revoke, for the keys of the account
//   - overview.go: Profile.Overview, an account's number of tenants and the available providers
//   - uses.go: Uses, which collects when keys were last used
package keys

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// Service authenticates callers and manages the keys of their accounts.
type Service struct {
	Keys        ports.Keys
	AccountKeys ports.AccountKeys
	Prefix      string // prefix of API keys, "tny" unless configured
	Random      io.Reader
	Now         func() time.Time
	Uses        *Uses // optional
}

// RotatedKey is the result of Rotate. The store keeps only a hash of Secret.
type RotatedKey struct {
	Secret    secret.Text
	Hint      string
	RotatedAt time.Time
}

// Authenticate returns the caller that the Authorization headers of a request identify. from is the
// address of the request. Authenticate fails with invalid_auth_header, missing_api_key or
// invalid_api_key. If it rejects a stored key, for example a revoked or expired one, it returns the
// caller together with the error, so that the audit can name the account.
func (s *Service) Authenticate(ctx context.Context, headers []string, from netip.Addr) (access.Caller, error) {
	token, err := access.BearerToken(headers)
	if err != nil {
		return access.Caller{}, err
	}
	key := secret.New(token)
	if _, err := access.ParseKey(s.Prefix, key); err != nil {
		return access.Caller{}, err
	}
	caller, err := s.Keys.Caller(ctx, access.HashKey(key))
	if errors.Is(err, fault.InvalidAPIKey) {
		return caller, access.UnknownKey()
	}
	if err != nil {
		return access.Caller{}, fmt.Errorf("authenticate: %w", err)
	}
	now := s.Now()
	if !caller.SecretUntil.IsZero() && !now.Before(caller.SecretUntil) {
		return caller, access.UnknownKey()
	}
	if err := caller.Bounds.CheckUse(from, now); err != nil {
		return caller, err
	}
	if s.Uses != nil {
		s.Uses.record(caller.KeyID, now)
	}
	return caller, nil
}

// Rotate replaces the caller's key and returns the new key. It fails with access_denied unless
// email is the address of a member of the caller's account. It fails with invalid_api_key when the
// key was revoked or rotated after Authenticate accepted it.
func (s *Service) Rotate(ctx context.Context, caller access.Caller, email string) (RotatedKey, error) {
	member, err := s.Keys.Member(ctx, caller.Account.ID, email)
	if err != nil {
		return RotatedKey{}, fmt.Errorf("rotate key: %w", err)
	}
	if !member {
		return RotatedKey{}, fault.AccessDenied.With("the e-mail address does not belong to a member of the key's account")
	}
	now := s.now()
	// The store copies the name and the bounds of the old key.
	newKey, text, err := access.NewKey(s.Random, s.Prefix, access.Live, caller.Account.ID, "", now)
	if err != nil {
		return RotatedKey{}, fmt.Errorf("rotate key: %w", err)
	}
	if err := s.Keys.RotateKey(ctx, caller.Account.ID, caller.KeyID, newKey); err != nil {
		return RotatedKey{}, fmt.Errorf("rotate key: %w", err)
	}
	return RotatedKey{Secret: text, Hint: newKey.Hint, RotatedAt: now}, nil
}
