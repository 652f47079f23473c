// SPDX-License-Identifier: Apache-2.0

package access

import "github.com/tenantry/tenantry/core/fault"

// Status is how an account or a key stands, in one word.
type Status string

// An account is active, suspended or closed; a key is active or revoked. Only
// a suspended account has a way back.
const (
	StatusActive    Status = "active"
	StatusSuspended Status = "suspended"
	StatusClosed    Status = "closed"
	StatusRevoked   Status = "revoked"
)

// Status says how the account stands.
func (a Account) Status() Status {
	switch {
	case !a.ClosedAt.IsZero():
		return StatusClosed
	case !a.Active:
		return StatusSuspended
	default:
		return StatusActive
	}
}

// Open refuses to change a closed account.
func (a Account) Open() error {
	if a.Status() == StatusClosed {
		return fault.AccountClosed.With("the account is closed")
	}
	return nil
}

// Status says whether the key opens anything.
func (k Key) Status() Status {
	if k.RevokedAt.IsZero() {
		return StatusActive
	}
	return StatusRevoked
}
