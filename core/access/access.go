// SPDX-License-Identifier: Apache-2.0

// Package access holds accounts, their plans and their API keys.
package access

import "time"

// AccountID is the UUID of an account.
type AccountID string

// Account is a customer. What it may do follows from its plan.
type Account struct {
	ID    AccountID
	Email string // of its first member
	Plan  Plan
	// Active is false once the plan lapsed or was cancelled, and while the
	// account is suspended, which is the same to callers.
	Active    bool
	CreatedAt time.Time
	// OwnSlots are the tenant slots that were given to this account alone; 0
	// when it has those of its plan.
	OwnSlots int

	// ClosedAt and TenantsHeld are filled in for operators alone. No request
	// of a caller reaches a closed account: its keys are revoked.
	ClosedAt    time.Time // zero: it is open
	TenantsHeld int
}

// Plan is what an account pays for. It is a row of its own, so that a single
// account can be given limits unlike its plan's.
type Plan struct {
	Name         string
	TenantSlots  int
	AutomaticDNS bool
}

// Caller is who stands behind an authenticated request.
type Caller struct {
	Account Account
	KeyID   string
}

// Form is the middle part of an API key.
type Form string

// The two forms of keys.
const (
	Live  Form = "live"
	Trial Form = "trial"
)

// Key is an API key as it is stored: its hash and what may be shown of it.
type Key struct {
	ID        string
	Account   AccountID
	Hash      [32]byte
	Form      Form
	Hint      string // last four characters
	Name      string
	CreatedAt time.Time
	RevokedAt time.Time // zero: it is live
}
