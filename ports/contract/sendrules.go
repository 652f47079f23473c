// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

var ruleChecks = []check{
	{"without mailboxes no rule is made", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		for _, set := range []func() (sendlimit.Rule, error){
			func() (sendlimit.Rule, error) { return s.client.EnsureRule(call(t), s.domain, nil) },
			func() (sendlimit.Rule, error) { return s.client.Block(call(t), s.domain, []string{}) },
		} {
			r, err := set()
			must(t, "set", err)
			if !cmp.Equal(r, sendlimit.Rule{}) || len(w.Rules(t, s.who.GUID)) != 0 {
				t.Fatalf("got %+v, and the platform holds %v", r, w.Rules(t, s.who.GUID))
			}
		}
	}},
	{"a rule is made once, switched off", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		r, err := s.client.EnsureRule(call(t), s.domain, s.boxes)
		must(t, "ensure", err)
		want := sendlimit.Rule{ID: r.ID, Name: sendlimit.RuleName(s.domain), Lists: s.boxes, Made: true, Written: true}
		if r.ID == "" || !cmp.Equal(r, want) {
			t.Fatalf("made %+v, want %+v", r, want)
		}
		again, err := s.client.EnsureRule(call(t), s.domain, s.boxes[:1])
		must(t, "ensure again", err)
		if want.Made, want.Written = false, false; !cmp.Equal(again, want) {
			t.Fatalf("again %+v, want %+v", again, want)
		}
		s.stops(t, w)
	}},
	{"a rule blocks exactly its list", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		s.blocks(t, s.domain, true, s.boxes[0])
		s.stops(t, w, s.boxes[0])
		s.blocks(t, s.domain, true, s.boxes[1], s.boxes[2])
		s.stops(t, w, s.boxes[1:]...)
		s.blocks(t, s.domain, true)
		s.stops(t, w)
		s.blocks(t, s.domain, true, s.boxes...)
		s.stops(t, w, s.boxes...)
	}},
	{"a rule that is right is not written", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		s.blocks(t, s.domain, true, s.boxes[0])
		s.blocks(t, s.domain, false, s.boxes[0])
		s.blocks(t, s.domain, true)
		s.blocks(t, s.domain, false)
	}},
	{"addresses are listed in lower case, in order, once", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		r, err := s.client.Block(call(t), s.domain, []string{s.boxes[1], strings.ToUpper(s.boxes[0]), s.boxes[1]})
		must(t, "block", err)
		if !slices.Equal(r.Lists, s.boxes[:2]) || !slices.Equal(r.Blocks(), s.boxes[:2]) {
			t.Fatalf("got %+v, want %v", r, s.boxes[:2])
		}
	}},
	{"each scope has a rule of its own", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		long := strings.Repeat("long-", 12) + s.domain
		ids := map[string]bool{}
		for i, scope := range []string{sendlimit.TenantWide, s.domain, long} {
			r := s.blocks(t, scope, true, s.boxes[i])
			ids[r.ID] = true
		}
		if len(ids) != 3 || len(w.Rules(t, s.who.GUID)) != 3 {
			t.Fatalf("the platform holds %v", w.Rules(t, s.who.GUID))
		}
		s.blocks(t, s.domain, true)
		s.stops(t, w, s.boxes[0], s.boxes[2])
	}},
	{"what others made of a rule is put right", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		s.blocks(t, s.domain, true, s.boxes[0])
		name := sendlimit.RuleName(s.domain)
		for what, other := range map[string]sendlimit.Rule{
			"switched off":    {Name: name, Lists: s.boxes[:1]},
			"another list":    {Name: name, Enabled: true, Lists: s.boxes[1:]},
			"everybody's":     {Name: name, Enabled: true},
			"a longer list":   {Name: name, Enabled: true, Lists: s.boxes},
			"off and another": {Name: name, Lists: s.boxes[2:]},
		} {
			w.SetRule(t, s.who.GUID, other)
			r, err := s.client.Block(call(t), s.domain, s.boxes[:1])
			if must(t, what, err); !r.Written || !slices.Equal(r.Blocks(), s.boxes[:1]) {
				t.Fatalf("%s: %+v", what, r)
			}
			w.SetRule(t, s.who.GUID, other)
			r, err = s.client.Block(call(t), s.domain, nil)
			if must(t, what, err); r.Written != other.Enabled || len(r.Blocks()) != 0 {
				t.Fatalf("%s, to be off: %+v", what, r)
			}
			s.stops(t, w)
		}
	}},
	{"a rule that was there is adopted", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		w.SetRule(t, s.who.GUID, sendlimit.Rule{Name: sendlimit.RuleName(s.domain), Enabled: true, Lists: s.boxes[2:]})
		r, err := s.client.EnsureRule(call(t), s.domain, s.boxes)
		must(t, "ensure", err)
		if r.ID == "" || r.Made || !slices.Equal(r.Blocks(), s.boxes[2:]) {
			t.Fatalf("found %+v", r)
		}
		if s.blocks(t, s.domain, true, s.boxes[0]); len(w.Rules(t, s.who.GUID)) != 1 {
			t.Fatalf("the platform holds %v", w.Rules(t, s.who.GUID))
		}
	}},
	{"our rules are listed as they are, others' are not", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		s.lists(t, w)
		w.SetRule(t, s.who.GUID, sendlimit.Rule{Name: "tenantry-block-something", Enabled: true, Lists: s.boxes[2:]})
		s.lists(t, w)
		wide := s.blocks(t, sendlimit.TenantWide, true, s.boxes[0])
		s.lists(t, w, wide)
		own := s.blocks(t, s.domain, true, s.boxes[1:]...)
		s.lists(t, w, own, wide)
		off := s.blocks(t, s.domain, true)
		s.lists(t, w, off, wide)
		w.SetRule(t, s.who.GUID, sendlimit.Rule{Name: wide.Name, Enabled: true, Lists: s.boxes[1:]})
		wide.Lists = s.boxes[1:]
		s.lists(t, w, off, wide)
	}},
	{"a rule that acts and is not as ours are is told apart, until it is put right", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		w.SetRule(t, s.who.GUID, sendlimit.Rule{Name: sendlimit.RuleName(s.domain), Enabled: true, Lists: s.boxes[:1]})
		all, err := s.client.Rules(call(t))
		if must(t, "list rules", err); len(all) != 1 || !all[0].Altered || all[0].Right(s.boxes[:1]) {
			t.Fatalf("got %+v", all)
		}
		r := s.blocks(t, s.domain, true, s.boxes[0])
		if s.lists(t, w, r); r.Altered || !r.Right(s.boxes[:1]) {
			t.Fatalf("put right: %+v", r)
		}
	}},
	{"rules that cannot be listed are not none", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		s.blocks(t, s.domain, true, s.boxes[0])
		for how, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			lift := w.Fail(t, s.who.GUID, "Rules", how)
			_, err := s.client.Rules(call(t))
			lift()
			ended(t, "list rules", err, kind)
		}
	}},
	{"our rules are removed, others' stay", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		must(t, "remove nothing", s.client.RemoveRules(call(t)))
		other := sendlimit.Rule{Name: "tenantry-block-something", Enabled: true, Lists: s.boxes[2:]}
		w.SetRule(t, s.who.GUID, other)
		s.blocks(t, sendlimit.TenantWide, true, s.boxes[0])
		s.blocks(t, s.domain, true, s.boxes[1])
		s.blocks(t, s.domain, true)
		must(t, "remove", s.client.RemoveRules(call(t)))
		must(t, "remove again", s.client.RemoveRules(call(t)))
		if got, want := w.Rules(t, s.who.GUID), map[string][]string{other.Name: other.Lists}; !cmp.Equal(got, want) {
			t.Fatalf("the platform holds %v, want %v", got, want)
		}
		s.stops(t, w, s.boxes[2])
	}},
	{"a throttled or refused write of a rule has no effect", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		s.blocks(t, s.domain, true, s.boxes[0])
		for how, kind := range map[Failure]outcome.Kind{Throttles: outcome.Throttled, IsDown: outcome.Down} {
			lift := w.Fail(t, s.who.GUID, "Block", how)
			_, err := s.client.Block(call(t), s.domain, s.boxes[1:])
			lift()
			ended(t, "block", err, kind)
			s.stops(t, w, s.boxes[0])
		}
	}},
	{"a lost answer of a rule is never a settled failure", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		for _, list := range [][]string{s.boxes[:1], s.boxes[1:], nil, s.boxes} {
			for _, how := range []Failure{LosesRequest, LosesAnswer} {
				lift := w.Fail(t, s.who.GUID, "Block", how)
				r, err := s.client.Block(call(t), s.domain, list)
				lift()
				if unsettled(t, err); err == nil && !slices.Equal(r.Blocks(), list) {
					t.Fatalf("told %+v, want %v", r, list)
				}
			}
			r, err := s.client.Block(call(t), s.domain, list)
			must(t, "block again", err)
			if !slices.Equal(r.Blocks(), list) || len(w.Rules(t, s.who.GUID)) != 1 {
				t.Fatalf("got %+v: %v", r, w.Rules(t, s.who.GUID))
			}
		}
		s.stops(t, w, s.boxes...)
	}},
	{"a changed rule acts after the platform's own time", func(t testing.TB, w World) {
		s := senders(t, w, Setup{RuleLag: time.Hour})
		s.blocks(t, s.domain, true, s.boxes[0])
		s.stops(t, w)
		w.Advance(t, 2*time.Hour)
		s.stops(t, w, s.boxes[0])
	}},
	{"rules need the mail server's grant", func(t testing.TB, w World) {
		s := senders(t, w, Setup{})
		w.Revoke(t, s.who.GUID, GrantExchangeRole)
		_, err := s.client.Block(call(t), s.domain, s.boxes)
		refused(t, "block", err, fault.AccessDenied)
		_, err = s.client.EnsureRule(call(t), s.domain, s.boxes)
		refused(t, "ensure", err, fault.AccessDenied)
		refused(t, "remove", s.client.RemoveRules(call(t)), fault.AccessDenied)
		_, err = s.client.Rules(call(t))
		refused(t, "list", err, fault.AccessDenied)
	}},
}

// sendingTenant is a tenant with three mailboxes, in order.
type sendingTenant struct {
	who    Tenant
	client ports.MailTenant
	domain string
	boxes  []string
}

func senders(t testing.TB, w World, s Setup) sendingTenant {
	t.Helper()
	who, client := ready(t, w, s)
	out := sendingTenant{who: who, client: client, domain: accepted(t, w, client)}
	for _, local := range []string{"anna", "ben", "cleo"} {
		out.boxes = append(out.boxes, made(t, w, client, local+"@"+out.domain).Address)
	}
	return out
}

// blocks makes a rule block a list and checks what is told of it, and what the
// platform holds.
func (s sendingTenant) blocks(t testing.TB, scope string, written bool, list ...string) sendlimit.Rule {
	t.Helper()
	r, err := s.client.Block(call(t), scope, list)
	must(t, "block", err)
	if r.ID == "" || r.Name != sendlimit.RuleName(scope) || r.Enabled != (len(list) > 0) || r.Written != written || !slices.Equal(r.Blocks(), list) {
		t.Fatalf("got %+v, want to block %v", r, list)
	}
	return r
}

// lists checks our rules, in any order, as they are told and as they are: nothing
// was done to them by telling.
func (s sendingTenant) lists(t testing.TB, w World, want ...sendlimit.Rule) {
	t.Helper()
	before := w.Rules(t, s.who.GUID)
	got, err := s.client.Rules(call(t))
	must(t, "list rules", err)
	byName := func(a, b sendlimit.Rule) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(got, byName)
	slices.SortFunc(want, byName)
	for i := range want {
		want[i].Made, want[i].Written = false, false
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("rules (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, w.Rules(t, s.who.GUID)); diff != "" {
		t.Fatalf("listing changed them (-before +after):\n%s", diff)
	}
}

// stops sends a message from each mailbox and checks whose were stopped, by the
// trace.
func (s sendingTenant) stops(t testing.TB, w World, want ...string) {
	t.Helper()
	before := map[string]bool{}
	for _, m := range s.read(t, w) {
		before[m.Message] = true
	}
	for _, box := range s.boxes {
		w.Send(t, s.who.GUID, box, 1)
	}
	passed := map[string]bool{}
	for _, m := range s.read(t, w) {
		if !before[m.Message] {
			passed[m.Sender] = !m.Refused
		}
	}
	var stopped []string
	for _, box := range s.boxes {
		if passed, seen := passed[box]; !seen {
			t.Fatalf("the trace does not show what %s sent", box)
		} else if !passed {
			stopped = append(stopped, box)
		}
	}
	if !slices.Equal(stopped, want) {
		t.Fatalf("stopped is mail of %v, want %v", stopped, want)
	}
}
