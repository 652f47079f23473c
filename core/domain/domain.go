// SPDX-License-Identifier: Apache-2.0

// Package domain defines custom mail domains: their names, their state, their DNS health and how
// many a tenant may have.
//
// Domain in domain.go is the main type; start reading there. name.go validates names. merge.go
// merges a stored domain with an observation of it. health.go says when the DNS of a domain is read
// again, and detects drift: records that were correct in an earlier read and are no longer correct.
package domain

import (
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/tenant"
)

// MaxPerTenant is the maximum number of custom domains of a tenant.
const MaxPerTenant = 12

// RemovalRepeatWindow is the time after the beginning of a removal during which a second removal of
// the domain counts as a repetition of the first. The window is longer than the time for which a
// request can be repeated with its Idempotency-Key.
const RemovalRepeatWindow = 48 * time.Hour

// Domain is a custom domain as tenantry stores it.
type Domain struct {
	ID         string // UUIDv7
	TenantID   string // the tenant resource's id
	TenantGUID tenant.GUID
	Name       string // lower-case A-labels, no final dot
	// Added is false until the platform has confirmed that the domain was added. Until then the row
	// is only a reservation: it counts towards MaxPerTenant, and the API does not list the domain.
	Added bool
	// JustReserved is not stored. It is true when a reservation has just created the row.
	JustReserved bool
	// ReservedAt identifies a reservation. PreviousReservedAt is the ReservedAt of the reservation
	// that was renewed, zero if there was none. ports.Domains.ReserveDomain sets both fields.
	ReservedAt, PreviousReservedAt time.Time

	Default     bool
	Verified    bool
	DKIMEnabled bool // signing is enabled
	// MailReady is true if the mail server accepts the domain.
	MailReady bool
	// Verification and Service are the records that the platform specifies. Signing holds the two
	// DKIM CNAMEs once the platform has created them.
	Verification []dns.Record
	Service      []dns.Record
	Signing      dns.Signing
	// Status and Health are the results of all DNS reads. CheckedAt is the time of the last read,
	// zero if there was none.
	Status    dns.Status
	Health    Health
	CheckedAt time.Time
	CreatedAt time.Time
	// MissingSince is the time of the first discovery that did not find the domain. A discovery
	// lists the domains of a tenant at the platform. MissingSince is zero while the domain is not
	// missing. The API does not list a missing domain.
	MissingSince time.Time
	// Observed says when each part of the domain was observed at the platform. It is zero in a
	// domain that a use case has just loaded from the store. ports.Domains.ReserveDomain and
	// ChangeDomain return a domain with these times.
	Observed Observed
}

// Platform is a domain as the mail platform reports it.
type Platform struct {
	Name        string
	Verified    bool
	Default     bool
	MailEnabled bool // the platform's e-mail service is on for the domain
}

// Records holds the DNS records that the platform specifies.
type Records struct {
	Verification []dns.Record
	Service      []dns.Record
}

// The states of a domain's DKIM signing.
const (
	DKIMPending = "pending" // the domain is not verified, or the records are not published yet
	DKIMReady   = "ready"   // both records are published, so signing can be enabled
	DKIMEnabled = "enabled" // the platform signs
)

// DKIMStatus returns the state of the domain's DKIM signing. The arguments are the published states
// of the two DKIM selectors.
func (d Domain) DKIMStatus(selector1, selector2 dns.SelectorState) string {
	switch {
	case d.DKIMEnabled:
		return DKIMEnabled
	case d.Verified && selector1 == dns.SelectorPropagated && selector2 == dns.SelectorPropagated:
		return DKIMReady
	default:
		return DKIMPending
	}
}

// DKIMMessage returns a sentence that explains a status that DKIMStatus returned.
func (d Domain) DKIMMessage(status string) string {
	switch {
	case status == DKIMEnabled:
		return "the mail platform signs this domain's mail"
	case status == DKIMReady:
		return "both CNAME records are published; enable DKIM now"
	case !d.Verified:
		return "verify the domain first; the mail platform makes the DKIM records after that"
	case d.Signing.Selector1.Name == "":
		return "the mail platform has not made the DKIM records yet"
	default:
		return "publish both DKIM CNAME records and wait until they are visible"
	}
}
