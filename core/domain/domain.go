// SPDX-License-Identifier: Apache-2.0

// Package domain holds custom mail domains: their names, their state, their DNS health and how many
// a tenant may have.
//
// Domain in domain.go is the main type; start reading there. name.go validates names, discovery.go
// merges the platform's list, change.go merges concurrent changes, dkim.go derives the DKIM status,
// and health.go detects drift.
package domain

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/tenant"
)

// MaxPerTenant is how many custom domains a tenant may hold.
const MaxPerTenant = 12

// Domain is a custom domain as tenantry stores it.
type Domain struct {
	ID         string // UUIDv7
	TenantID   string // the tenant resource's id
	TenantGUID tenant.GUID
	Name       string // lower-case A-labels, no final dot
	// Added is false while the platform's answer to our adding it is still
	// outstanding: the row holds its place under the cap and is not listed.
	Added bool
	// Fresh is not stored: a reservation sets it when it took the place just
	// now, and not when it found the row of an earlier attempt.
	Fresh    bool
	Default  bool
	Verified bool
	DKIM     bool // signing is enabled
	// MailReady is true once the mail server accepts the domain.
	MailReady bool
	// Verification and Service are the records the platform asks for;
	// Signing holds the two DKIM CNAMEs once the platform has made them.
	Verification []dns.Record
	Service      []dns.Record
	Signing      dns.Signing
	// Status is the last DNS read, CheckedAt its time (zero: never), Health what
	// all reads came to.
	Status    dns.Status
	Health    Health
	CheckedAt time.Time
	CreatedAt time.Time
}

// Platform is a domain as the mail platform holds it.
type Platform struct {
	Name        string
	Verified    bool
	Default     bool
	MailEnabled bool // the platform's e-mail service is on for the domain
}

// Records are the DNS records that the platform asks for.
type Records struct {
	Verification []dns.Record
	Service      []dns.Record
}
