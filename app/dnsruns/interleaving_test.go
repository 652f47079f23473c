// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/interleaving"
	"github.com/tenantry/tenantry/app/lease"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// sharedZone is a zone that tenantry's workers and its owner change. The reads and writes of the
// workers are steps.
type sharedZone struct {
	*published
	// written are the records that a worker's write added, and that the owner has not removed
	// since.
	written map[string]bool
	// foundAsPlanned are records that the owner published between a plan and its write, with the
	// planned value. By decision 0026 they may count as managed.
	foundAsPlanned map[string]bool
}

func (z *sharedZone) Records(ctx context.Context, at dns.Zone) ([]dns.RRSet, error) {
	interleaving.Step(ctx)
	return z.published.Records(ctx, at)
}

func (z *sharedZone) Apply(ctx context.Context, at dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	interleaving.Step(ctx)
	before := z.records(ctx)
	sets, err := z.published.Apply(ctx, at, changes)
	for r := range z.records(ctx) {
		if !before[r] {
			z.written[r] = true
		}
	}
	for _, c := range changes {
		for _, v := range c.After.Values {
			if r := record(c.After.Name, c.After.Type, v); before[r] && !slices.Contains(c.Before.Values, v) {
				z.foundAsPlanned[r] = true
			}
		}
	}
	return sets, err
}

func record(name string, of dns.Type, value string) string {
	return name + " " + string(of) + " " + value
}

func (z *sharedZone) records(ctx context.Context) map[string]bool {
	held, _ := z.published.Records(context.WithoutCancel(ctx), dns.Zone{ID: zone, Name: zone})
	all := map[string]bool{}
	for _, s := range held {
		for _, v := range s.Values {
			all[record(s.Name, s.Type, v)] = true
		}
	}
	return all
}

// put replaces record sets, as the owner does.
func (z *sharedZone) put(ctx context.Context, sets ...dns.RRSet) {
	for _, s := range sets {
		z.Put(zone, s)
	}
	left := z.records(ctx)
	maps.DeleteFunc(z.written, func(r string, _ bool) bool { return !left[r] })
	z.show(ctx, dns.Zone{ID: zone, Name: zone})
}

// steppedJobs makes ClaimJob, HoldJob and SaveJob steps of the race. Each write of a worker begins
// with HoldJob.
type steppedJobs struct{ ports.DNSJobs }

func (s steppedJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (provisioning.Job, bool, error) {
	interleaving.Step(ctx)
	return s.DNSJobs.ClaimJob(ctx, id, lease, now)
}

func (s steppedJobs) HoldJob(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	interleaving.Step(ctx)
	return s.DNSJobs.HoldJob(ctx, j, lease)
}

func (s steppedJobs) SaveJob(ctx context.Context, j provisioning.Job) (bool, error) {
	interleaving.Step(ctx)
	return s.DNSJobs.SaveJob(ctx, j)
}

// zoneRace is a race between the workers of a job and the owner of its zone.
type zoneRace struct {
	*fixture
	zone    *sharedZone
	id      string
	planned []dns.RRSet // the sets that the job plans
}

func newZoneRace(t *testing.T) *zoneRace {
	t.Helper()
	fx := newFixture(t)
	r := &zoneRace{fixture: fx, zone: &sharedZone{fx.provider, map[string]bool{}, map[string]bool{}}}
	fx.connect(t, r.zone)
	r.Jobs = steppedJobs{fx.store}
	v, err := fx.Domains.Survey(t.Context(), fx.acc.ID, fx.domain.ID)
	must(t, err)
	for _, c := range v.Plan.Changes {
		r.planned = append(r.planned, c.After)
	}
	r.id = fx.begin(t).ID
	return r
}

// work lets a worker execute the job until it waits.
func (r *zoneRace) work(ctx context.Context) error {
	return withoutLost(r.Handle(ctx, ports.Wakeup{Kind: Kind, ID: r.id}))
}

// takeOver ends the lease of the worker that executes the job, and lets a different worker execute
// it. Calls that the first worker has already sent still reach the zone.
func (r *zoneRace) takeOver(ctx context.Context) error {
	interleaving.Step(ctx)
	j, err := r.store.Job(ctx, r.acc.ID, r.id)
	if err != nil {
		return err
	}
	if _, err := r.store.ReleaseJob(ctx, j, r.clock); err != nil {
		return err
	}
	return r.work(ctx)
}

// withoutLost returns err, or nil if the worker lost its lease.
func withoutLost(err error) error {
	if errors.Is(err, lease.ErrLost) {
		return nil
	}
	return err
}

// publishAll publishes all planned records, as the owner does by hand.
func (r *zoneRace) publishAll(ctx context.Context) error {
	interleaving.Step(ctx)
	r.zone.put(ctx, r.planned...)
	return nil
}

// texts are the planned texts at the apex.
func (r *zoneRace) texts() dns.RRSet { return dns.Find(r.planned, zone, dns.TXT) }

// publishTexts publishes the planned texts at the apex, as the owner does by hand.
func (r *zoneRace) publishTexts(ctx context.Context) error {
	interleaving.Step(ctx)
	r.zone.put(ctx, r.texts())
	return nil
}

// addAndPublish adds a text and then replaces the texts by the planned ones, as the owner does.
func (r *zoneRace) addAndPublish(ctx context.Context) error {
	interleaving.Step(ctx)
	held, err := r.zone.published.Records(ctx, dns.Zone{ID: zone, Name: zone})
	if err != nil {
		return err
	}
	set := dns.Find(held, zone, dns.TXT)
	set.Name, set.Type, set.TTL = zone, dns.TXT, 300
	set.Values = append(set.Values, "of the owner")
	r.zone.put(ctx, set)
	return r.publishTexts(ctx)
}

// In the first race, the owner publishes all records of an intended write within an hour. They then
// count as managed (decision 0026), so this race has no second worker and no lost answer.
var zoneRaces = []struct {
	name   string
	loses  bool // the answer or the request of the first write is lost
	actors actors
}{
	{"the owner publishes the planned records", false, actors{(*zoneRace).work, (*zoneRace).publishAll}},
	{"the owner adds a text, then publishes the planned texts", false, actors{(*zoneRace).work, (*zoneRace).addAndPublish}},
	{"the owner adds and publishes texts, a worker takes over", false, actors{(*zoneRace).work, (*zoneRace).addAndPublish, (*zoneRace).takeOver}},
	{"an answer is lost, the owner publishes one planned set, a worker takes over", true, actors{(*zoneRace).work, (*zoneRace).publishTexts, (*zoneRace).takeOver}},
}

type actors = []func(*zoneRace, context.Context) error

// maxInterruptions returns how often a soak interrupts an actor of a race. With three actors it is
// once, because a soak has no time for more orders.
func maxInterruptions(actors int) int {
	if actors > 2 {
		return 1
	}
	return 3
}

// A job runs while the owner of the zone changes it, and while a different worker takes over the
// job. Afterwards every managed value is one that tenantry wrote.
func TestManagedRecordsWereWrittenByUsInEveryOrder(t *testing.T) {
	for _, tt := range zoneRaces {
		t.Run(tt.name, func(t *testing.T) {
			interleaving.Explore(t, maxInterruptions(len(tt.actors)), func(t *testing.T, o *interleaving.Order) {
				synctest.Test(t, func(t *testing.T) {
					r := newZoneRace(t)
					if tt.loses {
						r.provider.LoseNextAnswer(o.Choose(2) == 1)
					}
					var all []func(context.Context) error
					for _, act := range tt.actors {
						all = append(all, func(ctx context.Context) error { return act(r, ctx) })
					}
					must(t, errors.Join(o.Run(t.Context(), func() {}, all...)...))
					r.requireOnlyWritten(t)
					j := r.run(t, r.Worker, r.id)
					if j.Required != "" {
						_, err := r.store.RetryJob(t.Context(), r.acc.ID, j.ID, r.clock, nil)
						must(t, err)
						j = r.run(t, r.Worker, r.id)
					}
					if j.Status != provisioning.Completed {
						t.Errorf("the job ended %+v", j)
					}
					r.requireOnlyWritten(t)
				})
			})
		})
	}
}

// requireOnlyWritten checks that tenantry wrote every managed value.
func (r *zoneRace) requireOnlyWritten(t *testing.T) {
	t.Helper()
	managed, err := r.store.Written(t.Context(), r.acc.ID, r.domain.ID)
	must(t, err)
	for _, v := range managed {
		if held := record(v.Name, v.Type, v.Value); !r.zone.written[held] && !r.zone.foundAsPlanned[held] {
			t.Errorf("managed is %+v, which the owner published", v)
		}
	}
}
