// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

// TestBlockMovesARuleBeforeRulesThatStopProcessing puts a rule of an administrator before two
// enabled managed rules. The rule of the administrator ends the processing of later rules, so the
// managed rules block no mailbox. Rules then reports the managed rules as altered, and the next
// Block of each scope moves its rule to the front.
func TestBlockMovesARuleBeforeRulesThatStopProcessing(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	fixture.block(fixture.domain, fixture.mailboxes[0])
	fixture.block(sendlimit.TenantWide, fixture.mailboxes[1])
	fixture.runAsAdministrator(exchange.NewTransportRule, options{"Name": "Tag", "PrependSubject": "[out]", "Priority": 0, "StopRuleProcessing": true})
	if got := fixture.blockedSenders(); len(got) != 0 {
		t.Fatalf("behind a rule that stops processing, the blocked senders are %v, want none", got)
	}
	for _, scope := range []string{fixture.domain, sendlimit.TenantWide} {
		if rules := fixture.listRules(); !sendlimit.RuleOf(scope, rules).Altered {
			t.Errorf("the rule of the scope %q is listed as unaltered, want altered", scope)
		}
	}
	fixture.block(fixture.domain, fixture.mailboxes[0])
	fixture.block(sendlimit.TenantWide, fixture.mailboxes[1])
	if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[:2]) {
		t.Errorf("after Block, the blocked senders are %v, want %v", got, fixture.mailboxes[:2])
	}
	for _, rule := range fixture.listRules() {
		if rule.Altered {
			t.Errorf("the rule %s is listed as altered after Block, want unaltered", rule.Name)
		}
	}
}

// TestDisabledRuleIsEnabledAtTheFront checks that the Block that enables a disabled rule also moves
// this rule before a rule of an administrator.
func TestDisabledRuleIsEnabledAtTheFront(t *testing.T) {
	fixture := newSendingTenant(t, newTestEnv(t))
	fixture.block(fixture.domain, fixture.mailboxes[0])
	fixture.block(fixture.domain)
	fixture.runAsAdministrator(exchange.NewTransportRule, options{"Name": "Tag", "PrependSubject": "[out]", "Priority": 0, "StopRuleProcessing": true})
	fixture.block(fixture.domain, fixture.mailboxes[0])
	if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[:1]) {
		t.Errorf("the blocked senders are %v, want %v", got, fixture.mailboxes[:1])
	}
}

// TestBlockSucceedsAlthoughAnotherRuleIsCreatedBeforeItsRule lets a concurrent EnsureRule create a
// rule at the front, after Block has written its own rule and before Block reads it. Block does not
// wait until its rule is the first again.
func TestBlockSucceedsAlthoughAnotherRuleIsCreatedBeforeItsRule(t *testing.T) {
	afterWrite := func() {}
	fixture := newSendingTenant(t, newTestEnvWithHook(t, exchange.SetTransportRule, func() { afterWrite() }))
	fixture.block(fixture.domain, fixture.mailboxes[0])
	fixture.block(fixture.domain)
	afterWrite = func() {
		afterWrite = func() {}
		if _, err := fixture.client.EnsureRule(t.Context(), sendlimit.TenantWide, fixture.mailboxes); err != nil {
			t.Error(err)
		}
	}
	fixture.block(fixture.domain, fixture.mailboxes[1])
	if got := fixture.blockedSenders(); !slices.Equal(got, fixture.mailboxes[1:2]) {
		t.Errorf("the blocked senders are %v, want %v", got, fixture.mailboxes[1:2])
	}
}

// listRules returns the managed rules as the plugin lists them.
func (s *sendingTenant) listRules() []sendlimit.Rule {
	s.t.Helper()
	rules, err := s.client.Rules(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return rules
}
