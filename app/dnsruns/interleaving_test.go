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

// sharedZone is a zone that workers and the owner of the zone change. The reads and writes of the
// workers are steps of the race: at each step, a different actor of the race can continue (see
// adapters/testserver/interleaving).
type sharedZone struct {
	*publishingProvider
	// written are the records that the writes of workers added and that the owner has not removed.
	written map[string]bool
	// foundAsPlanned are the records that the owner published with the planned value, after a
	// worker made its plan and before the worker wrote the plan. They may count as managed
	// (docs/decisions, 0026).
	foundAsPlanned map[string]bool
}

func (z *sharedZone) Records(ctx context.Context, zone dns.Zone) ([]dns.RRSet, error) {
	interleaving.Step(ctx)
	return z.publishingProvider.Records(ctx, zone)
}

func (z *sharedZone) Apply(ctx context.Context, zone dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	interleaving.Step(ctx)
	recordsBefore := z.records(ctx)
	sets, err := z.publishingProvider.Apply(ctx, zone, changes)
	for r := range z.records(ctx) {
		if !recordsBefore[r] {
			z.written[r] = true
		}
	}
	for _, c := range changes {
		for _, v := range c.After.Values {
			if r := record(c.After.Name, c.After.Type, v); recordsBefore[r] && !slices.Contains(c.Before.Values, v) {
				z.foundAsPlanned[r] = true
			}
		}
	}
	return sets, err
}

// record returns one value of a record set as a text with its name and type.
func record(name string, recordType dns.Type, value string) string {
	return name + " " + string(recordType) + " " + value
}

func (z *sharedZone) records(ctx context.Context) map[string]bool {
	recordSets, _ := z.publishingProvider.Records(context.WithoutCancel(ctx), dns.Zone{ID: zone, Name: zone})
	records := map[string]bool{}
	for _, s := range recordSets {
		for _, v := range s.Values {
			records[record(s.Name, s.Type, v)] = true
		}
	}
	return records
}

// put replaces record sets, as the owner does.
func (z *sharedZone) put(ctx context.Context, sets ...dns.RRSet) {
	for _, s := range sets {
		z.Put(zone, s)
	}
	remaining := z.records(ctx)
	maps.DeleteFunc(z.written, func(r string, _ bool) bool { return !remaining[r] })
	z.show(ctx, dns.Zone{ID: zone, Name: zone})
}

// steppedJobs makes ClaimJob, RenewJobLease and SaveJob steps of the race. A worker calls
// RenewJobLease before each of its writes to a zone.
type steppedJobs struct{ ports.DNSJobs }

func (s steppedJobs) ClaimJob(ctx context.Context, id string, lease time.Duration, now time.Time) (provisioning.Job, bool, error) {
	interleaving.Step(ctx)
	return s.DNSJobs.ClaimJob(ctx, id, lease, now)
}

func (s steppedJobs) RenewJobLease(ctx context.Context, j provisioning.Job, lease time.Duration) (bool, error) {
	interleaving.Step(ctx)
	return s.DNSJobs.RenewJobLease(ctx, j, lease)
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
	planned []dns.RRSet // the record sets of the job's plan
}

func newZoneRace(t *testing.T) *zoneRace {
	t.Helper()
	fx := newFixture(t)
	race := &zoneRace{fixture: fx, zone: &sharedZone{fx.provider, map[string]bool{}, map[string]bool{}}}
	fx.connect(t, race.zone)
	race.Jobs = steppedJobs{fx.store}
	survey, err := fx.Domains.Survey(t.Context(), fx.account.ID, fx.domain.ID)
	must(t, err)
	for _, c := range survey.Plan.Changes {
		race.planned = append(race.planned, c.After)
	}
	race.id = fx.createJob(t).ID
	return race
}

// work lets a worker execute the job until the job waits or stops.
func (r *zoneRace) work(ctx context.Context) error {
	return ignoreLostLease(r.Handle(ctx, ports.Wakeup{Kind: Kind, ID: r.id}))
}

// takeOver ends the lease of the worker that executes the job, and lets a second worker execute the
// job. Calls that the worker without a lease has already sent still reach the zone.
func (r *zoneRace) takeOver(ctx context.Context) error {
	interleaving.Step(ctx)
	j, err := r.store.Job(ctx, r.account.ID, r.id)
	if err != nil {
		return err
	}
	if _, err := r.store.ReleaseJob(ctx, j, r.clock); err != nil {
		return err
	}
	return r.work(ctx)
}

func ignoreLostLease(err error) error {
	if errors.Is(err, lease.ErrLost) {
		return nil
	}
	return err
}

// publishAll publishes all planned record sets, as the owner does by hand.
func (r *zoneRace) publishAll(ctx context.Context) error {
	interleaving.Step(ctx)
	r.zone.put(ctx, r.planned...)
	return nil
}

func (r *zoneRace) texts() dns.RRSet { return dns.Find(r.planned, zone, dns.TXT) }

// publishTexts publishes the planned TXT record set at the apex, as the owner does by hand.
func (r *zoneRace) publishTexts(ctx context.Context) error {
	interleaving.Step(ctx)
	r.zone.put(ctx, r.texts())
	return nil
}

// addAndPublish adds a TXT value at the apex, and then replaces all TXT values there with the
// planned values. The owner can do both by hand.
func (r *zoneRace) addAndPublish(ctx context.Context) error {
	interleaving.Step(ctx)
	recordSets, err := r.zone.publishingProvider.Records(ctx, dns.Zone{ID: zone, Name: zone})
	if err != nil {
		return err
	}
	set := dns.Find(recordSets, zone, dns.TXT)
	set.Name, set.Type, set.TTL = zone, dns.TXT, 300
	set.Values = append(set.Values, "of the owner")
	r.zone.put(ctx, set)
	return r.publishTexts(ctx)
}

// In the first race, the owner publishes all records of a plan. If an answer were lost, or a second
// worker took over, these records could count as managed (docs/decisions, 0026). The race therefore
// loses no answer and has no second worker.
var zoneRaces = []struct {
	name            string
	losesFirstWrite bool // whether the answer or the request of the first write is lost
	actors          actors
}{
	{"the owner publishes the planned records", false, actors{(*zoneRace).work, (*zoneRace).publishAll}},
	{"the owner adds a text, then publishes the planned texts", false, actors{(*zoneRace).work, (*zoneRace).addAndPublish}},
	{"the owner adds and publishes texts, a worker takes over", false, actors{(*zoneRace).work, (*zoneRace).addAndPublish, (*zoneRace).takeOver}},
	{"an answer is lost, the owner publishes one planned set, a worker takes over", true, actors{(*zoneRace).work, (*zoneRace).publishTexts, (*zoneRace).takeOver}},
}

type actors = []func(*zoneRace, context.Context) error

// maxInterruptions returns how often a soak test interrupts an actor of a race. A race of three
// actors has more orders, so a soak test has time for only one interruption.
func maxInterruptions(actors int) int {
	if actors > 2 {
		return 1
	}
	return 3
}

// TestOnlyWrittenRecordsAreManagedInEveryOrder runs a job while the owner changes the zone. In some
// races a different worker takes over the job. After the race, every managed value must be a value
// that a worker wrote, or one in foundAsPlanned.
func TestOnlyWrittenRecordsAreManagedInEveryOrder(t *testing.T) {
	for _, tc := range zoneRaces {
		t.Run(tc.name, func(t *testing.T) {
			interleaving.Explore(t, maxInterruptions(len(tc.actors)), func(t *testing.T, o *interleaving.Order) {
				synctest.Test(t, func(t *testing.T) {
					race := newZoneRace(t)
					if tc.losesFirstWrite {
						race.provider.LoseNextAnswer(o.Choose(2) == 1)
					}
					var acts []func(context.Context) error
					for _, act := range tc.actors {
						acts = append(acts, func(ctx context.Context) error { return act(race, ctx) })
					}
					must(t, errors.Join(o.Run(t.Context(), func() {}, acts...)...))
					race.requireOnlyWritten(t)
					j := race.run(t, race.Worker, race.id)
					if j.RequiredAction != "" {
						_, err := race.store.RetryJob(t.Context(), race.account.ID, j.ID, race.clock, nil)
						must(t, err)
						j = race.run(t, race.Worker, race.id)
					}
					if j.Status != provisioning.Completed {
						t.Errorf("the job is %+v, want it completed", j)
					}
					race.requireOnlyWritten(t)
				})
			})
		})
	}
}

func (r *zoneRace) requireOnlyWritten(t *testing.T) {
	t.Helper()
	managed, err := r.store.Written(t.Context(), r.account.ID, r.domain.ID)
	must(t, err)
	for _, v := range managed {
		if recordText := record(v.Name, v.Type, v.Value); !r.zone.written[recordText] && !r.zone.foundAsPlanned[recordText] {
			t.Errorf("%+v is managed, although the owner published it", v)
		}
	}
}
