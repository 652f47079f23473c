// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
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
	woken   []ports.Wakeup
	results []CheckResult
}

func newWatchFixture(t *testing.T) *watchFixture {
	t.Helper()
	w := &watchFixture{fixture: newFixture(t), clock: time.Now()}
	w.Watch = &Watch{
		Domains: w.store, Checks: w.store, DNS: w.fake.DNS, Facts: w.fake, Queue: w, Now: func() time.Time { return w.clock },
		Log: slog.New(slog.DiscardHandler), OnCheck: func(_ context.Context, c CheckResult) { w.results = append(w.results, c) },
	}
	return w
}

// Wake implements ports.Queue.
func (w *watchFixture) Wake(_ context.Context, wakeups ...ports.Wakeup) error {
	w.woken = append(w.woken, wakeups...)
	return nil
}

// tick runs the sweep once, handles its wake-ups and returns them.
func (w *watchFixture) tick(t *testing.T, every time.Duration) []ports.Wakeup {
	t.Helper()
	w.woken = nil
	must(t, w.Watch.Sweep(every).Do(t.Context()))
	for _, wakeup := range w.woken {
		must(t, w.Handle(t.Context(), wakeup))
	}
	return w.woken
}

// addHealthy adds a domain with all its records and returns it. It sets the clock to the time of
// the domain's last check.
func (w *watchFixture) addHealthy(t *testing.T) domain.Domain {
	t.Helper()
	w.addAndPublishDKIM(t)
	d, err := w.EnableDKIM(t.Context(), w.account.ID, guid, zone)
	must(t, err)
	w.clock = d.CheckedAt
	return d
}

// nextDay runs the check of the domain one day later, and returns the stored domain.
func (w *watchFixture) nextDay(t *testing.T) domain.Domain {
	t.Helper()
	w.clock = w.clock.Add(domain.RereadInterval)
	w.tick(t, time.Minute)
	return w.storedDomain(t)
}

func TestWatchNoticesDrift(t *testing.T) {
	w := newWatchFixture(t)
	d := w.addHealthy(t)
	if got := w.nextDay(t); len(got.Health.Drifted) > 0 || len(got.Health.EverCorrect) != 3 || !got.CheckedAt.Equal(w.clock.UTC().Truncate(time.Microsecond)) {
		t.Fatalf("a healthy domain: %+v, checked %s", got.Health, got.CheckedAt)
	}
	recordsWithout := func(recordType dns.Type) (rest []dns.Record) {
		for _, r := range slices.Concat(d.Verification, d.Service, []dns.Record{d.Signing.Selector1, d.Signing.Selector2}) {
			if r.Type != recordType || r.Type == dns.TXT && r.Content[:2] == "MS" {
				rest = append(rest, r)
			}
		}
		return rest
	}
	for _, tt := range []struct {
		removed     dns.Type
		drift       domain.Drift
		checkStatus func(dns.Status) bool
	}{
		{dns.TXT, domain.SPFGone, func(s dns.Status) bool { return s.SPF == dns.Missing && s.DKIM == dns.DKIMHealthy }},
		{dns.CNAME, domain.DKIMBroken, func(s dns.Status) bool { return s.DKIM == dns.Missing && s.SPF != dns.Missing }},
		{dns.MX, domain.MXMoved, func(s dns.Status) bool { return s.MX == dns.Missing && s.DKIM == dns.DKIMHealthy }},
	} {
		w.fake.DNS.Publish(zone, recordsWithout(tt.removed)...)
		if got := w.nextDay(t); !slices.Equal(got.Health.Drifted, []domain.Drift{tt.drift}) || !tt.checkStatus(got.Status) {
			t.Fatalf("the health is %+v and the status %+v, want the drift %s", got.Health, got.Status, tt.drift)
		}
	}
	w.fake.DNS.Publish(zone, recordsWithout("")...)
	if got := w.nextDay(t); len(got.Health.Drifted) > 0 || got.Status.MX == dns.Missing {
		t.Fatalf("with all records again: %+v, %+v", got.Health, got.Status)
	}
	if !slices.Equal(w.results, []CheckResult{"reliable", "reliable", "reliable", "reliable", "reliable"}) {
		t.Fatalf("OnCheck was called with %v", w.results)
	}
}

func TestWatchDoesNotReportUnreliableReadsAsDrift(t *testing.T) {
	w := newWatchFixture(t)
	domainBefore := w.addHealthy(t)
	for reason, want := range map[string]CheckResult{"servers_disagree": CheckSilent, dns.ReasonNotDelegated: CheckUnreliable} {
		w.fake.DNS.FailReads(reason)
		got := w.nextDay(t)
		if len(got.Health.Drifted) > 0 || got.Status != domainBefore.Status || !got.CheckedAt.After(domainBefore.CheckedAt) {
			t.Fatalf("an unreliable read (%s) changed the health or the status, or is not stored as a check: %+v, %+v", reason, got.Health, got.Status)
		}
		if reported := w.results[len(w.results)-1]; reported != want {
			t.Fatalf("%s is reported as %s", reason, reported)
		}
	}
}

// TestWatchReadsOnlyWhatIsDue checks that a domain that another operation has read is not read
// again, and that a deleted domain causes no error.
func TestWatchReadsOnlyWhatIsDue(t *testing.T) {
	w := newWatchFixture(t)
	d := w.addHealthy(t)
	reads := w.fake.DNS.Reads()
	w.clock = w.clock.Add(domain.RereadInterval/2 - time.Minute)
	if n := len(w.tick(t, time.Minute)); n != 0 {
		t.Fatalf("%d domains are woken early", n)
	}
	for _, wakeup := range []ports.Wakeup{
		{ID: d.ID, Account: w.account.ID}, {ID: d.ID, Account: "01890000-0000-7000-8000-00000000dead"}, {ID: "gone", Account: w.account.ID},
	} {
		must(t, w.Handle(t.Context(), wakeup))
	}
	w.Disabled, w.clock = true, w.clock.Add(domain.RereadInterval)
	w.tick(t, time.Minute)
	must(t, w.Handle(t.Context(), ports.Wakeup{ID: d.ID, Account: w.account.ID}))
	if n := w.fake.DNS.Reads() - reads; n != 0 {
		t.Fatalf("%d reads of the DNS, want none", n)
	}
}

// addMany adds n verified domains that were never checked, and publishes their zones.
func (w *watchFixture) addMany(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprintf("d%03d.test", i)
		d, err := w.store.ReserveDomain(t.Context(), w.account.ID, guid, name, n+1, w.clock.Add(-domain.RereadInterval))
		must(t, err)
		d.Added, d.Verified = true, true
		must(t, w.store.SaveDomain(t.Context(), w.account.ID, d, nil))
		w.fake.DNS.Publish(name)
	}
}

func TestWatchSpreadsDomainsOverTheDay(t *testing.T) {
	w := newWatchFixture(t)
	const domains, tick = 200, 30 * time.Minute
	w.addMany(t, domains)
	w.clock = w.clock.Add(domain.RereadInterval / 2)
	checkCounts := map[string]int{}
	for range int(domain.RereadInterval / tick) {
		start := time.Now()
		woken := w.tick(t, tick)
		if len(woken) > domain.ReadsPerTick(domains, tick) {
			t.Fatalf("a tick woke %d of %d", len(woken), domains)
		}
		for i, wakeup := range woken {
			checkCounts[wakeup.ID]++
			if due := tick * time.Duration(i) / time.Duration(len(woken)); wakeup.At.Before(start.Add(due)) || wakeup.Account != w.account.ID || wakeup.Kind != CheckKind {
				t.Fatalf("number %d of %d is %+v", i, len(woken), wakeup)
			}
		}
		w.clock = w.clock.Add(tick)
	}
	for id, n := range checkCounts {
		if n > 2 {
			t.Errorf("%s was read %d times in a day", id, n)
		}
	}
	if len(checkCounts) != domains {
		t.Fatalf("%d of %d domains were read in a day", len(checkCounts), domains)
	}
}

func TestCheckDueWakesAllDueDomainsAtOnce(t *testing.T) {
	w := newWatchFixture(t)
	w.addMany(t, 5)
	w.clock = w.clock.Add(-domain.RereadInterval)
	must(t, w.CheckDue(t.Context()))
	if len(w.woken) != 0 {
		t.Fatalf("%d domains are woken early", len(w.woken))
	}
	w.clock = w.clock.Add(domain.RereadInterval)
	must(t, w.CheckDue(t.Context()))
	if len(w.woken) != 5 {
		t.Fatalf("%d domains are woken, want 5", len(w.woken))
	}
	for _, wakeup := range w.woken {
		if wakeup.At.After(time.Now()) {
			t.Errorf("the wake-up %+v is not due at once", wakeup)
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
	w := newWatchFixture(t)
	w.addMany(t, 40)
	down := false
	w.Watch.DNS = silentDNS{w.fake.DNS, func(string) bool { return down }}
	w.tick(t, time.Hour) // checks 2 of the 40 domains
	down = true
	for range 10 {
		w.tick(t, time.Hour)
	}
	if silent := len(w.results) - 2; silent != maxSilentReads {
		t.Fatalf("%d reads, want %d: %v", silent, maxSilentReads, w.results)
	}
	w.clock = w.clock.Add(backoffTime)
	w.tick(t, time.Hour)
	if silent := len(w.results) - 2; silent != maxSilentReads+1 {
		t.Fatalf("%d reads after the pause, want 1: %v", silent-maxSilentReads, w.results)
	}
	down = false
	w.clock = w.clock.Add(backoffTime)
	w.tick(t, time.Hour)
	w.tick(t, time.Hour)
	if lastResults := w.results[len(w.results)-4:]; slices.Contains(lastResults, CheckSilent) {
		t.Fatalf("the checks after the outage: %v", lastResults)
	}
}

// TestDeadDomainsDoNotDelayOtherChecks checks 60 domains, of which 40 have name servers that do not
// answer. The checks of the other domains must not be delayed.
func TestDeadDomainsDoNotDelayOtherChecks(t *testing.T) {
	w := newWatchFixture(t)
	w.addMany(t, 60)
	w.Watch.DNS = silentDNS{w.fake.DNS, func(name string) bool { return name >= "d010" && name < "d050" }}
	for range 60 {
		w.tick(t, time.Hour)
	}
	reliable, silent := 0, 0
	for _, c := range w.results {
		switch c {
		case CheckReliable:
			reliable++
		case CheckSilent:
			silent++
		}
	}
	if reliable != 20 || silent != 40 {
		t.Fatalf("%d answered and %d did not: %v", reliable, silent, w.results)
	}
}

// failingChecks is a store whose DomainHealth fails.
type failingChecks struct{ ports.DomainChecks }

func (failingChecks) DomainHealth(context.Context) (ports.DomainHealth, error) {
	return ports.DomainHealth{}, fault.ServiceUnavailable
}

// deletingDomains is a store in which the domain is deleted while its DNS is read.
type deletingDomains struct{ storedDomains }

func (deletingDomains) ChangeDomain(context.Context, access.AccountID, domain.Domain) (domain.Domain, error) {
	return domain.Domain{}, fault.DomainNotFound.With("gone")
}

func TestWatchReportsErrorsOfTheStore(t *testing.T) {
	w := newWatchFixture(t)
	w.Checks = failingChecks{}
	if err := w.Watch.Sweep(time.Minute).Do(t.Context()); !errors.Is(err, fault.ServiceUnavailable) {
		t.Fatalf("got %v, want the error of the store", err)
	}
}

// TestStoppedCheckIsNotStored cancels the context of a check while the check reads the DNS.
func TestStoppedCheckIsNotStored(t *testing.T) {
	w := newWatchFixture(t)
	w.addHealthy(t)
	d := w.storedDomain(t)
	w.clock = w.clock.Add(domain.RereadInterval)
	stopped, stop := context.WithCancel(t.Context())
	w.Watch.DNS = silentDNS{w.fake.DNS, func(string) bool { stop(); return true }}
	if err := w.Handle(stopped, ports.Wakeup{ID: d.ID, Account: w.account.ID}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	if got := w.storedDomain(t); !got.CheckedAt.Equal(d.CheckedAt) {
		t.Fatalf("a stopped read was stored: %s", got.CheckedAt)
	}
}

func TestCheckOfADomainThatIsDeletedMeanwhileSucceeds(t *testing.T) {
	w := newWatchFixture(t)
	w.addHealthy(t)
	d := w.storedDomain(t)
	w.clock = w.clock.Add(domain.RereadInterval)
	w.Watch.Domains = deletingDomains{w.store}
	must(t, w.Handle(t.Context(), ports.Wakeup{ID: d.ID, Account: w.account.ID}))
}
