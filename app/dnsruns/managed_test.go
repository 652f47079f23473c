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
func (w *fixture) recordsHeld(t *testing.T) (all []string) {
	t.Helper()
	held, err := w.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
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
func (w *fixture) requireManaged(t *testing.T, want ...string) {
	t.Helper()
	written, err := w.store.Written(t.Context(), w.acc.ID, w.domain.ID)
	must(t, err)
	var got []string
	for _, v := range written {
		got = append(got, v.Name+" "+string(v.Type)+" "+v.Value)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managed (-want +got):\n%s", diff)
	}
	if open, err := w.store.OpenWrites(t.Context(), w.acc.ID, w.domain.ID); err != nil || len(open) != 0 {
		t.Errorf("open: %+v, %v", open, err)
	}
}

// TestRefusedWriteOwnsNothing checks a job whose writes the provider refuses because the zone
// changed. If the customer then publishes the planned records, they are not managed.
func TestRefusedWriteOwnsNothing(t *testing.T) {
	w := newFixture(t)
	w.connect(t, changingZone{w.provider})
	j := w.run(t, w.Worker, w.begin(t).ID)
	if j.Required != provisioning.ZoneChanged {
		t.Fatalf("the job is %+v", j)
	}
	w.requireManaged(t)
	v, err := w.Domains.Survey(t.Context(), w.acc.ID, w.domain.ID)
	must(t, err)
	for _, c := range v.Plan.Changes {
		w.provider.Put(zone, c.After)
	}
	w.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	published := w.recordsHeld(t)
	w.providers.Hold("cloudflare", "token", w.provider)
	_, err = w.store.RetryJob(t.Context(), w.acc.ID, j.ID, w.clock, nil)
	must(t, err)
	w.healthy(t, w.run(t, w.Worker, j.ID))
	w.requireManaged(t, slices.DeleteFunc(w.recordsHeld(t), func(r string) bool { return slices.Contains(published, r) })...)
}

// TestLostAnswerIsResolved checks that the values of a write whose answer was lost are managed
// exactly if the write was made.
func TestLostAnswerIsResolved(t *testing.T) {
	for name, made := range map[string]bool{"the write was made": true, "the write was not made": false} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.connect(t, w.provider)
			id := w.begin(t).ID
			w.provider.Lose(made)
			w.healthy(t, w.run(t, w.Worker, id))
			w.requireManaged(t, w.recordsHeld(t)...)
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
	p.Lose(true)
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
	w := newFixture(t)
	w.connect(t, editedAfterLoss{w.provider, new(bool)})
	id := w.begin(t).ID
	w.runUntil(t, id, provisioning.StagePropagation)
	first := w.recordsHeld(t)
	w.requireManaged(t)
	j := w.job(t, id)
	w.wait(j.NextAttemptAt)
	if j = w.run(t, w.Worker, id); j.Status != provisioning.Completed {
		t.Fatalf("the job ended %+v", j)
	}
	w.requireManaged(t, slices.DeleteFunc(w.recordsHeld(t), func(r string) bool { return slices.Contains(first, r) })...)
}

// overlapping makes each write and reports that it overlapped with a change of someone else.
type overlapping struct{ *published }

func (p overlapping) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if _, err := p.published.Apply(ctx, z, changes); err != nil {
		return nil, err
	}
	return nil, dns.Overlapped()
}

// TestOverlappingWriteStopsTheJob checks that a job stops with an action if its write may have
// overwritten a value, and that the written records are managed.
func TestOverlappingWriteStopsTheJob(t *testing.T) {
	w := newFixture(t)
	w.connect(t, overlapping{w.provider})
	j := w.run(t, w.Worker, w.begin(t).ID)
	if j.Required != provisioning.ZoneChanged || j.ZoneChanges != 0 {
		t.Fatalf("the job is %+v", j)
	}
	w.requireManaged(t, w.recordsHeld(t)...)
	w.providers.Hold("cloudflare", "token", w.provider)
	_, err := w.store.RetryJob(t.Context(), w.acc.ID, j.ID, w.clock, nil)
	must(t, err)
	w.healthy(t, w.run(t, w.Worker, j.ID))
}
