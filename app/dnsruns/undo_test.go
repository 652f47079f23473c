// SPDX-License-Identifier: Apache-2.0

package dnsruns

import (
	"errors"
	"slices"
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

// undo returns the undo over the fixture's store and providers.
func (w *fixture) undo() *Undo { return &Undo{Writes: w.store, Zones: w.Domains, Now: w.Now} }

// withRecords adds records of the customer to the zone, and connects the account.
func (w *fixture) withRecords(t *testing.T) {
	t.Helper()
	w.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.TXT, TTL: 300, Values: []string{customersSPF, customersText}})
	w.provider.Put(zone, dns.RRSet{Name: zone, Type: dns.MX, TTL: 300, Values: []string{"32767 ms99.msv1.invalid"}})
	w.provider.show(t.Context(), dns.Zone{ID: zone, Name: zone})
	w.connect(t, w.provider)
}

// undoActions returns the number of values for each action of an undo.
func undoActions(zones []UndoneZone) map[dns.UndoAction]int {
	counts := map[dns.UndoAction]int{}
	for _, z := range zones {
		for _, i := range z.Items {
			counts[i.Action]++
		}
	}
	return counts
}

func (w *fixture) requireHeld(t *testing.T, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, w.recordsHeld(t)); diff != "" {
		t.Errorf("the zone (-want +got):\n%s", diff)
	}
}

func TestUndoPutsBackWhatARunChanged(t *testing.T) {
	w := newFixture(t)
	w.withRecords(t)
	before := w.recordsHeld(t)
	j := w.run(t, w.Worker, w.begin(t).ID)
	if j.Status != provisioning.Completed {
		t.Fatalf("the job ended %+v", j)
	}
	after := w.recordsHeld(t)
	planned, err := w.undo().Plan(t.Context(), j.RunID)
	must(t, err)
	w.requireHeld(t, after)
	w.requireManaged(t, slices.DeleteFunc(slices.Clone(after), func(r string) bool { return slices.Contains(before, r) })...)
	done, err := w.undo().Run(t.Context(), j.RunID)
	must(t, err)
	w.requireHeld(t, before)
	w.requireManaged(t)
	if diff := cmp.Diff(undoActions(planned), undoActions(done)); diff != "" || undoActions(done)[dns.UndoLeave] != 0 {
		t.Errorf("planned and done: %v, %s", undoActions(done), diff)
	}

	// The customer publishes a record that equals one of the run's records. A second undo does not
	// change it.
	w.provider.Put(zone, dns.RRSet{Name: "autodiscover." + zone, Type: dns.CNAME, TTL: 300, Values: []string{"autodiscover.outlook.com"}})
	customers := w.recordsHeld(t)
	if again, err := w.undo().Run(t.Context(), j.RunID); err != nil || len(again) != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	w.requireHeld(t, customers)
	events, err := w.store.AuditEvents(t.Context(), ports.AuditQuery{Limit: 10})
	must(t, err)
	if n := len(slices.DeleteFunc(events, func(e audit.Event) bool { return e.Action != audit.UndoDNS })); n != 1 {
		t.Errorf("%d audit events", n)
	}
}

func TestUndoLeavesAloneWhatWasChangedSince(t *testing.T) {
	w := newFixture(t)
	w.withRecords(t)
	j := w.run(t, w.Worker, w.begin(t).ID)
	held, err := w.provider.Records(t.Context(), dns.Zone{ID: zone, Name: zone})
	must(t, err)
	texts := dns.Find(held, zone, dns.TXT)
	i := slices.IndexFunc(texts.Values, func(v string) bool { return len(v) > 6 && v[:6] == "v=spf1" })
	texts.Values[i] = "v=spf1 -all"
	texts.Values = append(texts.Values, "added since")
	w.provider.Put(zone, texts)
	w.provider.Put(zone, dns.RRSet{Name: "_dmarc." + zone, Type: dns.TXT})
	done, err := w.undo().Run(t.Context(), j.RunID)
	must(t, err)
	counts := undoActions(done)
	if counts[dns.UndoLeave] != 1 || counts[dns.UndoNothing] != 1 {
		t.Errorf("got %v", counts)
	}
	w.requireHeld(t, []string{
		zone + " MX 32767 ms99.msv1.invalid", zone + " TXT added since", zone + " TXT " + customersText, zone + " TXT v=spf1 -all",
	})
}

// TestUndoEndsTheRun checks that a waiting job of the run does not write the records again.
func TestUndoEndsTheRun(t *testing.T) {
	w := newFixture(t)
	w.withRecords(t)
	before := w.recordsHeld(t)
	id := w.begin(t).ID
	j := w.runUntil(t, id, provisioning.StagePropagation)
	_, err := w.undo().Run(t.Context(), j.RunID)
	must(t, err)
	w.requireHeld(t, before)
	w.wait(j.NextAttemptAt)
	must(t, w.Handle(t.Context(), ports.Wakeup{Kind: Kind, ID: id}))
	if j = w.job(t, id); j.Status != provisioning.Failed || j.Message == "" {
		t.Errorf("the job is %+v", j)
	}
	w.requireHeld(t, before)
}

// TestUndoIncludesAWriteWhoseAnswerWasLost undoes a run whose job has not yet seen the outcome of
// its write.
func TestUndoIncludesAWriteWhoseAnswerWasLost(t *testing.T) {
	w := newFixture(t)
	w.withRecords(t)
	before := w.recordsHeld(t)
	id := w.begin(t).ID
	w.provider.Lose(true)
	j := w.runUntil(t, id, provisioning.StageApply)
	if slices.Equal(before, w.recordsHeld(t)) {
		t.Fatal("nothing was written")
	}
	_, err := w.undo().Run(t.Context(), j.RunID)
	must(t, err)
	w.requireHeld(t, before)
	w.requireManaged(t)
}

// TestInterruptedUndoIsRepeated checks that a repeated undo finishes after the provider's answer
// was lost.
func TestInterruptedUndoIsRepeated(t *testing.T) {
	for name, made := range map[string]bool{"the write was made": true, "the write was not made": false} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.withRecords(t)
			before := w.recordsHeld(t)
			j := w.run(t, w.Worker, w.begin(t).ID)
			w.provider.Lose(made)
			if _, err := w.undo().Run(t.Context(), j.RunID); err == nil {
				t.Fatal("the answer was lost without an error")
			}
			w.requireManaged(t)
			_, err := w.undo().Run(t.Context(), j.RunID)
			must(t, err)
			w.requireHeld(t, before)
			if left, err := w.undo().Plan(t.Context(), j.RunID); err != nil || len(left) != 0 {
				t.Errorf("left: %+v, %v", left, err)
			}
		})
	}
}

func TestUndoNeedsTheRunAndItsZone(t *testing.T) {
	w := newFixture(t)
	w.withRecords(t)
	if _, err := w.undo().Run(t.Context(), w.domain.ID); !errors.Is(err, fault.RunNotFound) {
		t.Errorf("an unknown run: %v", err)
	}
	j := w.run(t, w.Worker, w.begin(t).ID)
	after := w.recordsHeld(t)
	connections, err := w.Domains.Connections.List(t.Context(), w.acc.ID)
	must(t, err)
	for _, c := range connections {
		_, err := w.Domains.Connections.Remove(t.Context(), c.ID)
		must(t, err)
	}
	managed, err := w.store.Written(t.Context(), w.acc.ID, w.domain.ID)
	must(t, err)
	if _, err := w.undo().Run(t.Context(), j.RunID); !errors.Is(err, fault.ConnectionRequired) {
		t.Errorf("without a connection: %v", err)
	}
	w.requireHeld(t, after)
	if still, err := w.store.Written(t.Context(), w.acc.ID, w.domain.ID); err != nil || !slices.Equal(managed, still) {
		t.Errorf("managed after a refused undo: %+v, %v", still, err)
	}
	w.connect(t, w.provider)
	_, err = w.undo().Run(t.Context(), j.RunID)
	must(t, err)
	if slices.Equal(after, w.recordsHeld(t)) {
		t.Error("with a connection nothing was put back")
	}
}
