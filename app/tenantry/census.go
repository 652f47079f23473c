// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports"
)

// freshCensus is how long a count is good for: replicas are scraped often, and
// each would count everything.
const freshCensus = 15 * time.Second

// census is what is stored and what waits, which all replicas see alike.
type census struct {
	queue  jobQueue
	checks ports.DomainChecks
	sends  ports.SendWatch
	now    func() time.Time
	kinds  []string // of jobs, which are shown also when none of them waits
	fresh  time.Duration

	waiting, late, verified, drifted, unread metric.Float64ObservableGauge
	enforcement                              sendGauges

	mu    sync.Mutex
	taken time.Time
	last  tallied
	err   error
}

// tallied is what was found.
type tallied struct {
	backlog []ports.Backlog
	domains ports.DomainHealth
	sends   ports.SendHealth
}

// countStored registers the gauges of a census.
func (s *service) countStored(now func() time.Time) error {
	c, errs := &census{queue: s.queue, checks: s.store, sends: s.store, now: now, kinds: s.kinds(), fresh: min(freshCensus, s.checkTick)}, []error(nil)
	meter := otel.Meter("github.com/tenantry/tenantry/app/tenantry")
	gauge := func(name, about string) metric.Float64ObservableGauge {
		made, err := meter.Float64ObservableGauge(name, metric.WithDescription(about))
		errs = append(errs, err)
		return made
	}
	c.waiting = gauge("tenantry.jobs.waiting", "Wake-ups of jobs that no worker has taken, those that are not due yet included, by kind. All replicas show the same with PostgreSQL.")
	c.late = gauge("tenantry.jobs.late.seconds", "For how long the wake-up is due that is due for longest, by kind.")
	c.verified = gauge("tenantry.domains.verified", "Verified domains.")
	c.drifted = gauge("tenantry.domains.drifted", "Verified domains in whose DNS something was right and no longer is, by kind.")
	c.unread = gauge("tenantry.domains.unread.seconds", "For how long the verified domain was not read whose last read is longest ago.")
	c.enforcement = newSendGauges(gauge)
	_, err := meter.RegisterCallback(c.look, append(c.enforcement.all(), c.waiting, c.late, c.verified, c.drifted, c.unread)...)
	return errors.Join(append(errs, err)...)
}

// kinds of all jobs.
func (s *service) kinds() (all []string) {
	work := s.work()
	for kind := range work.Handlers {
		all = append(all, kind)
	}
	for _, p := range work.Periodic {
		all = append(all, p.Kind)
	}
	slices.Sort(all)
	return all
}

// look shows nothing while the database does not answer.
func (c *census) look(ctx context.Context, o metric.Observer) error {
	found, err := c.take(ctx)
	if err != nil {
		return nil //lint:ignore nilerr tenantry.database.up says so
	}
	backlog, health := slices.Clone(found.backlog), found.domains
	for _, kind := range c.kinds {
		if !slices.ContainsFunc(backlog, func(b ports.Backlog) bool { return b.Kind == kind }) {
			backlog = append(backlog, ports.Backlog{Kind: kind})
		}
	}
	for _, b := range backlog {
		o.ObserveFloat64(c.waiting, float64(b.Waiting), labels("kind", b.Kind))
		o.ObserveFloat64(c.late, b.Late.Seconds(), labels("kind", b.Kind))
	}
	o.ObserveFloat64(c.verified, float64(health.Verified))
	for _, kind := range domain.Drifts {
		o.ObserveFloat64(c.drifted, float64(health.Drifted[kind]), labels("kind", string(kind)))
	}
	unread := 0.0
	if !health.Oldest.IsZero() {
		unread = max(0, c.now().Sub(health.Oldest).Seconds())
	}
	o.ObserveFloat64(c.unread, unread)
	c.enforcement.observe(o, found.sends, c.now())
	return nil
}

func (c *census) take(ctx context.Context) (tallied, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken.IsZero() || time.Since(c.taken) >= c.fresh {
		// What one scrape gives up on is not what the others should miss.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseTime)
		defer cancel()
		c.last, c.err = c.count(ctx)
		c.taken = time.Now()
	}
	return c.last, c.err
}

func (c *census) count(ctx context.Context) (found tallied, err error) {
	if found.backlog, err = c.queue.Backlog(ctx); err != nil {
		return found, err
	}
	if found.domains, err = c.checks.DomainHealth(ctx); err != nil {
		return found, err
	}
	now := c.now()
	found.sends, err = c.sends.SendHealth(ctx, now, now.Add(-behindAfter))
	return found, err
}
