// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

const (
	customersSPF  = "v=spf1 ip4:192.0.2.7 ~all"
	customersText = "site-verification=7"
)

func (fx *fixture) undo() *Undo { return &Undo{Writes: fx.store, Zones: fx.Domains, Now: fx.Now} }

// addCustomerRecords adds records of the customer to the zone, and connects the account to the
// provider.
func (fx *fixture) addCustomerRecords(t *testing.T) {
	t.Helper()
	fx.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.TXT, TTL: 300, Values: []string{customersSPF, customersText}})
	fx.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"32767 ms99.msv1.invalid"}})
	fx.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	fx.connect(t, fx.provider)
}

// undoActions returns the number of values for each action of an undo.
func undoActions(zones []ZoneUndo) map[dns.UndoAction]int {
	counts := map[dns.UndoAction]int{}
	for _, z := range zones {
		for _, i := range z.Items {
			counts[i.Action]++
		}
	}
	return counts
}

func (fx *fixture) requireRecords(t *testing.T, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, fx.providerRecords(t)); diff != "" {
		t.Errorf("the zone (-want +got):\n%s", diff)
	}
}

func TestUndoRestoresWhatARunChanged(t *testing.T) {
	fx := newFixture(t)
	fx.addCustomerRecords(t)
	recordsBefore := fx.providerRecords(t)
	j := fx.run(t, fx.Worker, fx.createJob(t).ID)
	if j.Status != provisioning.Completed {
		t.Fatalf("the job is %+v, want it completed", j)
	}
	recordsAfter := fx.providerRecords(t)
	planned, err := fx.undo().Plan(t.Context(), j.RunID)
	must(t, err)
	fx.requireRecords(t, recordsAfter)
	fx.requireManaged(t, slices.DeleteFunc(slices.Clone(recordsAfter), func(r string) bool { return slices.Contains(recordsBefore, r) })...)
	undone, err := fx.undo().Run(t.Context(), j.RunID)
	must(t, err)
	fx.requireRecords(t, recordsBefore)
	fx.requireManaged(t)
	if diff := cmp.Diff(undoActions(planned), undoActions(undone)); diff != "" || undoActions(undone)[dns.UndoLeave] != 0 {
		t.Errorf("the actions of the undo are %v, want those of its plan and no UndoLeave (-plan +undo):\n%s", undoActions(undone), diff)
	}

	// The customer publishes a record that equals one of the run's records. A second undo does not
	// change this record.
	fx.provider.Put(zone, dns.RRSet{Name: "autodiscover." + zone, Type: dns.CNAME, TTL: 300, Values: []string{"autodiscover.outlook.com"}})
	withCustomersRecord := fx.providerRecords(t)
	if undoneAgain, err := fx.undo().Run(t.Context(), j.RunID); err != nil || len(undoneAgain) != 0 {
		t.Errorf("a second undo changed %+v, %v, want nothing", undoneAgain, err)
	}
	fx.requireRecords(t, withCustomersRecord)
	events, err := fx.store.AuditEvents(t.Context(), ports.AuditQuery{Limit: 10})
	must(t, err)
	if n := len(slices.DeleteFunc(events, func(e audit.Event) bool { return e.Action != audit.UndoDNS })); n != 1 {
		t.Errorf("%d undos are in the audit log, want 1", n)
	}
}

func TestUndoKeepsValuesThatWereChangedSince(t *testing.T) {
	fx := newFixture(t)
	fx.addCustomerRecords(t)
	j := fx.run(t, fx.Worker, fx.createJob(t).ID)
	records, err := fx.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	texts := dns.Find(records, zone, dns.TXT)
	spfIndex := slices.IndexFunc(texts.Values, func(v string) bool { return strings.HasPrefix(v, "v=spf1 ") })
	texts.Values[spfIndex] = "v=spf1 -all"
	texts.Values = append(texts.Values, "added later")
	fx.provider.Put(zone, texts)
	fx.provider.Put(zone, dns.RRSet{Name: "_dmarc." + zone, Type: dns.TXT})
	undone, err := fx.undo().Run(t.Context(), j.RunID)
	must(t, err)
	counts := undoActions(undone)
	if counts[dns.UndoLeave] != 1 || counts[dns.UndoNothing] != 1 {
		t.Errorf("the actions of the undo are %v, want one UndoLeave and one UndoNothing", counts)
	}
	fx.requireRecords(t, []string{
		zone + " MX 32767 ms99.msv1.invalid", zone + " TXT added later", zone + " TXT " + customersText, zone + " TXT v=spf1 -all",
	})
}

// TestUndoEndsTheRun checks that a waiting job of the run does not write the records again.
func TestUndoEndsTheRun(t *testing.T) {
	fx := newFixture(t)
	fx.addCustomerRecords(t)
	recordsBefore := fx.providerRecords(t)
	id := fx.createJob(t).ID
	j := fx.runUntil(t, id, provisioning.StagePropagation)
	_, err := fx.undo().Run(t.Context(), j.RunID)
	must(t, err)
	fx.requireRecords(t, recordsBefore)
	fx.wait(j.NextAttemptAt)
	must(t, fx.Handle(t.Context(), ports.Wakeup{Kind: Kind, ID: id}))
	if j = fx.job(t, id); j.Status != provisioning.Failed || j.Message == "" {
		t.Errorf("the job is %+v, want it failed with a message", j)
	}
	fx.requireRecords(t, recordsBefore)
}

// TestUndoIncludesAWriteWhoseAnswerWasLost undoes a run whose job has not yet seen the outcome of
// its write.
func TestUndoIncludesAWriteWhoseAnswerWasLost(t *testing.T) {
	fx := newFixture(t)
	fx.addCustomerRecords(t)
	recordsBefore := fx.providerRecords(t)
	id := fx.createJob(t).ID
	fx.provider.LoseNextAnswer(true)
	j := fx.runUntil(t, id, provisioning.StageApply)
	if slices.Equal(recordsBefore, fx.providerRecords(t)) {
		t.Fatal("the write whose answer was lost did not take effect")
	}
	_, err := fx.undo().Run(t.Context(), j.RunID)
	must(t, err)
	fx.requireRecords(t, recordsBefore)
	fx.requireManaged(t)
}

// TestInterruptedUndoIsRepeated checks that a repeated undo finishes after the provider's answer
// was lost.
func TestInterruptedUndoIsRepeated(t *testing.T) {
	for name, wasMade := range map[string]bool{"the write was made": true, "the write was not made": false} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.addCustomerRecords(t)
			recordsBefore := fx.providerRecords(t)
			j := fx.run(t, fx.Worker, fx.createJob(t).ID)
			fx.provider.LoseNextAnswer(wasMade)
			if _, err := fx.undo().Run(t.Context(), j.RunID); err == nil {
				t.Fatal("the undo succeeded although the provider's answer was lost")
			}
			fx.requireManaged(t)
			_, err := fx.undo().Run(t.Context(), j.RunID)
			must(t, err)
			fx.requireRecords(t, recordsBefore)
			if remaining, err := fx.undo().Plan(t.Context(), j.RunID); err != nil || len(remaining) != 0 {
				t.Errorf("the plan of a further undo is %+v, %v, want it empty", remaining, err)
			}
		})
	}
}

func TestUndoNeedsTheRunAndItsZone(t *testing.T) {
	fx := newFixture(t)
	fx.addCustomerRecords(t)
	if _, err := fx.undo().Run(t.Context(), fx.domain.ID); !errors.Is(err, fault.RunNotFound) {
		t.Errorf("an unknown run: got %v, want provisioning_run_not_found", err)
	}
	j := fx.run(t, fx.Worker, fx.createJob(t).ID)
	recordsAfter := fx.providerRecords(t)
	connections, err := fx.Domains.Connections.List(t.Context(), fx.account.ID)
	must(t, err)
	for _, c := range connections {
		_, err := fx.Domains.Connections.Remove(t.Context(), c.ID)
		must(t, err)
	}
	managed, err := fx.store.Written(t.Context(), fx.account.ID, fx.domain.ID)
	must(t, err)
	if _, err := fx.undo().Run(t.Context(), j.RunID); !errors.Is(err, fault.ConnectionRequired) {
		t.Errorf("without a connection: got %v, want connection_required", err)
	}
	fx.requireRecords(t, recordsAfter)
	if afterRefusal, err := fx.store.Written(t.Context(), fx.account.ID, fx.domain.ID); err != nil || !slices.Equal(managed, afterRefusal) {
		t.Errorf("after a refused undo the managed records are %+v, %v, want %+v", afterRefusal, err, managed)
	}
	fx.connect(t, fx.provider)
	_, err = fx.undo().Run(t.Context(), j.RunID)
	must(t, err)
	if slices.Equal(recordsAfter, fx.providerRecords(t)) {
		t.Error("with a connection the undo changed nothing")
	}
}
