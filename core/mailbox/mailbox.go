// SPDX-License-Identifier: Apache-2.0

// Package mailbox defines the rules for shared mailboxes: addresses, names, passwords, the number
// per domain, and usage.
//
// Mailbox in mailbox.go is the main type; start reading there. validate.go checks the addresses,
// names and passwords of requests. provision.go decides what provisioning does for a mailbox.
// merge.go merges a stored mailbox with an observation of it.
package mailbox

import (
	"math"
	"time"

	"github.com/tenantry/tenantry/core/tenant"
)

// Retention is how long the mail platform can restore a removed mailbox.
const Retention = 30 * 24 * time.Hour

// MaxPerDomain is the maximum number of mailboxes of a domain.
const MaxPerDomain = 3

// Stage is the progress of a mailbox's creation.
type Stage string

const (
	// Reserved means that tenantry has not asked the platform to create the mailbox. A mailbox that
	// was ready also gets this stage if a request reserves it again (see ReservedAgain), or if its
	// row stays after its removal (see AfterRemoval). The row counts towards the domain's limit
	// unless the mailbox is missing. If the platform already has a mailbox with the address, this
	// mailbox is foreign, unless Provisioned is true.
	Reserved Stage = "reserved"
	// Creating means that tenantry has asked the platform to create the mailbox, or is about to
	// ask. If the platform now has a mailbox with the address, that mailbox is managed by tenantry,
	// and its creation must be completed.
	Creating Stage = "creating"
	// Created means that the mailbox exists, possibly still without its password and its sign-in. A
	// mailbox also stays Created if a different mailbox of its request is not complete.
	Created Stage = "created"
	// Ready means that the creation is complete, or that tenantry did not create the mailbox.
	Ready Stage = "ready"
)

// IsListed reports whether the API shows a mailbox in this stage.
func (s Stage) IsListed() bool { return s == Created || s == Ready }

// Mailbox is a shared mailbox as tenantry stores it.
type Mailbox struct {
	ID         string // UUIDv7
	TenantGUID tenant.GUID
	DomainID   string
	Stage      Stage
	// JustReserved is not stored. It is true when a reservation has just created the row, false
	// when the row existed.
	JustReserved bool
	// ReservedAt is the time of the last reservation, and identifies this reservation. If a
	// discovery added the row and no request has reserved it since, ReservedAt is the time at which
	// the discovery began. The store sets ReservedAt.
	ReservedAt time.Time
	// Provisioned is true when tenantry created the mailbox.
	Provisioned    bool
	ObjectID       string // the platform's id of the mailbox's account
	DisplayName    string
	Address        string // lower case
	PrincipalName  string // the name with which the mailbox signs in
	Alias          string
	AccountEnabled bool
	// DailySendLimit is the mailbox's own limit, 0 for none.
	DailySendLimit int
	SendsToday     int
	SendsTodayAt   time.Time // zero until the first count
	BlockedAt      time.Time // zero if not blocked
	CreatedAt      time.Time
	DomainName     string
	TenantName     string
	// MissingSince is the time of the first discovery that did not find the mailbox, zero if the
	// mailbox is not missing. A discovery lists the mailboxes of a tenant at the platform. The API
	// does not list a missing mailbox.
	MissingSince time.Time
	// Observed says when each part of the mailbox was observed at the platform. It is zero in a
	// mailbox that a use case has just loaded from the store, except in a missing mailbox that was
	// reserved again.
	Observed Observed
}

// Spec is one mailbox that a caller requests.
type Spec struct {
	DisplayName string
	Address     string
}

// Platform is a mailbox as the mail platform reports it.
type Platform struct {
	ObjectID       string
	DisplayName    string
	Address        string
	PrincipalName  string
	Alias          string
	AccountEnabled bool
	CreatedAt      time.Time
}

// Usage is the use of a mailbox's daily limit.
type Usage struct {
	Mailbox Mailbox
	// Limit is the effective daily limit, 0 for none. Remaining and Percent are valid only if there
	// is a limit.
	Limit     int
	Remaining int
	Percent   float64 // one decimal
	Blocked   bool
}

// UsageUnder returns how much of the effective limit a mailbox has used. A limit of 0 means none.
func UsageUnder(m Mailbox, limit int) Usage {
	u := Usage{Mailbox: m, Limit: limit, Blocked: !m.BlockedAt.IsZero()}
	if limit > 0 {
		u.Remaining = max(0, limit-m.SendsToday)
		u.Percent = math.Round(float64(m.SendsToday)/float64(limit)*1000) / 10
	}
	return u
}
