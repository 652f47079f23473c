// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

func TestARulesLife(t *testing.T) {
	s := newSenders(t, newWorld(t))
	ensure := func(list ...string) sendlimit.Rule {
		r, err := s.client.EnsureRule(t.Context(), s.domain, list)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := ensure(); !cmp.Equal(r, sendlimit.Rule{}) || len(s.rules()) != 0 {
		t.Fatalf("without mailboxes: %+v, %v", r, s.rules())
	}
	if r := s.block(s.domain); !cmp.Equal(r, sendlimit.Rule{}) || len(s.rules()) != 0 {
		t.Fatalf("nothing to block: %+v, %v", r, s.rules())
	}
	made := ensure(s.boxes...)
	want := sendlimit.Rule{ID: made.ID, Name: sendlimit.RuleName(s.domain), Lists: s.boxes, Made: true, Written: true}
	if made.ID == "" || !cmp.Equal(made, want) || len(s.stopped()) != 0 {
		t.Fatalf("made %+v, want %+v", made, want)
	}
	want.Made, want.Written = false, false
	if again := ensure(s.boxes[:1]...); !cmp.Equal(again, want) {
		t.Fatalf("again %+v, want %+v", again, want)
	}
	want.Written, want.Enabled, want.Lists = true, true, s.boxes[:1]
	if r := s.block(s.domain, strings.ToUpper(s.boxes[0])); !cmp.Equal(r, want) {
		t.Fatalf("%+v, want %+v", r, want)
	}
	want.Written = false
	if r := s.block(s.domain, s.boxes[0], s.boxes[0]); !cmp.Equal(r, want) {
		t.Fatalf("the same again: %+v, want %+v", r, want)
	}
	if got := s.stopped(); !slices.Equal(got, s.boxes[:1]) {
		t.Fatalf("stopped %v", got)
	}
	want.Written, want.Enabled = true, false
	if r := s.block(s.domain); !cmp.Equal(r, want) || len(s.stopped()) != 0 {
		t.Fatalf("switched off: %+v, want %+v", r, want)
	}
	if err := s.client.RemoveRules(t.Context()); err != nil || len(s.rules()) != 0 {
		t.Fatalf("removed: %v, %v", err, s.rules())
	}
	if err := s.client.RemoveRules(t.Context()); err != nil {
		t.Fatalf("removed again: %v", err)
	}
}

// TestOthersRulesStay: a rule is ours by its whole name, although the platform
// answers a name that it does not know with all that it has.
func TestOthersRulesStay(t *testing.T) {
	s := newSenders(t, newWorld(t))
	others := []string{"Disclaimer", "tenantry-block", "tenantry-block-mine", sendlimit.RuleName(s.domain) + " (old)"}
	for _, name := range others {
		s.asOther(exchange.NewTransportRule, knobs{"Name": name, "Enabled": false, "From": s.boxes, "DeleteMessage": true})
	}
	before := fmt.Sprint(s.rules())
	for _, scope := range []string{sendlimit.TenantWide, s.domain} {
		if r := s.block(scope); r.Name != "" {
			t.Fatalf("took %+v for ours", r)
		}
		s.block(scope, s.boxes[0])
		s.block(scope)
	}
	if err := s.client.RemoveRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprint(s.rules()); after != before {
		t.Fatalf("others' rules were %s, are %s", before, after)
	}
}

// TestOurRulesAreListed: by their whole names, however they are spelt, and one
// that only reports is told to block nobody.
func TestOurRulesAreListed(t *testing.T) {
	s := newSenders(t, newWorld(t))
	list := func() []sendlimit.Rule {
		all, err := s.client.Rules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	s.asOther(exchange.NewTransportRule, knobs{"Name": "Disclaimer", "Enabled": true, "From": s.boxes, "DeleteMessage": true})
	if all := list(); len(all) != 0 {
		t.Fatalf("took %+v for ours", all)
	}
	own := s.block(s.domain, s.boxes[1:]...)
	wide := strings.ToUpper(sendlimit.RuleName(sendlimit.TenantWide))
	s.asOther(exchange.NewTransportRule, knobs{"Name": wide, "Enabled": true, "From": s.boxes[:1], "Mode": "Audit", "DeleteMessage": true})
	before := fmt.Sprint(s.rules())
	all := list()
	slices.SortFunc(all, func(a, b sendlimit.Rule) int { return strings.Compare(b.Name, a.Name) })
	if own.Written, own.Made = false, false; len(all) != 2 || !cmp.Equal(all[0], own) || all[1].Name != wide || len(all[1].Blocks()) != 0 {
		t.Fatalf("listed %+v", all)
	}
	if after := fmt.Sprint(s.rules()); after != before {
		t.Fatalf("rules were %s, are %s", before, after)
	}
}

// TestAnAlteredRuleIsTold: whatever somebody changed in a rule that acts, a list
// of the rules shows that it has to be put right.
func TestAnAlteredRuleIsTold(t *testing.T) {
	s := newSenders(t, newWorld(t))
	name := sendlimit.RuleName(s.domain)
	for _, other := range []knobs{
		{"ExceptIfFrom": s.boxes[:1]}, {"SenderAddressLocation": "Header"}, {"RejectMessageReasonText": "Go away."},
		{"RejectMessageEnhancedStatusCode": "5.7.1"}, {"DeleteMessage": true}, {"Mode": "Audit"}, {"SentToScope": "NotInOrganization"},
	} {
		s.block(s.domain, s.boxes[0])
		right := func() bool {
			all, err := s.client.Rules(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return sendlimit.RuleOf(s.domain, all).Right(s.boxes[:1])
		}
		if !right() {
			t.Fatalf("before %v it is altered: %v", other, s.rules())
		}
		other["Identity"] = name
		if s.asOther(exchange.SetTransportRule, other); right() {
			t.Errorf("%v is taken for ours", other)
		}
	}
}

// TestAFoundRuleIsAdopted: one of our name is used, whoever made it, and put
// right.
func TestAFoundRuleIsAdopted(t *testing.T) {
	s := newSenders(t, newWorld(t))
	name := sendlimit.RuleName(sendlimit.TenantWide)
	s.asOther(exchange.NewTransportRule, knobs{"Name": strings.ToUpper(name), "From": []string{s.boxes[2]}, "DeleteMessage": true, "Enabled": true})
	found, err := s.client.EnsureRule(t.Context(), sendlimit.TenantWide, s.boxes)
	if err != nil || found.Made || found.Written || !slices.Equal(found.Blocks(), s.boxes[2:]) {
		t.Fatalf("found %+v, %v", found, err)
	}
	if r := s.block(sendlimit.TenantWide, s.boxes[0]); !slices.Equal(r.Blocks(), s.boxes[:1]) || len(s.rules()) != 1 {
		t.Fatalf("adopted %+v: %v", r, s.rules())
	}
	if got := s.stopped(); !slices.Equal(got, s.boxes[:1]) {
		t.Fatalf("stopped %v", got)
	}
}

// TestAnOpenRuleIsClosed: a rule of ours that somebody left without senders
// stops all mail; ensuring it is enough to end that.
func TestAnOpenRuleIsClosed(t *testing.T) {
	s := newSenders(t, newWorld(t))
	s.block(sendlimit.TenantWide, s.boxes[0])
	s.asOther(exchange.SetTransportRule, knobs{"Identity": sendlimit.RuleName(sendlimit.TenantWide), "From": []string{}})
	if got := s.stopped(); len(got) != len(s.all()) {
		t.Fatalf("the simulator stops only %v", got)
	}
	r, err := s.client.EnsureRule(t.Context(), sendlimit.TenantWide, s.boxes)
	if err != nil || r.Enabled || !r.Written || len(s.stopped()) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}
