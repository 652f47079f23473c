// SPDX-License-Identifier: Apache-2.0

// Package fake is every provider port in memory. It keeps the promises of the
// ports, which the suites of ports/contract prove, and can be told to be slow,
// to fail and to hold a call: it carries the fast tests of the use cases.
package fake

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Platform is a mail platform. Its clock stands still but for Advance, and it
// looks records up in its own DNS.
type Platform struct {
	Script

	// DNS is the world's DNS, which the platform and a DNSReader see.
	DNS *DNS

	mu      sync.Mutex
	now     time.Time
	tenants map[tenant.GUID]*state
	codes   map[string]*signedIn
	taken   map[string]bool // domains of tenants that are none of ours
	serial  int
}

var _ ports.MailPlatform = (*Platform)(nil)

// New makes a platform without tenants.
func New() *Platform {
	start := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	return &Platform{
		DNS:     &DNS{now: start},
		now:     start,
		tenants: map[tenant.GUID]*state{},
		codes:   map[string]*signedIn{},
		taken:   map[string]bool{},
	}
}

// Setup is what a tenant is like before we come.
type Setup struct {
	Name string
	// Dehydrated makes the first bootstrap step leave work that takes a
	// minute; Denied keeps us from taking the mail server's role.
	Dehydrated, Denied bool
	// SMTPAuthRefused keeps organization-wide SMTP AUTH off for good.
	SMTPAuthRefused bool
	// TakenAtAdd makes AddDomain, not VerifyDomain, refuse a domain that
	// another tenant has verified.
	TakenAtAdd bool
	// TracePage is how many rows a page of the trace has, 2 or more.
	TracePage int
	// Licenses are those for e-mail; one that is paid without them.
	Licenses tenant.Licenses
	Lag      Lag
}

// Lag is how long the platform takes for what it does in its own time.
type Lag struct {
	// AcceptedDomain lies between EnableMail and the mail server accepting
	// the domain; Role between taking the role and its working; Directory
	// and Submission between CreateMailbox and the two steps after it.
	AcceptedDomain, Role, Directory, Submission time.Duration
	// AcceptedLooks is how many calls of MailDomains do not show a domain
	// that is accepted by the clock: a lag for callers with real clocks.
	AcceptedLooks int
	// Rule lies between a change of a rule and mail meeting it, Trace between
	// a message and its rows.
	Rule, Trace time.Duration
}

// state is one tenant at the platform.
type state struct {
	Setup
	guid      tenant.GUID
	builtin   string
	people    map[string]role
	consent   string // none, granted or revoked
	role      bool
	roleAt    time.Time
	hydrateAt time.Time // zero: not begun
	smtpAuth  tenant.SMTPAuth
	domains   map[string]*domainState
	mailboxes map[string]*mailboxState
	occupied  map[string]bool // addresses of other objects
	users     int
	rules     map[string]*ruleState // by name
	stopped   map[string]bool       // senders whose mail our rules stop
	turns     []Turn
	trace     []traced
}

// AddTenant makes a tenant that nobody has connected yet.
func (p *Platform) AddTenant(id tenant.GUID, s Setup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	prefix := "t" + strings.ReplaceAll(string(id), "-", "")[:8]
	builtin := prefix + ".onmicrosoft.com"
	if s.Name == "" {
		s.Name = "Tenant " + prefix
	}
	if s.TracePage < 2 {
		s.TracePage = tracePage
	}
	if s.Licenses == (tenant.Licenses{}) {
		s.Licenses.Paid = 1
	}
	p.tenants[id] = &state{
		Setup: s, guid: id, builtin: builtin, consent: "none", smtpAuth: tenant.SMTPAuthDisabled,
		people: map[string]role{
			"admin@" + builtin: administrator, "member@" + builtin: member, "guest@" + builtin: guest,
		},
		domains: map[string]*domainState{}, mailboxes: map[string]*mailboxState{}, occupied: map[string]bool{},
		users: 1, rules: map[string]*ruleState{},
	}
}

// Connect makes a tenant that is connected and ready: consent given, mail
// server prepared, SMTP AUTH on unless refused.
func (p *Platform) Connect(id tenant.GUID, s Setup) {
	p.AddTenant(id, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	t.consent, t.role, t.roleAt = "granted", true, p.now
	t.hydrateAt = p.now
	if !s.SMTPAuthRefused {
		t.smtpAuth = tenant.SMTPAuthEnabled
	}
}

// SetLag changes how long the tenant's own work takes from now on.
func (p *Platform) SetLag(id tenant.GUID, l Lag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenants[id].Lag = l
}

// Advance moves the platform's clock.
func (p *Platform) Advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
	p.DNS.advance(d)
}

// Now is the platform's clock.
func (p *Platform) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// TakeDomain makes a domain belong to a tenant elsewhere.
func (p *Platform) TakeDomain(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken[name] = true
}

// Occupy gives an address of a tenant to something that is no mailbox.
func (p *Platform) Occupy(id tenant.GUID, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenants[id].occupied[strings.ToLower(address)] = true
}

// Revoke withdraws a tenant's consent ("consent") or the grant for its mail
// server ("exchange_role").
func (p *Platform) Revoke(id tenant.GUID, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if what == "consent" {
		p.tenants[id].consent = "revoked"
		return
	}
	p.tenants[id].role = false
}

// Holding is what the platform holds of a tenant, whatever we stored.
type Holding struct {
	Consent   string
	Domains   []HeldDomain
	Mailboxes []HeldMailbox
	Rules     []sendlimit.Rule
}

// HeldDomain is a domain at the platform.
type HeldDomain struct {
	domain.Platform
	Signed bool
}

// HeldMailbox is a mailbox at the platform.
type HeldMailbox struct {
	mailbox.Platform
	PasswordSet, Submission bool
}

// Holds tells what the platform holds of a tenant, by name and address.
func (p *Platform) Holds(id tenant.GUID) Holding {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	h := Holding{Consent: t.consent}
	for _, name := range slices.Sorted(maps.Keys(t.domains)) {
		d := t.domains[name]
		h.Domains = append(h.Domains, HeldDomain{d.Platform, d.signing.Enabled})
	}
	for _, address := range slices.Sorted(maps.Keys(t.mailboxes)) {
		m := t.mailboxes[address]
		h.Mailboxes = append(h.Mailboxes, HeldMailbox{m.Platform, m.password, m.submission})
	}
	for _, name := range slices.Sorted(maps.Keys(t.rules)) {
		h.Rules = append(h.Rules, t.rules[name].told(false, false))
	}
	return h
}
