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

func TestRuleLifecycle(t *testing.T) {
	s := newSendingTenant(t, newTestEnv(t))
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
	created := ensure(s.mailboxes...)
	want := sendlimit.Rule{ID: created.ID, Name: sendlimit.RuleName(s.domain), Lists: s.mailboxes, Created: true, Written: true}
	if created.ID == "" || !cmp.Equal(created, want) || len(s.stoppedSenders()) != 0 {
		t.Fatalf("made %+v, want %+v", created, want)
	}
	want.Created, want.Written = false, false
	if again := ensure(s.mailboxes[:1]...); !cmp.Equal(again, want) {
		t.Fatalf("again %+v, want %+v", again, want)
	}
	want.Written, want.Enabled, want.Lists = true, true, s.mailboxes[:1]
	if r := s.block(s.domain, strings.ToUpper(s.mailboxes[0])); !cmp.Equal(r, want) {
		t.Fatalf("%+v, want %+v", r, want)
	}
	want.Written = false
	if r := s.block(s.domain, s.mailboxes[0], s.mailboxes[0]); !cmp.Equal(r, want) {
		t.Fatalf("the same again: %+v, want %+v", r, want)
	}
	if got := s.stoppedSenders(); !slices.Equal(got, s.mailboxes[:1]) {
		t.Fatalf("stopped %v", got)
	}
	want.Written, want.Enabled = true, false
	if r := s.block(s.domain); !cmp.Equal(r, want) || len(s.stoppedSenders()) != 0 {
		t.Fatalf("switched off: %+v, want %+v", r, want)
	}
	if err := s.client.RemoveRules(t.Context()); err != nil || len(s.rules()) != 0 {
		t.Fatalf("removed: %v, %v", err, s.rules())
	}
	if err := s.client.RemoveRules(t.Context()); err != nil {
		t.Fatalf("removed again: %v", err)
	}
}

// TestForeignRulesAreNotTouched checks that only a rule with exactly the right name is managed. The
// platform answers an unknown name with all its rules.
func TestForeignRulesAreNotTouched(t *testing.T) {
	s := newSendingTenant(t, newTestEnv(t))
	others := []string{"Disclaimer", "tenantry-block", "tenantry-block-mine", sendlimit.RuleName(s.domain) + " (old)"}
	for _, name := range others {
		s.runAsAdministrator(exchange.NewTransportRule, options{"Name": name, "Enabled": false, "From": s.mailboxes, "DeleteMessage": true})
	}
	before := fmt.Sprint(s.rules())
	for _, scope := range []string{sendlimit.TenantWide, s.domain} {
		if r := s.block(scope); r.Name != "" {
			t.Fatalf("a foreign rule is changed or returned: %+v", r)
		}
		s.block(scope, s.mailboxes[0])
		s.block(scope)
	}
	if err := s.client.RemoveRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := fmt.Sprint(s.rules()); after != before {
		t.Fatalf("others' rules were %s, are %s", before, after)
	}
}

// TestRulesListsManagedRules checks that names are compared without case, and that a rule that only
// reports blocks nobody.
func TestRulesListsManagedRules(t *testing.T) {
	s := newSendingTenant(t, newTestEnv(t))
	list := func() []sendlimit.Rule {
		all, err := s.client.Rules(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	s.runAsAdministrator(exchange.NewTransportRule, options{"Name": "Disclaimer", "Enabled": true, "From": s.mailboxes, "DeleteMessage": true})
	if all := list(); len(all) != 0 {
		t.Fatalf("foreign rules are listed: %+v", all)
	}
	block := s.block(s.domain, s.mailboxes[1:]...)
	wide := strings.ToUpper(sendlimit.RuleName(sendlimit.TenantWide))
	s.runAsAdministrator(exchange.NewTransportRule, options{"Name": wide, "Enabled": true, "From": s.mailboxes[:1], "Mode": "Audit", "DeleteMessage": true})
	before := fmt.Sprint(s.rules())
	all := list()
	slices.SortFunc(all, func(a, b sendlimit.Rule) int { return strings.Compare(b.Name, a.Name) })
	if block.Written, block.Created = false, false; len(all) != 2 || !cmp.Equal(all[0], block) || all[1].Name != wide || len(all[1].Blocks()) != 0 {
		t.Fatalf("listed %+v", all)
	}
	if after := fmt.Sprint(s.rules()); after != before {
		t.Fatalf("rules were %s, are %s", before, after)
	}
}

// TestRulesReportsAnAlteredRule checks that every change of an enabled rule is visible in the list
// of rules.
func TestRulesReportsAnAlteredRule(t *testing.T) {
	s := newSendingTenant(t, newTestEnv(t))
	name := sendlimit.RuleName(s.domain)
	for _, other := range []options{
		{"ExceptIfFrom": s.mailboxes[:1]}, {"SenderAddressLocation": "Header"}, {"RejectMessageReasonText": "Go away."},
		{"RejectMessageEnhancedStatusCode": "5.7.1"}, {"DeleteMessage": true}, {"Mode": "Audit"}, {"SentToScope": "NotInOrganization"},
	} {
		s.block(s.domain, s.mailboxes[0])
		right := func() bool {
			all, err := s.client.Rules(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return sendlimit.RuleOf(s.domain, all).Matches(s.mailboxes[:1])
		}
		if !right() {
			t.Fatalf("before %v it is altered: %v", other, s.rules())
		}
		other["Identity"] = name
		if s.runAsAdministrator(exchange.SetTransportRule, other); right() {
			t.Errorf("%v counts as a managed rule", other)
		}
	}
}

// TestAnExistingRuleIsAdopted checks that a rule with the managed name is used and corrected,
// whoever created it.
func TestAnExistingRuleIsAdopted(t *testing.T) {
	s := newSendingTenant(t, newTestEnv(t))
	name := sendlimit.RuleName(sendlimit.TenantWide)
	s.runAsAdministrator(exchange.NewTransportRule, options{"Name": strings.ToUpper(name), "From": []string{s.mailboxes[2]}, "DeleteMessage": true, "Enabled": true})
	found, err := s.client.EnsureRule(t.Context(), sendlimit.TenantWide, s.mailboxes)
	if err != nil || found.Created || found.Written || !slices.Equal(found.Blocks(), s.mailboxes[2:]) {
		t.Fatalf("found %+v, %v", found, err)
	}
	if r := s.block(sendlimit.TenantWide, s.mailboxes[0]); !slices.Equal(r.Blocks(), s.mailboxes[:1]) || len(s.rules()) != 1 {
		t.Fatalf("adopted %+v: %v", r, s.rules())
	}
	if got := s.stoppedSenders(); !slices.Equal(got, s.mailboxes[:1]) {
		t.Fatalf("stopped %v", got)
	}
}

// TestEnsureRuleDisablesARuleWithoutSenders checks that EnsureRule is enough to stop a managed rule
// from blocking all mail.
func TestEnsureRuleDisablesARuleWithoutSenders(t *testing.T) {
	s := newSendingTenant(t, newTestEnv(t))
	s.block(sendlimit.TenantWide, s.mailboxes[0])
	s.runAsAdministrator(exchange.SetTransportRule, options{"Identity": sendlimit.RuleName(sendlimit.TenantWide), "From": []string{}})
	if got := s.stoppedSenders(); len(got) != len(s.allSenders()) {
		t.Fatalf("the simulator stops only %v", got)
	}
	r, err := s.client.EnsureRule(t.Context(), sendlimit.TenantWide, s.mailboxes)
	if err != nil || r.Enabled || !r.Written || len(s.stoppedSenders()) != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}
