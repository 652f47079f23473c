// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/provisioning"
)

// recordsHeld returns the records of the zone at the provider, without SOA and NS, each as its
// name, type and value.
func (fx *fixture) recordsHeld(t *testing.T) (all []string) {
	t.Helper()
	held, err := fx.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	for _, s := range held {
		for _, value := range s.Values {
			if s.Type != dns.SOA && s.Type != dns.NS {
				all = append(all, s.Name+" "+string(s.Type)+" "+value)
			}
		}
	}
	return slices.Sorted(slices.Values(all))
}

// requireManaged checks that exactly these records are managed, and that no write is open.
func (fx *fixture) requireManaged(t *testing.T, want ...string) {
	t.Helper()
	written, err := fx.store.Written(t.Context(), fx.acc.ID, fx.domain.ID)
	must(t, err)
	var got []string
	for _, v := range written {
		got = append(got, v.Name+" "+string(v.Type)+" "+v.Value)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managed (-want +got):\n%s", diff)
	}
	if open, err := fx.store.OpenWrites(t.Context(), fx.acc.ID, fx.domain.ID); err != nil || len(open) != 0 {
		t.Errorf("open: %+v, %v", open, err)
	}
}

// TestRefusedWriteOwnsNothing checks a job whose writes the provider refuses because the zone
// changed. If the customer then publishes the planned records, they are not managed.
func TestRefusedWriteOwnsNothing(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, changingZone{fx.provider})
	j := fx.run(t, fx.Worker, fx.begin(t).ID)
	if j.Required != provisioning.ZoneChanged {
		t.Fatalf("the job is %+v", j)
	}
	fx.requireManaged(t)
	v, err := fx.Domains.Survey(t.Context(), fx.acc.ID, fx.domain.ID)
	must(t, err)
	for _, c := range v.Plan.Changes {
		fx.provider.Put(zone, c.After)
	}
	fx.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	published := fx.recordsHeld(t)
	fx.providers.AddAccount("cloudflare", "token", fx.provider)
	_, err = fx.store.RetryJob(t.Context(), fx.acc.ID, j.ID, fx.clock, nil)
	must(t, err)
	fx.healthy(t, fx.run(t, fx.Worker, j.ID))
	fx.requireManaged(t, slices.DeleteFunc(fx.recordsHeld(t), func(r string) bool { return slices.Contains(published, r) })...)
}

// TestLostAnswerIsResolved loses the answer to the first write. Whether or not the write was made,
// the job succeeds, and all records at the provider are managed.
func TestLostAnswerIsResolved(t *testing.T) {
	for name, made := range map[string]bool{"the write was made": true, "the write was not made": false} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.connect(t, fx.provider)
			id := fx.begin(t).ID
			fx.provider.LoseNextAnswer(made)
			fx.healthy(t, fx.run(t, fx.Worker, id))
			fx.requireManaged(t, fx.recordsHeld(t)...)
		})
	}
}

// editedAfterLoss loses the answer to the first write. Before the next read, the customer adds a
// text to a set of the write.
type editedAfterLoss struct {
	*published
	edited *bool
}

func (p editedAfterLoss) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if *p.edited {
		return p.published.Apply(ctx, z, changes)
	}
	*p.edited = true
	p.LoseNextAnswer(true)
	sets, err := p.published.Apply(ctx, z, changes)
	held, _ := p.Records(ctx, z)
	texts := dns.Find(held, zone, dns.TXT)
	texts.Values = append(texts.Values, "of the customer")
	p.Put(zone, texts)
	p.show(ctx, z)
	return sets, err
}

// TestRecordsOfUnknownOriginAreForeign checks a write whose answer was lost and whose sets were
// edited before the next read. Its values may be the customer's, so none of them is managed.
func TestRecordsOfUnknownOriginAreForeign(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, editedAfterLoss{fx.provider, new(bool)})
	id := fx.begin(t).ID
	fx.runUntil(t, id, provisioning.StagePropagation)
	first := fx.recordsHeld(t)
	fx.requireManaged(t)
	j := fx.job(t, id)
	fx.wait(j.NextAttemptAt)
	if j = fx.run(t, fx.Worker, id); j.Status != provisioning.Completed {
		t.Fatalf("the job ended %+v", j)
	}
	fx.requireManaged(t, slices.DeleteFunc(fx.recordsHeld(t), func(r string) bool { return slices.Contains(first, r) })...)
}

// overlapping makes each write and reports that it overlapped with a change of someone else.
type overlapping struct{ *published }

func (p overlapping) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if _, err := p.published.Apply(ctx, z, changes); err != nil {
		return nil, err
	}
	return nil, dns.OverlappedError()
}

// TestOverlappingWriteStopsTheJob checks that a job stops with an action if its write may have
// overwritten a value, and that the written records are managed.
func TestOverlappingWriteStopsTheJob(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, overlapping{fx.provider})
	j := fx.run(t, fx.Worker, fx.begin(t).ID)
	if j.Required != provisioning.ZoneChanged || j.ZoneChanges != 0 {
		t.Fatalf("the job is %+v", j)
	}
	fx.requireManaged(t, fx.recordsHeld(t)...)
	fx.providers.AddAccount("cloudflare", "token", fx.provider)
	_, err := fx.store.RetryJob(t.Context(), fx.acc.ID, j.ID, fx.clock, nil)
	must(t, err)
	fx.healthy(t, fx.run(t, fx.Worker, j.ID))
}
