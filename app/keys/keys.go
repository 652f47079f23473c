// SPDX-License-Identifier: Apache-2.0

// Package keys authenticates API keys and rotates them.
package keys

import (
	"context"
	"io"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// Service authenticates callers and rotates their keys.
type Service struct {
	Keys   ports.Keys
	Prefix string // of API keys, "tny" unless configured
	Random io.Reader
	Now    func() time.Time
}

// Rotated is a key that replaced another. Secret is shown this once.
type Rotated struct {
	Secret secret.Text
	Hint   string
	At     time.Time
}

// Authenticate finds the caller behind the Authorization headers of a request.
// Refusals: invalid_auth_header, missing_api_key, invalid_api_key.
func (s *Service) Authenticate(ctx context.Context, headers []string) (access.Caller, error) {
	panic("unwritten")
}

// Rotate replaces the caller's key. Refusal: access_denied when the address is
// no member of the caller's account.
func (s *Service) Rotate(ctx context.Context, caller access.Caller, email string) (Rotated, error) {
	panic("unwritten")
}
