// SPDX-License-Identifier: Apache-2.0

package dns_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
)

const (
	oldSPF    = "v=spf1 a ~all"
	mergedSPF = "v=spf1 a include:" + platformSPF + " ~all"
)

// runWrites returns the two writes of a run. The first write creates the ownership record. The
// second write merges SPF, replaces the MX and creates autodiscover.
func runWrites() []dns.Write {
	textsBefore := withTTL(300, rrset("a.test", dns.TXT, oldSPF, "of the owner"))
	withOwnership := withTTL(300, rrset("a.test", dns.TXT, oldSPF, "of the owner", "MS=ms1"))
	withMergedSPF := withTTL(300, rrset("a.test", dns.TXT, mergedSPF, "of the owner", "MS=ms1"))
	oldMX, newMX := withTTL(60, rrset("a.test", dns.MX, "0 "+previousMX, "32767 ms9.msv1.invalid")), withTTL(60, rrset("a.test", dns.MX, "0 "+platformMX))
	autodiscover := withTTL(3600, rrset("autodiscover.a.test", dns.CNAME, autodiscoverTarget))
	return []dns.Write{
		{Changes: []dns.Change{{Before: textsBefore, After: withOwnership}}, Written: []dns.Written{{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"}}},
		{
			Changes: []dns.Change{{Before: withOwnership, After: withMergedSPF}, {Before: oldMX, After: newMX}, {Before: rrset(autodiscover.Name, dns.CNAME), After: autodiscover}},
			Written: []dns.Written{
				{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: mergedSPF, Replaced: oldSPF},
				{Purpose: dns.Inbound, Name: "a.test", Type: dns.MX, Value: "0 " + platformMX, Replaced: "0 " + previousMX},
				{Purpose: dns.Autodiscover, Name: autodiscover.Name, Type: dns.CNAME, Value: autodiscoverTarget},
			},
		},
	}
}

// afterRun returns the record sets after the run. Each set in changed replaces the set with the
// same name and type.
func afterRun(changed ...dns.RRSet) []dns.RRSet {
	var sets []dns.RRSet
	for _, c := range runWrites()[1].Changes {
		if !slices.ContainsFunc(changed, func(s dns.RRSet) bool { return s.Name == c.After.Name && s.Type == c.After.Type }) {
			sets = append(sets, c.After)
		}
	}
	return append(sets, changed...)
}

func TestAnUndoRestoresOnlyUnchangedValues(t *testing.T) {
	texts := func(values ...string) dns.RRSet { return withTTL(300, rrset("a.test", dns.TXT, values...)) }
	for _, tc := range []struct {
		name                      string
		current                   []dns.RRSet
		wantSPF, wantOwnership    dns.UndoAction
		wantMX, wantLeftover      dns.UndoAction
		wantAutodiscover          dns.UndoAction
		wantTXTAfter, wantMXAfter []string // the values of TXT and MX after the undo
	}{
		{"nothing changed after the run", afterRun(), "restore", "remove", "restore", "restore", "remove",
			[]string{oldSPF, "of the owner"}, []string{"0 " + previousMX, "32767 ms9.msv1.invalid"}},
		{"a foreign text was replaced after the run, and the new text stays", afterRun(texts(mergedSPF, "MS=ms1", "new")), "restore", "remove", "restore", "restore", "remove",
			[]string{oldSPF, "new"}, []string{"0 " + previousMX, "32767 ms9.msv1.invalid"}},
		{"the SPF record was edited after the run", afterRun(texts("v=spf1 mx -all", "MS=ms1")), "changed_since", "remove", "restore", "restore", "remove",
			[]string{"v=spf1 mx -all"}, []string{"0 " + previousMX, "32767 ms9.msv1.invalid"}},
		{"the MX was edited after the run", afterRun(rrset("a.test", dns.MX, "5 mx.else.test")), "restore", "remove", "changed_since", "changed_since", "remove",
			[]string{oldSPF, "of the owner"}, []string{"5 mx.else.test"}},
		{"an MX was added after the run", afterRun(rrset("a.test", dns.MX, "0 "+platformMX, "5 mx.else.test")), "restore", "remove", "restore", "changed_since", "remove",
			[]string{oldSPF, "of the owner"}, []string{"0 " + previousMX, "5 mx.else.test"}},
		{"the owner restored all records", []dns.RRSet{texts(oldSPF), rrset("a.test", dns.MX, "0 "+previousMX, "32767 ms9.msv1.invalid")},
			"nothing_to_do", "nothing_to_do", "nothing_to_do", "nothing_to_do", "nothing_to_do",
			[]string{oldSPF}, []string{"0 " + previousMX, "32767 ms9.msv1.invalid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			undo := dns.NewUndo(tc.current, runWrites())
			got := map[string]dns.UndoAction{}
			for _, i := range undo.Items {
				got[i.Name+" "+i.Written+"<"+i.Previous] = i.Action
			}
			want := map[string]dns.UndoAction{
				"a.test " + mergedSPF + "<" + oldSPF: tc.wantSPF, "a.test MS=ms1<": tc.wantOwnership, "a.test 0 " + platformMX + "<0 " + previousMX: tc.wantMX,
				"a.test <32767 ms9.msv1.invalid": tc.wantLeftover, "autodiscover.a.test " + autodiscoverTarget + "<": tc.wantAutodiscover,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			outstanding, err := dns.Outstanding(tc.current, undo.Changes)
			if err != nil || len(outstanding) != len(undo.Changes) || dns.CheckChanges("a.test", undo.Changes) != nil {
				t.Fatalf("a provider refuses %+v: %v", undo.Changes, err)
			}
			undoPlan := dns.Plan{Changes: undo.Changes}
			zone := dns.ZoneRead{Sets: tc.current}
			for recordType, wantValues := range map[dns.Type][]string{dns.TXT: tc.wantTXTAfter, dns.MX: tc.wantMXAfter} {
				values := slices.Sorted(slices.Values(valuesAfter(undoPlan, zone, "a.test", recordType)))
				if diff := cmp.Diff(slices.Sorted(slices.Values(wantValues)), values); diff != "" {
					t.Errorf("the values of %s after the undo (-want +got):\n%s", recordType, diff)
				}
			}
		})
	}
}

// TestUndoRestoresWhatAPlanChanged checks that an undo directly after the write of a plan restores
// the zone, and that a second undo has nothing to do.
func TestUndoRestoresWhatAPlanChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawZone(t)
		plan := dns.NewPlan(offer(), before, drawManaged(t))
		readAfterPlan := readAfter(t, before, plan)
		writes := []dns.Write{{Changes: plan.Changes, Written: plan.Writes}}
		undo := dns.NewUndo(readAfterPlan.Sets, writes)
		readAfterUndo := readAfter(t, readAfterPlan, dns.Plan{Changes: undo.Changes})
		for _, c := range plan.Changes {
			if restoredSet := dns.Find(readAfterUndo.Sets, c.After.Name, c.After.Type); !sameDistinct(restoredSet.Values, c.Before.Values) {
				t.Fatalf("the undo leaves %+v, want %+v: %+v", restoredSet, c.Before, undo.Items)
			}
		}
		if secondUndo := dns.NewUndo(readAfterUndo.Sets, writes); len(secondUndo.Changes) != 0 {
			t.Fatalf("a second undo has changes: %+v", secondUndo)
		}
	})
}

// sameDistinct reports whether two lists contain the same values. It ignores repetitions, because a
// plan merges equal SPF records.
func sameDistinct(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}
