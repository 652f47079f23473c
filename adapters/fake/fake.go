// SPDX-License-Identifier: Apache-2.0

// Package fake implements the provider ports in memory, for fast tests of the use cases. Tests run
// the contract suites (package ports/contract) on the fakes.
//
// Start with Platform, the mail platform: New creates it and AddTenant or Connect adds tenants.
// Platform and SendingPlatform embed Script: Fail makes calls fail, and Hold makes them wait before
// they return.
//
//   - fake.go: Platform, its tenants, its clock, and SnapshotOf, which returns the objects of a
//     tenant.
//   - consent.go, directory.go, mailserver.go, mailboxes.go, sendrules.go, sendtrace.go: the
//     methods of ports.MailPlatform and ports.MailTenant, one file for each group.
//   - faults.go: Script and Fault, the calls that fail, and Gate, the calls that wait.
//   - stepped.go: Stepper, and wrappers that run calls of a port as steps of a Stepper.
//   - crash.go: CrashingProcess, which simulates a process that crashes at one of its steps.
//   - dns.go: DNS, zones in memory, read like public DNS.
//   - dnsprovider.go: DNSProvider, one DNS provider account, and DNSProviders, the set of
//     providers.
//   - sendingplatform.go: SendingPlatform, one workspace of a sending platform.
//   - sendingplatforms.go: SendingPlatforms, the set of sending platforms.
//   - wakeups.go: Wakeups, a job queue that only records.
package fake

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/platform"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Facts implements ports.PlatformFacts. The fake imitates Microsoft 365.
func (p *Platform) Facts(context.Context) (platform.Facts, error) {
	return platform.Facts{
		BuiltinDomains: []string{"onmicrosoft.com"},
		Hosts: dns.PlatformHosts{
			Exchanges:    []string{".mail.protection.outlook.com", ".mx.microsoft"},
			Signers:      []string{".onmicrosoft.com", ".dkim.mail.microsoft"},
			Verification: []string{".msv1.invalid"},
		},
	}, nil
}

// Platform is a mail platform in memory. Its clock moves only by Advance. It reads DNS records from
// its own DNS.
type Platform struct {
	Script

	// DNS holds the zones that the platform reads, and implements ports.DNSReader for the service
	// under test.
	DNS *DNS

	mu           sync.Mutex
	now          time.Time
	tenants      map[tenant.GUID]*tenantState
	codes        map[string]*pendingSignIn
	takenDomains map[string]bool // domains of tenants that are not in the test
	serial       int
}

var _ ports.MailPlatform = (*Platform)(nil)

// New returns a platform without tenants. Its clock starts at 2026-11-02 09:00 UTC.
func New() *Platform {
	start := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	return &Platform{
		DNS:          &DNS{now: start},
		now:          start,
		tenants:      map[tenant.GUID]*tenantState{},
		codes:        map[string]*pendingSignIn{},
		takenDomains: map[string]bool{},
	}
}

// Setup describes a tenant that AddTenant or Connect adds.
type Setup struct {
	Name string
	// Dehydrated makes Bootstrap start work that takes one minute. Denied prevents tenantry from
	// assigning itself the mail server's role.
	Dehydrated, Denied bool
	// SMTPAuthRefused keeps organization-wide SMTP AUTH disabled: EnableSMTPAuth is refused.
	SMTPAuthRefused bool
	// TracePage is the number of rows on a page of the message trace. Values below 2 mean 1000.
	TracePage int
	// Licenses are the e-mail licences of the tenant. Zero means one paid licence and a limit of
	// 10,000 recipients.
	Licenses tenant.Licenses
	Lag      Lag
}

// Lag has the delays of the platform's asynchronous work.
type Lag struct {
	// AcceptedDomain is the time from EnableMail until the mail server accepts the domain. Role is
	// the time until an assigned role works. Directory is the time from CreateMailbox until
	// OpenSignIn and RemoveMailbox find the account. Submission is the time from CreateMailbox
	// until OpenSubmission finds the mailbox.
	AcceptedDomain, Role, Directory, Submission time.Duration
	// CallsUntilListed is the number of calls of MailDomains that omit a domain after
	// AcceptedDomain has passed. Tests that do not move the platform's clock use it as the lag.
	CallsUntilListed int
	// Rule is the time from a change of a rule until the change applies to mail. Trace is the time
	// from a message until its rows appear in the message trace.
	Rule, Trace time.Duration
}

// tenantState is the state of one tenant at the platform.
type tenantState struct {
	Setup
	guid              tenant.GUID
	builtinDomain     string
	people            map[string]userRole // by address
	consent           string              // none, granted or revoked
	hasRole           bool                // tenantry has the mail server's role
	roleWorksAt       time.Time
	hydratedAt        time.Time // the end of the preparation, zero until it begins
	smtpAuth          tenant.SMTPAuth
	domains           map[string]*domainState
	mailboxes         map[string]*mailboxState
	occupiedAddresses map[string]bool // addresses of objects that are not mailboxes
	userMailboxes     int
	rules             map[string]*ruleState // by name
	frozenRules       map[string]*ruleState // the rules that lists show after FreezeRuleList, nil before
	blockedSenders    map[string]bool       // senders that managed rules block
	blockChanges      []BlockChange
	trace             []traceRow
}

// AddTenant adds a tenant that is not connected. It has the users admin, member and guest in its
// built-in domain.
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
		s.Licenses = tenant.Licenses{Paid: 1, RecipientLimit: 10_000}
	}
	p.tenants[id] = &tenantState{
		Setup: s, guid: id, builtinDomain: builtin, consent: "none", smtpAuth: tenant.SMTPAuthDisabled,
		people: map[string]userRole{
			"admin@" + builtin: administrator, "member@" + builtin: member, "guest@" + builtin: guest,
		},
		domains: map[string]*domainState{}, mailboxes: map[string]*mailboxState{}, occupiedAddresses: map[string]bool{},
		userMailboxes: 1, rules: map[string]*ruleState{},
	}
}

// Connect adds a tenant that is connected and ready. Consent is granted and the mail server is
// prepared. SMTP AUTH is enabled if s.SMTPAuthRefused is false.
func (p *Platform) Connect(id tenant.GUID, s Setup) {
	p.AddTenant(id, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	t.consent, t.hasRole, t.roleWorksAt = "granted", true, p.now
	t.hydratedAt = p.now
	if !s.SMTPAuthRefused {
		t.smtpAuth = tenant.SMTPAuthEnabled
	}
}

// call runs one call of a port. effect runs while p.mu is held, and returns whether it changed
// anything.
func (p *Platform) call(ctx context.Context, method string, id tenant.GUID, object string, effect func() (changed bool, err error)) error {
	return p.run(ctx, method, id, object, func() (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return effect()
	})
}

// SetLag replaces the lags of a tenant for later calls.
func (p *Platform) SetLag(id tenant.GUID, l Lag) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenants[id].Lag = l
}

// Advance moves the clocks of the platform and of its DNS forward.
func (p *Platform) Advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
	p.DNS.advance(d)
}

// Now returns the platform's time.
func (p *Platform) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// TakeDomain makes a domain belong to a tenant that is not in the test.
func (p *Platform) TakeDomain(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takenDomains[name] = true
}

// Occupy makes an object that is not a mailbox use an address of a tenant.
func (p *Platform) Occupy(id tenant.GUID, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tenants[id].occupiedAddresses[strings.ToLower(address)] = true
}

// Revoke withdraws a tenant's consent if grant is "consent". Otherwise ("exchange_role") it
// withdraws the role at the tenant's mail server.
func (p *Platform) Revoke(id tenant.GUID, grant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if grant == "consent" {
		p.tenants[id].consent = "revoked"
		return
	}
	p.tenants[id].hasRole = false
}

// Snapshot has the consent, domains, mailboxes and rules of a tenant, as the platform stores them.
type Snapshot struct {
	Consent   string
	Domains   []SnapshotDomain
	Mailboxes []SnapshotMailbox
	Rules     []sendlimit.Rule
}

// SnapshotDomain is a domain at the platform. Signed is true if DKIM signing is enabled.
type SnapshotDomain struct {
	domain.Platform
	Signed bool
}

// SnapshotMailbox is a mailbox at the platform, with the effects of OpenSignIn and OpenSubmission.
type SnapshotMailbox struct {
	mailbox.Platform
	PasswordSet, SubmissionOpen bool
}

// SnapshotOf returns the snapshot of a tenant. Domains and rules are sorted by name, mailboxes by
// address.
func (p *Platform) SnapshotOf(id tenant.GUID) Snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	snapshot := Snapshot{Consent: t.consent}
	for _, name := range slices.Sorted(maps.Keys(t.domains)) {
		d := t.domains[name]
		snapshot.Domains = append(snapshot.Domains, SnapshotDomain{d.Platform, d.signing.Enabled})
	}
	for _, address := range slices.Sorted(maps.Keys(t.mailboxes)) {
		m := t.mailboxes[address]
		snapshot.Mailboxes = append(snapshot.Mailboxes, SnapshotMailbox{m.Platform, m.hasPassword, m.submissionOpen})
	}
	for _, name := range slices.Sorted(maps.Keys(t.rules)) {
		snapshot.Rules = append(snapshot.Rules, t.rules[name].answer())
	}
	return snapshot
}
