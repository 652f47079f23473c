// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// storedCountsTTL is how long the gauges reuse the counts of a query. The counts are reused because
// a query counts all rows and each replica is scraped often.
const storedCountsTTL = 15 * time.Second

// A tenant is lagging when its messages were last counted longer than lagThreshold ago. By then at
// least two enforcement passes should have counted the messages.
const lagThreshold = 2 * sendlimit.MaxInterval

// storedGauges observes counts of the rows in the database, and of the wake-ups (requests to run a
// job) in the queue. With PostgreSQL, all replicas count the same rows and wake-ups.
type storedGauges struct {
	queue         jobQueue
	domainChecks  ports.DomainChecks
	sendHealth    ports.SendHealthReader
	webhookHealth ports.WebhookHealthReader
	now           func() time.Time
	jobKinds      []string // all kinds; a kind without a waiting job is reported as 0
	ttl           time.Duration

	jobsWaiting, jobLateness, verifiedDomains, driftedDomains, oldestRead metric.Float64ObservableGauge
	enforcement                                                           enforcementGauges
	webhooks                                                              webhookGauges

	mu        sync.Mutex
	countedAt time.Time
	counts    storedCounts
	err       error
}

// storedCounts has the counts that storedGauges reads at one time.
type storedCounts struct {
	backlog  []ports.Backlog
	domains  ports.DomainHealth
	sends    ports.SendHealth
	webhooks ports.WebhookHealth
}

// registerStoredGauges registers the gauges of stored data. It fails when an instrument or the
// callback cannot be registered.
func (s *Service) registerStoredGauges(now func() time.Time, ttl time.Duration) error {
	g, errs := &storedGauges{
		queue: s.Queue, domainChecks: s.Store, sendHealth: s.Store, webhookHealth: s.Store, now: now, jobKinds: s.jobKinds(), ttl: ttl,
	}, []error(nil)
	meter := otel.Meter(meterName)
	gauge := func(name, description string) metric.Float64ObservableGauge {
		instrument, err := meter.Float64ObservableGauge(name, metric.WithDescription(description))
		errs = append(errs, err)
		return instrument
	}
	g.jobsWaiting = gauge("tenantry.jobs.waiting", "Wake-ups of jobs that no worker has claimed, by kind, including wake-ups that are not due yet. With PostgreSQL all replicas report the same value.")
	g.jobLateness = gauge("tenantry.jobs.late.seconds", "For how many seconds the oldest due wake-up has been due, by kind.")
	g.verifiedDomains = gauge("tenantry.domains.verified", "Verified domains of active accounts.")
	g.driftedDomains = gauge("tenantry.domains.drifted", "Verified domains of active accounts whose DNS was correct and is now incorrect, by kind of drift.")
	g.oldestRead = gauge("tenantry.domains.unread.seconds", "Seconds since the DNS of a verified domain of an active account was last read, for the domain that was read longest ago.")
	g.enforcement, g.webhooks = newEnforcementGauges(gauge), newWebhookGauges(gauge)
	instruments := slices.Concat(g.enforcement.instruments(), g.webhooks.instruments(), []metric.Observable{g.jobsWaiting, g.jobLateness, g.verifiedDomains, g.driftedDomains, g.oldestRead})
	_, err := meter.RegisterCallback(catchPanics(g.observe), instruments...)
	return errors.Join(append(errs, err)...)
}

// jobKinds returns the kinds of all background jobs, sorted.
func (s *Service) jobKinds() (kinds []string) {
	work := s.QueueWork()
	for kind := range work.Handlers {
		kinds = append(kinds, kind)
	}
	for _, p := range work.Periodic {
		kinds = append(kinds, p.Kind)
	}
	slices.Sort(kinds)
	return kinds
}

// observe reports the counts. It reports nothing when the counts cannot be read. If the database
// does not answer, tenantry.database.up is 0.
func (g *storedGauges) observe(ctx context.Context, o metric.Observer) error {
	counts, err := g.cachedCounts(ctx)
	if err != nil {
		return nil //lint:ignore nilerr the gauges are missing, and the process goes on
	}
	backlog, health := slices.Clone(counts.backlog), counts.domains
	for _, kind := range g.jobKinds {
		if !slices.ContainsFunc(backlog, func(b ports.Backlog) bool { return b.Kind == kind }) {
			backlog = append(backlog, ports.Backlog{Kind: kind})
		}
	}
	for _, b := range backlog {
		o.ObserveFloat64(g.jobsWaiting, float64(b.Waiting), labels("kind", b.Kind))
		o.ObserveFloat64(g.jobLateness, b.Lateness.Seconds(), labels("kind", b.Kind))
	}
	o.ObserveFloat64(g.verifiedDomains, float64(health.Verified))
	for _, kind := range domain.Drifts {
		o.ObserveFloat64(g.driftedDomains, float64(health.Drifted[kind]), labels("kind", string(kind)))
	}
	sinceOldestRead := 0.0
	if !health.OldestRead.IsZero() {
		sinceOldestRead = max(0, g.now().Sub(health.OldestRead).Seconds())
	}
	o.ObserveFloat64(g.oldestRead, sinceOldestRead)
	g.enforcement.observe(o, counts.sends, g.now())
	g.webhooks.observe(o, counts.webhooks, g.now())
	return nil
}

// cachedCounts returns counts that are at most g.ttl old, or the error of their query.
func (g *storedGauges) cachedCounts(ctx context.Context) (storedCounts, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.countedAt.IsZero() || time.Since(g.countedAt) >= g.ttl {
		// Other scrapes share the result, so the query ignores the cancellation of this scrape.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), DatabaseTimeout)
		defer cancel()
		g.counts, g.err = g.queryCounts(ctx)
		g.countedAt = time.Now()
	}
	return g.counts, g.err
}

func (g *storedGauges) queryCounts(ctx context.Context) (counts storedCounts, err error) {
	if counts.backlog, err = g.queue.Backlog(ctx); err != nil {
		return counts, err
	}
	if counts.domains, err = g.domainChecks.DomainHealth(ctx); err != nil {
		return counts, err
	}
	now := g.now()
	if counts.sends, err = g.sendHealth.SendHealth(ctx, now, now.Add(-lagThreshold)); err != nil {
		return counts, err
	}
	counts.webhooks, err = g.webhookHealth.WebhookHealth(ctx, now)
	return counts, err
}

// enforcementGauges observes the state of send-limit enforcement in all tenants.
type enforcementGauges struct {
	lateness, tenants, lagging, blocked, stranded metric.Float64ObservableGauge
}

func newEnforcementGauges(gauge func(name, description string) metric.Float64ObservableGauge) enforcementGauges {
	return enforcementGauges{
		lateness: gauge("tenantry.enforcement.late.seconds", "For how many seconds the tenant that waits longest has been due for an enforcement pass. Tenants with a pass in progress do not count."),
		tenants:  gauge("tenantry.enforcement.tenants", "Tenants that have an enforced send limit and that tenantry can access."),
		lagging:  gauge("tenantry.enforcement.tenants.behind", "Tenants that have an enforced send limit, that tenantry can access, and whose messages have not been counted for an hour."),
		blocked:  gauge("tenantry.enforcement.mailboxes.blocked", "Blocked mailboxes."),
		stranded: gauge("tenantry.enforcement.mailboxes.stranded", "Blocked mailboxes in tenants that tenantry cannot access, so that tenantry cannot unblock them."),
	}
}

// instruments returns every gauge, for registration with the callback.
func (g enforcementGauges) instruments() []metric.Observable {
	return []metric.Observable{g.lateness, g.tenants, g.lagging, g.blocked, g.stranded}
}

func (g enforcementGauges) observe(o metric.Observer, h ports.SendHealth, now time.Time) {
	lateSeconds := 0.0
	if !h.OldestDue.IsZero() {
		lateSeconds = max(0, now.Sub(h.OldestDue).Seconds())
	}
	o.ObserveFloat64(g.lateness, lateSeconds)
	o.ObserveFloat64(g.tenants, float64(h.LimitedTenants))
	o.ObserveFloat64(g.lagging, float64(h.LaggingTenants))
	o.ObserveFloat64(g.blocked, float64(h.BlockedMailboxes))
	o.ObserveFloat64(g.stranded, float64(h.StrandedMailboxes))
}
