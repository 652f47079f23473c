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

// providerRecords returns the records of the zone at the provider, except SOA and NS. Each record
// is a text with its name, type and value.
func (fx *fixture) providerRecords(t *testing.T) (records []string) {
	t.Helper()
	recordSets, err := fx.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	for _, s := range recordSets {
		for _, value := range s.Values {
			if s.Type != dns.SOA && s.Type != dns.NS {
				records = append(records, s.Name+" "+string(s.Type)+" "+value)
			}
		}
	}
	return slices.Sorted(slices.Values(records))
}

// requireManaged requires that exactly these records are managed, and that no write has an unknown
// outcome.
func (fx *fixture) requireManaged(t *testing.T, want ...string) {
	t.Helper()
	written, err := fx.store.Written(t.Context(), fx.account.ID, fx.domain.ID)
	must(t, err)
	var got []string
	for _, v := range written {
		got = append(got, v.Name+" "+string(v.Type)+" "+v.Value)
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("managed records (-want +got):\n%s", diff)
	}
	if unresolved, err := fx.store.OpenWrites(t.Context(), fx.account.ID, fx.domain.ID); err != nil || len(unresolved) != 0 {
		t.Errorf("the writes with an unknown outcome are %+v, %v, want none", unresolved, err)
	}
}

// TestRecordsAfterARefusedWriteAreForeign checks a job whose writes the provider refuses, because
// the zone changed. If the customer then publishes the planned records, tenantry does not manage
// them.
func TestRecordsAfterARefusedWriteAreForeign(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, changingZoneProvider{fx.provider})
	j := fx.run(t, fx.Worker, fx.createJob(t).ID)
	if j.RequiredAction != provisioning.ZoneChanged {
		t.Fatalf("the job is %+v, want the action for a changed zone", j)
	}
	fx.requireManaged(t)
	survey, err := fx.Domains.Survey(t.Context(), fx.account.ID, fx.domain.ID)
	must(t, err)
	for _, c := range survey.Plan.Changes {
		fx.provider.Put(zone, c.After)
	}
	fx.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	byCustomer := fx.providerRecords(t)
	fx.providers.AddAccount("cloudflare", "token", fx.provider)
	_, err = fx.store.RetryJob(t.Context(), fx.account.ID, j.ID, fx.clock, nil)
	must(t, err)
	fx.requireHealthy(t, fx.run(t, fx.Worker, j.ID))
	fx.requireManaged(t, slices.DeleteFunc(fx.providerRecords(t), func(r string) bool { return slices.Contains(byCustomer, r) })...)
}

// TestLostAnswerIsResolved loses the answer to the first write. Whether or not the write was made,
// the job succeeds, and all records at the provider are managed.
func TestLostAnswerIsResolved(t *testing.T) {
	for name, wasMade := range map[string]bool{"the write was made": true, "the write was not made": false} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.connect(t, fx.provider)
			id := fx.createJob(t).ID
			fx.provider.LoseNextAnswer(wasMade)
			fx.requireHealthy(t, fx.run(t, fx.Worker, id))
			fx.requireManaged(t, fx.providerRecords(t)...)
		})
	}
}

// editingProvider loses the answer to the first write. Before the next read, the customer adds a
// text to a record set that the write changed.
type editingProvider struct {
	*publishingProvider
	edited *bool // whether the customer has added the text
}

func (p editingProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if *p.edited {
		return p.publishingProvider.Apply(ctx, z, changes)
	}
	*p.edited = true
	p.LoseNextAnswer(true)
	sets, err := p.publishingProvider.Apply(ctx, z, changes)
	recordSets, _ := p.Records(ctx, z)
	txtSet := dns.Find(recordSets, zone, dns.TXT)
	txtSet.Values = append(txtSet.Values, "of the customer")
	p.Put(zone, txtSet)
	p.show(ctx, z)
	return sets, err
}

// TestRecordsOfUnknownOriginAreForeign checks a write whose answer was lost. Before the next read,
// the customer edits one of the written record sets. The values of the write may be the customer's,
// so tenantry manages none of these values.
func TestRecordsOfUnknownOriginAreForeign(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, editingProvider{fx.provider, new(bool)})
	id := fx.createJob(t).ID
	fx.runUntil(t, id, provisioning.StagePropagation)
	afterFirstWrite := fx.providerRecords(t)
	fx.requireManaged(t)
	j := fx.job(t, id)
	fx.wait(j.NextAttemptAt)
	if j = fx.run(t, fx.Worker, id); j.Status != provisioning.Completed {
		t.Fatalf("the job is %+v, want it completed", j)
	}
	fx.requireManaged(t, slices.DeleteFunc(fx.providerRecords(t), func(r string) bool { return slices.Contains(afterFirstWrite, r) })...)
}

// overlappingProvider makes each write and reports that the write overlapped with a change of
// someone else.
type overlappingProvider struct{ *publishingProvider }

func (p overlappingProvider) Apply(ctx context.Context, z dns.Zone, changes []dns.Change) ([]dns.RRSet, error) {
	if _, err := p.publishingProvider.Apply(ctx, z, changes); err != nil {
		return nil, err
	}
	return nil, dns.OverlappedError()
}

// TestOverlappingWriteStopsTheJob checks a job whose write may have overwritten a value of someone
// else. The job stops with the required action ZoneChanged, and the written records are managed.
func TestOverlappingWriteStopsTheJob(t *testing.T) {
	fx := newFixture(t)
	fx.connect(t, overlappingProvider{fx.provider})
	j := fx.run(t, fx.Worker, fx.createJob(t).ID)
	if j.RequiredAction != provisioning.ZoneChanged || j.ZoneChanges != 0 {
		t.Fatalf("the job is %+v, want the action for a changed zone", j)
	}
	fx.requireManaged(t, fx.providerRecords(t)...)
	fx.providers.AddAccount("cloudflare", "token", fx.provider)
	_, err := fx.store.RetryJob(t.Context(), fx.account.ID, j.ID, fx.clock, nil)
	must(t, err)
	fx.requireHealthy(t, fx.run(t, fx.Worker, j.ID))
}
