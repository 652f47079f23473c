// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// CheckKind is the Kind of the wake-up that starts the check of one domain.
const CheckKind = "domain_check"

// Watch rereads the DNS of verified domains, each about once a day. It keeps the stored state
// current and detects drift (domain.Drift).
type Watch struct {
	Domains ports.Domains
	Checks  ports.DomainChecks
	DNS     ports.DNSReader
	Facts   ports.PlatformFacts
	Queue   ports.Queue
	Now     func() time.Time
	Log     *slog.Logger
	// OnCheck is called with the result of each check.
	OnCheck func(ctx context.Context, c CheckResult)
	// Disabled disables all checks.
	Disabled bool

	backoff resolverBackoff
}

// CheckResult is the result of one check, which reads the DNS of a domain.
type CheckResult string

// The results of a check.
const (
	CheckReliable   CheckResult = "reliable"
	CheckUnreliable CheckResult = "unreliable" // the read was not complete, for example because name servers disagree
	CheckSilent     CheckResult = "silent"     // no name server gave an authoritative answer
)

// CheckResults lists all values of CheckResult.
var CheckResults = []CheckResult{CheckReliable, CheckUnreliable, CheckSilent}

// Sweep returns the periodic job that schedules domain checks. Each run schedules its share of a
// day's checks, and starts with the domain whose last read is oldest.
func (w *Watch) Sweep(every time.Duration) ports.Periodic {
	return ports.Periodic{Kind: "domain_checks", Every: every, Do: func(ctx context.Context) error { return w.schedule(ctx, every, every) }}
}

// CheckDue schedules the checks of all due domains at once. The sandbox calls CheckDue after its
// clock was moved.
func (w *Watch) CheckDue(ctx context.Context) error { return w.schedule(ctx, domain.RereadInterval, 0) }

// schedule schedules the part of a day's checks that falls into one interval. It spreads these
// checks evenly over the duration spread. Each check is a separate job, so that accounts get fair
// shares and every process of the service can execute checks.
func (w *Watch) schedule(ctx context.Context, interval, spread time.Duration) error {
	if w.Disabled || w.backoff.stopsAll(w.Now()) {
		return nil
	}
	health, err := w.Checks.DomainHealth(ctx)
	if err != nil {
		return err
	}
	stale, err := w.Checks.StaleDomains(ctx, domain.DueSince(w.Now()), domain.ReadsPerTick(health.Verified, interval))
	if err != nil {
		return err
	}
	wakeups := make([]ports.Wakeup, 0, len(stale))
	for i, d := range stale {
		delay := spread * time.Duration(i) / time.Duration(len(stale))
		wakeups = append(wakeups, ports.Wakeup{Kind: CheckKind, ID: d.ID, Account: d.Account, At: time.Now().Add(delay)})
	}
	return w.Queue.Wake(ctx, wakeups...)
}

// Handle reads a domain's DNS and stores the result. It does nothing if the checks are disabled or
// paused, if the domain is not verified, or if the domain was read less than half a day ago. A read
// without an answer counts as a read too. Handle ignores deleted domains. It fails when the store
// fails or ctx ends.
func (w *Watch) Handle(ctx context.Context, wakeup ports.Wakeup) error {
	if w.Disabled || w.backoff.stops(wakeup.Account, w.Now()) {
		return nil // a later sweep schedules the domain again
	}
	d, err := w.Domains.DomainByID(ctx, wakeup.Account, wakeup.ID)
	if err == nil && d.IsDue(w.Now()) {
		if err = w.readDNS(ctx, wakeup.Account, &d); err == nil {
			_, err = reconcile.SaveDomain(ctx, w.Domains, wakeup.Account, d)
		}
	}
	if errors.Is(err, fault.DomainNotFound) || errors.Is(err, fault.TenantNotFound) {
		return nil
	}
	return err
}

func (w *Watch) readDNS(ctx context.Context, owner access.AccountID, d *domain.Domain) error {
	began := w.Now()
	zoneRead, err := reconcile.ReadZone(ctx, w.DNS, owner, d.Name, dns.DesiredRecords(d.Name, d.Offer(dns.PlatformHosts{}))...)
	if ctx.Err() != nil {
		return ctx.Err() // the check was interrupted, so the error says nothing about the domain
	}
	if err != nil {
		zoneRead = dns.ZoneRead{Domain: d.Name}
	}
	w.OnCheck(ctx, checkResultOf(zoneRead))
	w.detectOutage(ctx, owner, zoneRead)
	*d = d.WithRead(zoneRead, began, reconcile.PlatformHosts(ctx, w.Facts))
	return nil
}

func checkResultOf(zoneRead dns.ZoneRead) CheckResult {
	switch {
	case zoneRead.Complete:
		return CheckReliable
	case zoneRead.AllServersSilent():
		return CheckSilent
	default:
		return CheckUnreliable
	}
}

const (
	// maxSilentReads is the number of consecutive reads without an answer after which the resolver,
	// and not the domains, is suspected.
	maxSilentReads = 5
	// backoffTime is how long reads stop after a resolver outage was detected.
	backoffTime = 10 * time.Minute
)

// resolverBackoff stops the reads of a Watch during an outage of the resolver or of the service's
// network. A read without an answer counts as the daily read of its domain, so reads during an
// outage would be wasted. While all domains without an answer belong to one account, only the reads
// of this account stop, because only the name servers of its domains may be dead.
type resolverBackoff struct {
	mu          sync.Mutex
	silentReads int // consecutive reads without an answer
	// silentAccounts are the accounts of the reads that silentReads counts.
	silentAccounts map[access.AccountID]bool
	// answering are the domains that answered most recently, the latest first. If one of these
	// domains answers a probe, the resolver works. The domains belong to different accounts, so
	// that one account with dead name servers cannot stop the reads of all others.
	answering   []answeringDomain
	end         time.Time        // when the reads continue
	onlyAccount access.AccountID // the account whose reads stop; empty if the reads of all accounts stop
}

type answeringDomain struct {
	owner access.AccountID
	name  string
}

// maxProbes is the maximum number of domains that detectOutage probes.
const maxProbes = 2

func (b *resolverBackoff) stopsAll(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.end) && b.onlyAccount == ""
}

func (b *resolverBackoff) stops(owner access.AccountID, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.end) && (b.onlyAccount == "" || b.onlyAccount == owner)
}

// record counts a read of an account's domain. It reports whether the resolver is suspected, and
// returns the domains to probe.
func (b *resolverBackoff) record(owner access.AccountID, zoneRead dns.ZoneRead) (suspect bool, probes []answeringDomain) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if zoneRead.AllServersSilent() {
		b.silentReads++
		if b.silentAccounts == nil {
			b.silentAccounts = map[access.AccountID]bool{}
		}
		b.silentAccounts[owner] = true
		return b.silentReads >= maxSilentReads, b.answering
	}
	latest := []answeringDomain{{owner, zoneRead.Domain}}
	for _, d := range b.answering {
		if d.owner != owner && len(latest) < maxProbes {
			latest = append(latest, d)
		}
	}
	b.silentReads, b.silentAccounts, b.answering = 0, nil, latest
	return false, nil
}

// start stops reads for backoffTime. It is called when neither the latest reads nor the probes had
// an answer. If the domains of these reads and probes belong to several accounts, start stops the
// reads of all accounts. Otherwise it stops the reads of owner. start returns the account whose
// reads stop, or "" for all accounts. After backoffTime, the resolver is suspected again after a
// single read without an answer.
func (b *resolverBackoff) start(owner access.AccountID, now time.Time) access.AccountID {
	b.mu.Lock()
	defer b.mu.Unlock()
	isOther := func(d answeringDomain) bool { return d.owner != owner }
	b.onlyAccount = owner
	if len(b.silentAccounts) > 1 || slices.ContainsFunc(b.answering, isOther) {
		b.onlyAccount = ""
	}
	b.silentReads, b.end = maxSilentReads-1, now.Add(backoffTime)
	return b.onlyAccount
}

// detectOutage starts the backoff after maxSilentReads reads in a row without an answer. It first
// probes domains that answered before. If one of them answers, there is no outage.
func (w *Watch) detectOutage(ctx context.Context, owner access.AccountID, zoneRead dns.ZoneRead) {
	suspect, probes := w.backoff.record(owner, zoneRead)
	if !suspect {
		return
	}
	for _, d := range probes {
		if probe, err := reconcile.ReadZone(ctx, w.DNS, d.owner, d.name); err == nil && !probe.AllServersSilent() {
			w.backoff.record(d.owner, probe)
			return
		}
	}
	if onlyAccount := w.backoff.start(owner, w.Now()); onlyAccount != "" {
		w.Log.WarnContext(ctx, "no name server of an account answers: the checks of its domains pause", "account", onlyAccount, "for", backoffTime.String())
		return
	}
	w.Log.WarnContext(ctx, "no name server answers: the checks of domains pause", "for", backoffTime.String())
}
