// SPDX-License-Identifier: Apache-2.0

// Package contract holds the suites that every adapter of a port passes: one
// promise of the port is one check.
package contract

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// World is a mail platform with its surroundings, as a suite arranges it. The
// fake is one; so is an adapter, or a plugin's binary, with its simulator.
type World interface {
	// Platform is what the suite examines.
	Platform() ports.MailPlatform
	// NewTenant makes a tenant that nobody has connected yet.
	NewTenant(t testing.TB, s Setup) Tenant
	// Visit is a person at one of the platform's pages, who signs in as
	// username and accepts or declines. It returns the raw query with which
	// the platform sends the browser back to us.
	Visit(t testing.TB, page, username string, accept bool) (query string)
	// NewZone makes a DNS zone, of two labels or more, that no other check
	// uses.
	NewZone(t testing.TB) string
	// Publish makes a zone hold exactly these records.
	Publish(t testing.TB, zone string, records ...dns.Record)
	// Advance moves the platform's clock, so that what it does in its own
	// time goes on. A world with the real clock waits for its own delays.
	Advance(t testing.TB, d time.Duration)
	// Now is the platform's clock.
	Now(t testing.TB) time.Time
	// Send is a mailbox that sends messages now.
	Send(t testing.TB, id tenant.GUID, mailbox string, count int)
	// SetRule is somebody else who makes a rule of the tenant, or changes the
	// one of this name: whether it is switched on, and whom it stops, which is
	// everybody where it lists nobody.
	SetRule(t testing.TB, id tenant.GUID, r sendlimit.Rule)
	// Rules are the rules that the platform holds, by name, and whom each
	// stops.
	Rules(t testing.TB, id tenant.GUID) map[string][]string
	// Revoke takes back what an administrator has granted.
	Revoke(t testing.TB, id tenant.GUID, what Grant)
	// Fail makes every call that a method of the port makes of the platform
	// fail until lift is called, for this tenant at least. The suites use it
	// for Domains, AddDomain, CreateMailbox, Rename, Block and Sent; of a write
	// only changing calls fail, not a look that an adapter may make besides.
	Fail(t testing.TB, id tenant.GUID, method string, how Failure) (lift func())
}

// Setup is what a tenant is like before we come.
type Setup struct {
	// Dehydrated: the mail server needs preparations that take a while.
	// Denied: we may not take the mail server's role ourselves.
	Dehydrated, Denied bool
	// SMTPAuthRefused: the platform keeps organization-wide SMTP AUTH off.
	SMTPAuthRefused bool
	// AcceptedDomainLag lies between EnableMail and the mail server taking
	// the domain, MailboxLag between a mailbox's creation and its showing
	// in the directory and at the mail server. Zero: as the world likes,
	// but within a few minutes of its clock.
	AcceptedDomainLag, MailboxLag time.Duration
	// RuleLag lies between a change of a rule and mail meeting it, TraceLag
	// between a message and its showing in the trace; neither without it.
	RuleLag, TraceLag time.Duration
	// Licenses are the tenant's for e-mail; one that is paid without them.
	Licenses tenant.Licenses
	// TracePage is how many rows a page of the trace has, as the world likes
	// without it.
	TracePage int
}

// Tenant is a tenant of a world and people in it.
type Tenant struct {
	GUID tenant.GUID
	Name string
	// Admin is a global administrator, Member has no role, Guest comes from
	// another tenant and is an administrator only there.
	Admin, Member, Guest string
}

// Grant is what an administrator can take back.
type Grant string

// The grants.
const (
	GrantConsent      Grant = "consent"
	GrantExchangeRole Grant = "exchange_role"
)

// Failure is how the platform fails.
type Failure int

// The failures: Throttles and IsDown refuse the work with 429 and 503,
// Breaks with another 5xx; LosesRequest never does it and never answers;
// LosesAnswer does it and never answers.
const (
	Throttles Failure = iota + 1
	IsDown
	Breaks
	LosesRequest
	LosesAnswer
)

// check is one promise of a port.
type check struct {
	name string
	run  func(t testing.TB, w World)
}

// MailPlatform runs the contract of ports.MailPlatform. open returns a world;
// it may be the same one each time, as checks share neither tenants nor zones.
func MailPlatform(t *testing.T, open func(testing.TB) World) {
	for _, c := range platformChecks() {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func platformChecks() []check {
	var all []check
	all = append(all, consentChecks...)
	all = append(all, directoryChecks...)
	all = append(all, mailServerChecks...)
	all = append(all, mailboxChecks...)
	all = append(all, ruleChecks...)
	all = append(all, traceChecks...)
	return append(all, outcomeChecks...)
}
