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
	mergedSPF = "v=spf1 a include:" + include + " ~all"
)

// runWrites are the writes of a run in two steps: texts first, then MX and autodiscover.
func runWrites() []dns.Write {
	texts := ttl(300, set("a.test", dns.TXT, oldSPF, "of the owner"))
	proved := ttl(300, set("a.test", dns.TXT, oldSPF, "of the owner", "MS=ms1"))
	merged := ttl(300, set("a.test", dns.TXT, mergedSPF, "of the owner", "MS=ms1"))
	mx, newMX := ttl(60, set("a.test", dns.MX, "0 "+oldHost, "32767 ms9.msv1.invalid")), ttl(60, set("a.test", dns.MX, "0 "+host))
	auto := ttl(3600, set("autodiscover.a.test", dns.CNAME, autodiscoverTarget))
	return []dns.Write{
		{Changes: []dns.Change{{Before: texts, After: proved}}, Written: []dns.Written{{Purpose: dns.Ownership, Name: "a.test", Type: dns.TXT, Value: "MS=ms1"}}},
		{
			Changes: []dns.Change{{Before: proved, After: merged}, {Before: mx, After: newMX}, {Before: set(auto.Name, dns.CNAME), After: auto}},
			Written: []dns.Written{
				{Purpose: dns.Sending, Name: "a.test", Type: dns.TXT, Value: mergedSPF, Replaced: oldSPF},
				{Purpose: dns.Inbound, Name: "a.test", Type: dns.MX, Value: "0 " + host, Replaced: "0 " + oldHost},
				{Purpose: dns.Autodiscover, Name: auto.Name, Type: dns.CNAME, Value: autodiscoverTarget},
			},
		},
	}
}

// afterRun returns the zone as the run left it, with the given sets in place of the run's.
func afterRun(instead ...dns.RRSet) []dns.RRSet {
	var sets []dns.RRSet
	for _, c := range runWrites()[1].Changes {
		if !slices.ContainsFunc(instead, func(s dns.RRSet) bool { return s.Name == c.After.Name && s.Type == c.After.Type }) {
			sets = append(sets, c.After)
		}
	}
	return append(sets, instead...)
}

func TestAnUndoRestoresOnlyUnchangedValues(t *testing.T) {
	texts := func(values ...string) dns.RRSet { return ttl(300, set("a.test", dns.TXT, values...)) }
	for _, tt := range []struct {
		name            string
		held            []dns.RRSet
		spf, proof      dns.UndoAction
		mx, leftover    dns.UndoAction
		auto            dns.UndoAction
		txtAfter, after []string // the values of TXT and MX after the undo
	}{
		{"nothing changed since", afterRun(), "restore", "remove", "restore", "restore", "remove",
			[]string{oldSPF, "of the owner"}, []string{"0 " + oldHost, "32767 ms9.msv1.invalid"}},
		{"a text was added since, which stays", afterRun(texts(mergedSPF, "MS=ms1", "new")), "restore", "remove", "restore", "restore", "remove",
			[]string{oldSPF, "new"}, []string{"0 " + oldHost, "32767 ms9.msv1.invalid"}},
		{"the SPF record was edited since", afterRun(texts("v=spf1 mx -all", "MS=ms1")), "changed_since", "remove", "restore", "restore", "remove",
			[]string{"v=spf1 mx -all"}, []string{"0 " + oldHost, "32767 ms9.msv1.invalid"}},
		{"the MX was edited since", afterRun(set("a.test", dns.MX, "5 mx.else.test")), "restore", "remove", "changed_since", "changed_since", "remove",
			[]string{oldSPF, "of the owner"}, []string{"5 mx.else.test"}},
		{"an MX was added since", afterRun(set("a.test", dns.MX, "0 "+host, "5 mx.else.test")), "restore", "remove", "restore", "changed_since", "remove",
			[]string{oldSPF, "of the owner"}, []string{"0 " + oldHost, "5 mx.else.test"}},
		{"the owner put all back", []dns.RRSet{texts(oldSPF), set("a.test", dns.MX, "0 "+oldHost, "32767 ms9.msv1.invalid")},
			"nothing_to_do", "nothing_to_do", "nothing_to_do", "nothing_to_do", "nothing_to_do",
			[]string{oldSPF}, []string{"0 " + oldHost, "32767 ms9.msv1.invalid"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := dns.NewUndo(tt.held, runWrites())
			got := map[string]dns.UndoAction{}
			for _, i := range u.Items {
				got[i.Name+" "+i.Written+"<"+i.Previous] = i.Action
			}
			want := map[string]dns.UndoAction{
				"a.test " + mergedSPF + "<" + oldSPF: tt.spf, "a.test MS=ms1<": tt.proof, "a.test 0 " + host + "<0 " + oldHost: tt.mx,
				"a.test <32767 ms9.msv1.invalid": tt.leftover, "autodiscover.a.test " + autodiscoverTarget + "<": tt.auto,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			open, err := dns.Outstanding(tt.held, u.Changes)
			if err != nil || len(open) != len(u.Changes) || dns.CheckChanges("a.test", u.Changes) != nil {
				t.Fatalf("a provider refuses %+v: %v", u.Changes, err)
			}
			p := dns.Plan{Changes: u.Changes}
			zone := dns.ZoneRead{Sets: tt.held}
			for typ, want := range map[dns.Type][]string{dns.TXT: tt.txtAfter, dns.MX: tt.after} {
				left := slices.Sorted(slices.Values(setAfter(p, zone, "a.test", typ)))
				if diff := cmp.Diff(slices.Sorted(slices.Values(want)), left); diff != "" {
					t.Errorf("%s after the undo: %s", typ, diff)
				}
			}
		})
	}
}

// An undo of a plan that was just written restores the zone, and a second undo has nothing to do.
func TestUndoRestoresWhatAPlanChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawZone(t)
		p := dns.NewPlan(offer(), s, drawManaged(t))
		next := applied(t, s, p)
		writes := []dns.Write{{Changes: p.Changes, Written: p.Writes}}
		u := dns.NewUndo(next.Sets, writes)
		back := applied(t, next, dns.Plan{Changes: u.Changes})
		for _, c := range p.Changes {
			if now := dns.Find(back.Sets, c.After.Name, c.After.Type); !sameDistinct(now.Values, c.Before.Values) {
				t.Fatalf("%+v, not %+v, after %+v", now, c.Before, u.Items)
			}
		}
		if again := dns.NewUndo(back.Sets, writes); len(again.Changes) != 0 {
			t.Fatalf("again: %+v", again)
		}
	})
}

// sameDistinct reports whether two lists have the same values. A plan merges equal SPF records.
func sameDistinct(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}
