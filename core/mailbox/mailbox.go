// SPDX-License-Identifier: Apache-2.0

// Package mailbox holds the rules for shared mailboxes: addresses, names, passwords, the number per
// domain, and usage.
//
// Mailbox in mailbox.go is the main type. address.go, name.go and password.go validate requests,
// admit.go decides what provisioning does, alias.go names new mailboxes, seen.go merges the
// platform's state, and usage.go computes usage. Start reading at mailbox.go.
package mailbox

import (
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// MaxPerDomain is the maximum number of mailboxes of a domain.
const MaxPerDomain = 3

// Stage is the progress of a mailbox's creation.
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

// Listed reports whether the API shows a mailbox in this stage.
func (s Stage) Listed() bool { return s == Created || s == Ready }

// Mailbox is a shared mailbox as tenantry stores it.
type Mailbox struct {
	ID         string // UUIDv7
	TenantGUID tenant.GUID
	DomainID   string
	Stage      Stage
	// Fresh is not stored. It is true when a reservation has just created the row, false when the
	// row existed.
	Fresh bool
	// Provisioned is true when tenantry created the mailbox, false when discovery found it.
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
