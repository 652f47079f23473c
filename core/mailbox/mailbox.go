// SPDX-License-Identifier: Apache-2.0

// Package mailbox holds shared mailboxes: the rules for their addresses and
// passwords, how many a domain may hold, and the usage arithmetic.
package mailbox

import (
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// MaxPerDomain is how many mailboxes a domain may hold.
const MaxPerDomain = 3

// Stage is how far a mailbox's creation has come.
type Stage string

const (
	// Reserved: a place is taken, nothing was asked of the platform yet. A
	// mailbox found at the platform in this stage is not our making.
	Reserved Stage = "reserved"
	// Creating: we asked the platform, or are about to; whatever carries the
	// address there now is ours to complete.
	Creating Stage = "creating"
	// Created: it exists; password and sign-in are still outstanding, or the
	// request that set them has not come to an answer.
	Created Stage = "created"
	// Ready: nothing of its creation is outstanding.
	Ready Stage = "ready"
)

// Listed reports whether a mailbox in this stage is shown to callers.
func (s Stage) Listed() bool { return s == Created || s == Ready }

// Mailbox is a shared mailbox as tenantry stores it.
type Mailbox struct {
	ID         string // UUIDv7
	TenantGUID tenant.GUID
	DomainID   string
	Stage      Stage
	// Fresh is not stored: a reservation sets it when it took the place just
	// now, and not when it found the row of an earlier attempt.
	Fresh bool
	// Provisioned is true when we made it, false when discovery found it.
	Provisioned    bool
	ObjectID       string // the platform's id of the account behind it
	DisplayName    string
	Address        string // lower case
	PrincipalName  string
	Alias          string
	AccountEnabled bool
	// DailySendLimit is the stored limit; 0 means none.
	DailySendLimit int
	SendsToday     int
	SendsTodayAt   time.Time // zero until the first count
	BlockedAt      time.Time // zero: not blocked
	CreatedAt      time.Time
	DomainName     string
	TenantName     string
}

// Spec is one mailbox that a caller asks for.
type Spec struct {
	DisplayName string
	Address     string
}

// Platform is a mailbox as the mail platform holds it.
type Platform struct {
	ObjectID       string
	DisplayName    string
	Address        string
	PrincipalName  string
	Alias          string
	AccountEnabled bool
	CreatedAt      time.Time
}
