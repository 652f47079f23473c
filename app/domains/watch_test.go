// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/ports"
)

// watchFixture is a Watch with a clock that the test moves and a queue that only records wake-ups.
type watchFixture struct {
	*fixture
	*Watch
	clock   time.Time
	woken   []ports.Wakeup // since the last tick began
	results []CheckResult  // of all checks
}

func newWatchFixture(t *testing.T) *watchFixture {
	t.Helper()
	fx := &watchFixture{fixture: newFixture(t), clock: time.Now()}
	fx.Watch = &Watch{
		Domains: fx.store, Checks: fx.store, DNS: fx.fake.DNS, Facts: fx.fake, Queue: fx, Now: func() time.Time { return fx.clock },
		Log: slog.New(slog.DiscardHandler), OnCheck: func(_ context.Context, c CheckResult) { fx.results = append(fx.results, c) },
	}
	return fx
}

// Wake implements ports.Queue.
func (fx *watchFixture) Wake(_ context.Context, wakeups ...ports.Wakeup) error {
	fx.woken = append(fx.woken, wakeups...)
	return nil
}

// tick runs the sweep once, handles its wake-ups and returns them.
func (fx *watchFixture) tick(t *testing.T, every time.Duration) []ports.Wakeup {
	t.Helper()
	fx.woken = nil
	must(t, fx.Watch.Sweep(every).Do(t.Context()))
	for _, wakeup := range fx.woken {
		must(t, fx.Handle(t.Context(), wakeup))
	}
	return fx.woken
}

// addHealthy adds a domain with all its records and returns it. It sets the clock to the time of
// the domain's last check.
func (fx *watchFixture) addHealthy(t *testing.T) domain.Domain {
	t.Helper()
	fx.addAndPublishDKIM(t)
	d, err := fx.EnableDKIM(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	fx.clock = d.CheckedAt
	return d
}

// nextDay runs the check of the domain one day later, and returns the stored domain.
func (fx *watchFixture) nextDay(t *testing.T) domain.Domain {
	t.Helper()
	fx.clock = fx.clock.Add(domain.RereadInterval)
	fx.tick(t, time.Minute)
	return fx.storedDomain(t)
}

func TestWatchNoticesDrift(t *testing.T) {
	fx := newWatchFixture(t)
	d := fx.addHealthy(t)
	if got := fx.nextDay(t); len(got.Health.Drifted) > 0 || len(got.Health.EverCorrect) != 3 || !got.CheckedAt.Equal(fx.clock.UTC().Truncate(time.Microsecond)) {
		t.Fatalf("the health of a healthy domain is %+v, want no drift and 3 correct records; checked at %s, want now", got.Health, got.CheckedAt)
	}
	recordsWithout := func(recordType dns.Type) (rest []dns.Record) {
		for _, r := range slices.Concat(d.Verification, d.Service, []dns.Record{d.Signing.Selector1, d.Signing.Selector2}) {
			if r.Type != recordType || r.Type == dns.TXT && strings.HasPrefix(r.Content, "MS=") { // the ownership record stays
				rest = append(rest, r)
			}
		}
		return rest
	}
	for _, tc := range []struct {
		removed        dns.Type
		wantDrift      domain.Drift
		statusIsWanted func(dns.Status) bool
	}{
		{dns.TXT, domain.SPFGone, func(s dns.Status) bool { return s.SPF == dns.Missing && s.DKIM == dns.DKIMHealthy }},
		{dns.CNAME, domain.DKIMBroken, func(s dns.Status) bool { return s.DKIM == dns.Missing && s.SPF != dns.Missing }},
		{dns.MX, domain.MXMoved, func(s dns.Status) bool { return s.MX == dns.Missing && s.DKIM == dns.DKIMHealthy }},
	} {
		fx.fake.DNS.Publish(zone, recordsWithout(tc.removed)...)
		if got := fx.nextDay(t); !slices.Equal(got.Health.Drifted, []domain.Drift{tc.wantDrift}) || !tc.statusIsWanted(got.Status) {
			t.Fatalf("the health is %+v and the status %+v, want the drift %s", got.Health, got.Status, tc.wantDrift)
		}
	}
	fx.fake.DNS.Publish(zone, recordsWithout("")...)
	if got := fx.nextDay(t); len(got.Health.Drifted) > 0 || got.Status.MX == dns.Missing {
		t.Fatalf("with all records again, the health is %+v and the status %+v, want no drift", got.Health, got.Status)
	}
	if !slices.Equal(fx.results, slices.Repeat([]CheckResult{CheckReliable}, 5)) {
		t.Fatalf("OnCheck was called with %v, want 5 times CheckReliable", fx.results)
	}
}

func TestWatchDoesNotReportUnreliableReadsAsDrift(t *testing.T) {
	fx := newWatchFixture(t)
	domainBefore := fx.addHealthy(t)
	for reason, want := range map[string]CheckResult{"servers_disagree": CheckSilent, dns.ReasonNotDelegated: CheckUnreliable} {
		fx.fake.DNS.FailReads(reason)
		got := fx.nextDay(t)
		if len(got.Health.Drifted) > 0 || got.Status != domainBefore.Status || !got.CheckedAt.After(domainBefore.CheckedAt) {
			t.Fatalf("an unreliable read (%s) changed the health or the status, or is not stored as a check: the health is %+v, the status %+v", reason, got.Health, got.Status)
		}
		if reported := fx.results[len(fx.results)-1]; reported != want {
			t.Fatalf("a read that fails with %s is reported as %s, want %s", reason, reported, want)
		}
	}
}

// TestWatchReadsOnlyWhatIsDue checks that the watch does not read a domain that a different
// operation has read less than half a day ago. A wake-up for an unknown domain causes no error.
// While the checks are disabled, the watch reads no domain.
func TestWatchReadsOnlyWhatIsDue(t *testing.T) {
	fx := newWatchFixture(t)
	d := fx.addHealthy(t)
	reads := fx.fake.DNS.Reads()
	fx.clock = fx.clock.Add(domain.RereadInterval/2 - time.Minute)
	if n := len(fx.tick(t, time.Minute)); n != 0 {
		t.Fatalf("%d domains are woken before they are due", n)
	}
	for _, wakeup := range []ports.Wakeup{
		{ID: d.ID, Account: fx.account.ID}, {ID: d.ID, Account: "01890000-0000-7000-8000-00000000dead"}, {ID: "gone", Account: fx.account.ID},
	} {
		must(t, fx.Handle(t.Context(), wakeup))
	}
	fx.Disabled, fx.clock = true, fx.clock.Add(domain.RereadInterval)
	fx.tick(t, time.Minute)
	must(t, fx.Handle(t.Context(), ports.Wakeup{ID: d.ID, Account: fx.account.ID}))
	if n := fx.fake.DNS.Reads() - reads; n != 0 {
		t.Fatalf("the watch read the DNS %d times, want none", n)
	}
}

// addMany adds verified domains that were never checked, and publishes their zones.
func (fx *watchFixture) addMany(t *testing.T, count int) {
	t.Helper()
	for i := range count {
		name := fmt.Sprintf("d%03d.test", i)
		d, err := fx.store.ReserveDomain(t.Context(), fx.account.ID, guid, name, count+1, fx.clock.Add(-domain.RereadInterval))
		must(t, err)
		d.Added, d.Verified = true, true
		must(t, fx.store.SaveDomain(t.Context(), fx.account.ID, d, nil))
		fx.fake.DNS.Publish(name)
	}
}

func TestWatchSpreadsDomainsOverTheDay(t *testing.T) {
	fx := newWatchFixture(t)
	const domains, tick = 200, 30 * time.Minute
	fx.addMany(t, domains)
	fx.clock = fx.clock.Add(domain.RereadInterval / 2)
	checkCounts := map[string]int{}
	for range int(domain.RereadInterval / tick) {
		start := time.Now()
		woken := fx.tick(t, tick)
		if len(woken) > domain.ReadsPerTick(domains, tick) {
			t.Fatalf("a tick woke %d of %d domains, want at most %d", len(woken), domains, domain.ReadsPerTick(domains, tick))
		}
		for i, wakeup := range woken {
			checkCounts[wakeup.ID]++
			if due := tick * time.Duration(i) / time.Duration(len(woken)); wakeup.At.Before(start.Add(due)) || wakeup.Account != fx.account.ID || wakeup.Kind != CheckKind {
				t.Fatalf("wake-up %d of %d is %+v, want one at %s or later", i, len(woken), wakeup, start.Add(due))
			}
		}
		fx.clock = fx.clock.Add(tick)
	}
	for id, count := range checkCounts {
		if count > 2 { // a domain is due again after half a day
			t.Errorf("%s was read %d times in a day, want at most 2", id, count)
		}
	}
	if len(checkCounts) != domains {
		t.Fatalf("%d of %d domains were read in a day, want all", len(checkCounts), domains)
	}
}

func TestCheckDueWakesAllDueDomainsAtOnce(t *testing.T) {
	fx := newWatchFixture(t)
	fx.addMany(t, 5)
	fx.clock = fx.clock.Add(-domain.RereadInterval)
	must(t, fx.CheckDue(t.Context()))
	if len(fx.woken) != 0 {
		t.Fatalf("%d domains are woken before they are due", len(fx.woken))
	}
	fx.clock = fx.clock.Add(domain.RereadInterval)
	must(t, fx.CheckDue(t.Context()))
	if len(fx.woken) != 5 {
		t.Fatalf("%d domains are woken, want 5", len(fx.woken))
	}
	for _, wakeup := range fx.woken {
		if wakeup.At.After(time.Now()) {
			t.Errorf("the wake-up is %+v, want it due at once", wakeup)
		}
	}
}

// silentDNS is a resolver that gets no answer for some names.
type silentDNS struct {
	ports.DNSReader
	isSilent func(name string) bool
}

func (s silentDNS) Read(ctx context.Context, owner access.AccountID, name string, wanted ...dns.Desired) (dns.ZoneRead, error) {
	if s.isSilent(name) {
		return dns.ZoneRead{}, errors.New("no answer")
	}
	return s.DNSReader.Read(ctx, owner, name, wanted...)
}

func TestWatchBacksOffDuringAResolverOutage(t *testing.T) {
	fx := newWatchFixture(t)
	fx.addMany(t, 40)
	down := false
	fx.Watch.DNS = silentDNS{fx.fake.DNS, func(string) bool { return down }}
	fx.tick(t, time.Hour) // checks 2 of the 40 domains
	const readsBeforeOutage = 2
	down = true
	for range 10 {
		fx.tick(t, time.Hour)
	}
	if silentReads := len(fx.results) - readsBeforeOutage; silentReads != maxSilentReads {
		t.Fatalf("during the outage the watch read %d times, want %d: %v", silentReads, maxSilentReads, fx.results)
	}
	fx.clock = fx.clock.Add(backoffTime)
	fx.tick(t, time.Hour)
	if silentReads := len(fx.results) - readsBeforeOutage; silentReads != maxSilentReads+1 {
		t.Fatalf("after the pause the watch read %d times, want once: %v", silentReads-maxSilentReads, fx.results)
	}
	down = false
	fx.clock = fx.clock.Add(backoffTime)
	fx.tick(t, time.Hour)
	fx.tick(t, time.Hour)
	if lastResults := fx.results[len(fx.results)-4:]; slices.Contains(lastResults, CheckSilent) {
		t.Fatalf("the results after the outage are %v, want none silent", lastResults)
	}
}

// TestDeadDomainsDoNotDelayOtherChecks checks 60 domains, of which 40 have name servers that do not
// answer. The checks of the 20 answering domains must not be delayed.
func TestDeadDomainsDoNotDelayOtherChecks(t *testing.T) {
	fx := newWatchFixture(t)
	fx.addMany(t, 60)
	fx.Watch.DNS = silentDNS{fx.fake.DNS, func(name string) bool { return name >= "d010" && name < "d050" }}
	for range 60 {
		fx.tick(t, time.Hour)
	}
	reliable, silent := 0, 0
	for _, c := range fx.results {
		switch c {
		case CheckReliable:
			reliable++
		case CheckSilent:
			silent++
		}
	}
	if reliable != 20 || silent != 40 {
		t.Fatalf("%d checks had an answer, want 20, and %d had none, want 40: %v", reliable, silent, fx.results)
	}
}

// failingChecks is a store whose DomainHealth fails.
type failingChecks struct{ ports.DomainChecks }

func (failingChecks) DomainHealth(context.Context) (ports.DomainHealth, error) {
	return ports.DomainHealth{}, fault.ServiceUnavailable
}

// deletingDomains is a store in which the domain is deleted while its DNS is read.
type deletingDomains struct{ domainStore }

func (deletingDomains) ChangeDomain(context.Context, access.AccountID, domain.Domain) (domain.Domain, error) {
	return domain.Domain{}, fault.DomainNotFound.With("gone")
}

func TestWatchReportsErrorsOfTheStore(t *testing.T) {
	fx := newWatchFixture(t)
	fx.Checks = failingChecks{}
	if err := fx.Watch.Sweep(time.Minute).Do(t.Context()); !errors.Is(err, fault.ServiceUnavailable) {
		t.Fatalf("got %v, want the error of the store", err)
	}
}

// TestStoppedCheckIsNotStored cancels the context of a check while the check reads the DNS.
func TestStoppedCheckIsNotStored(t *testing.T) {
	fx := newWatchFixture(t)
	fx.addHealthy(t)
	d := fx.storedDomain(t)
	fx.clock = fx.clock.Add(domain.RereadInterval)
	stopped, stop := context.WithCancel(t.Context())
	fx.Watch.DNS = silentDNS{fx.fake.DNS, func(string) bool { stop(); return true }}
	if err := fx.Handle(stopped, ports.Wakeup{ID: d.ID, Account: fx.account.ID}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	if got := fx.storedDomain(t); !got.CheckedAt.Equal(d.CheckedAt) {
		t.Fatalf("the stopped check is stored with the time %s, want %s as before", got.CheckedAt, d.CheckedAt)
	}
}

func TestCheckOfADomainThatIsDeletedMeanwhileSucceeds(t *testing.T) {
	fx := newWatchFixture(t)
	fx.addHealthy(t)
	d := fx.storedDomain(t)
	fx.clock = fx.clock.Add(domain.RereadInterval)
	fx.Watch.Domains = deletingDomains{fx.store}
	must(t, fx.Handle(t.Context(), ports.Wakeup{ID: d.ID, Account: fx.account.ID}))
}
