// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// TestUnchangedRulesCostOneRead checks that a pass reads all rules with one call, and sets only the
// rules that differ from the decision.
func TestUnchangedRulesCostOneRead(t *testing.T) {
	fx := newFixture(t)
	for _, scope := range []string{domainOne, domainTwo, sendlimit.TenantWide} {
		fx.limit(t, scope, 5)
	}
	must(t, fx.run(t))
	if fx.fake.Calls("Rules") != 1 || fx.fake.Calls("Block") != 0 {
		t.Fatalf("got %d reads and %d block calls, want 1 and 0", fx.fake.Calls("Rules"), fx.fake.Calls("Block"))
	}
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	for range 3 {
		must(t, fx.run(t))
	}
	if fx.checkConsistent(t); fx.fake.Calls("Rules") != 4 || fx.fake.Calls("Block") != 1 {
		t.Fatalf("got %d reads and %d block calls, want 4 and 1", fx.fake.Calls("Rules"), fx.fake.Calls("Block"))
	}
}

// TestOldRuleListDoesNotReplaceAChange freezes the list of rules, as a lagging replica does. If a
// new decision equals the state that the old list shows, the pass must still set the rule.
func TestOldRuleListDoesNotReplaceAChange(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, domainOne, 5)
	ada := fx.mailboxes[0].Address
	runAndRequire := func(wantBlocked bool, situation string) {
		t.Helper()
		must(t, fx.run(t))
		if got := len(fx.blockedByRule(t, domainOne)) == 1; got != wantBlocked {
			t.Errorf("%s: the rule blocks %q, want a block: %v", situation, fx.blockedByRule(t, domainOne), wantBlocked)
		}
		fx.checkConsistent(t)
	}
	fx.fake.Send(fx.id, ada, 6)
	runAndRequire(true, "above the limit of 5")
	fx.fake.FreezeRuleList(fx.id) // with the block
	fx.limit(t, domainOne, 10)
	runAndRequire(false, "below the limit of 10, while the list shows the block")
	fx.limit(t, domainOne, 5)
	runAndRequire(true, "above the limit of 5, while the list shows an earlier block")

	fx.limit(t, domainOne, 10)
	runAndRequire(false, "below the limit of 10 again, while the list shows an earlier block")
	fx.fake.FreezeRuleList(fx.id) // without the block
	fx.limit(t, domainOne, 5)
	runAndRequire(true, "above the limit of 5, while the list shows no block")
	fx.limit(t, domainOne, 10)
	runAndRequire(false, "below the limit of 10, while the list shows an earlier state without a block")
}

// TestOldRuleListDoesNotHideAnUnknownOutcome loses the answer to a block, while a lagging replica
// lists the rule without this block. The limit is then raised above the count. The next pass must
// still switch the rule off.
func TestOldRuleListDoesNotHideAnUnknownOutcome(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, domainOne, 5)
	must(t, fx.run(t))
	fx.fake.FreezeRuleList(fx.id)
	fx.fake.Send(fx.id, fx.mailboxes[0].Address, 6)
	fx.fake.Fail(fake.Fault{Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	if err := fx.run(t); err == nil || len(fx.blockedByRule(t, domainOne)) != 1 {
		t.Fatalf("got the error %v, and the rule blocks %q; want an error and one mailbox", err, fx.blockedByRule(t, domainOne))
	}
	fx.limit(t, domainOne, 10)
	must(t, fx.run(t))
	if list, stored := fx.blockedByRule(t, domainOne), fx.storedBlocked(t); len(list) != 0 || len(stored) != 0 {
		t.Errorf("the rule blocks %q, and the store has the blocked mailboxes %q; want none", list, stored)
	}
}

// TestManualRuleChangeIsCorrected changes or removes a rule at the platform. The next pass must
// correct the rule.
func TestManualRuleChangeIsCorrected(t *testing.T) {
	fx := newFixture(t)
	fx.limit(t, domainOne, 5)
	ada, bob := fx.mailboxes[0].Address, fx.mailboxes[1].Address
	fx.fake.Send(fx.id, ada, 6)
	must(t, fx.run(t))
	name := sendlimit.RuleName(domainOne)
	for situation, changedRule := range map[string]sendlimit.Rule{
		"switched off":            {Lists: []string{ada}},
		"a longer list":           {Enabled: true, Lists: []string{ada, bob}},
		"a rule for every sender": {Enabled: true},
		"with altered conditions": {Enabled: true, Lists: []string{ada}, Altered: true},
		"switched off, with a different list and altered conditions": {Lists: []string{bob}, Altered: true},
	} {
		changedRule.Name = name
		fx.fake.SetRule(fx.id, changedRule)
		must(t, fx.run(t))
		if r := fx.fake.SnapshotOf(fx.id).Rules[0]; !r.Matches([]string{ada}) {
			t.Fatalf("%s: after a pass the rule is %+v, want it corrected to a block of ada", situation, r)
		}
	}
	fx.fake.DropRule(fx.id, name)
	must(t, fx.run(t))
	if got := fx.blockedByRule(t, domainOne); len(got) != 1 || len(fx.events(t)) != 1 {
		t.Fatalf("after a removal of the rule, the next pass blocks %q with the events %+v, want one blocked mailbox and one event", got, fx.events(t))
	}
}

// TestOrphanRulesAreEmptied checks rules from an earlier connection of a tenant. They block no
// mailbox after the first successful pass, even if the tenant has no limit. Later passes over a
// tenant without a limit read no rules.
func TestOrphanRulesAreEmptied(t *testing.T) {
	longDomain := strings.Repeat("long-", 12) + domainOne
	for name, limited := range map[string]bool{"limited": true, "without a limit": false} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			ada := fx.mailboxes[0].Address
			for _, scope := range []string{domainOne, longDomain, sendlimit.TenantWide} {
				fx.fake.SetRule(fx.id, sendlimit.Rule{Name: sendlimit.RuleName(scope), Enabled: true, Lists: []string{ada}})
			}
			fx.fake.SetRule(fx.id, sendlimit.Rule{Name: "foreign rule", Enabled: true, Lists: []string{ada}})
			if limited {
				fx.limit(t, domainTwo, 5)
			}
			fx.fake.Fail(fake.Fault{Method: "Rules", Kind: outcome.Down, Times: 1})
			if err := fx.run(t); err == nil || len(fx.blockedByRule(t, domainOne)) == 0 {
				t.Fatalf("a pass that could not list the rules: got the error %v, and the rule blocks %q; want an error and one mailbox", err, fx.blockedByRule(t, domainOne))
			}
			must(t, fx.run(t))
			for _, scope := range []string{domainOne, longDomain, sendlimit.TenantWide} {
				if got := fx.blockedByRule(t, scope); len(got) != 0 {
					t.Errorf("the orphan rule of %q still blocks %q", scope, got)
				}
			}
			readsBefore, writesBefore := fx.fake.Calls("Rules"), fx.fake.Effects("Block")
			must(t, fx.run(t))
			if readsAgain := fx.fake.Calls("Rules") > readsBefore; readsAgain != limited || writesBefore != 3 || fx.fake.Effects("Block") != 3 {
				t.Fatalf("a later pass reads the rules: %v, want %v; %d writes after %d, want 3 after 3", readsAgain, limited, fx.fake.Effects("Block"), writesBefore)
			}
			if len(fx.events(t)) != 0 || len(fx.blockedByRules(t)) != 1 {
				t.Fatalf("the events are %+v and the rules block %q, want no event and the block of the foreign rule", fx.events(t), fx.blockedByRules(t))
			}
		})
	}
}

// TestOrphanRuleIsEmptiedAfterAFailedFirstPass checks that a later pass empties a rule of an
// earlier connection. The first pass fails to change the rule, or crashes before the change. The
// tenant has no limit, so later passes read the rules only because the first pass stored the orphan
// rule.
func TestOrphanRuleIsEmptiedAfterAFailedFirstPass(t *testing.T) {
	for name, fail := range map[string]func(*fixture, *testing.T){
		"the platform is down": func(fx *fixture, t *testing.T) {
			fx.fake.Fail(fake.Fault{Method: "Block", Kind: outcome.Down, Times: 1})
			if fx.run(t) == nil {
				t.Fatal("the pass did not report that the rule was not emptied")
			}
		},
		"killed": func(fx *fixture, t *testing.T) { fx.runCrashingAt(t, &crashPlan{stepName: "Block"}) },
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			fx.fake.SetRule(fx.id, sendlimit.Rule{Name: sendlimit.RuleName(domainOne), Enabled: true, Lists: []string{fx.mailboxes[0].Address}})
			fail(fx, t)
			if len(fx.blockedByRule(t, domainOne)) == 0 {
				t.Fatal("the first pass emptied the rule")
			}
			fx.advance(sendlimit.MaxInterval)
			must(t, fx.run(t))
			if list := fx.blockedByRule(t, domainOne); len(list) != 0 {
				t.Errorf("the rule still blocks %q", list)
			}
			readsBefore := fx.fake.Calls("Rules")
			must(t, fx.run(t))
			if fx.fake.Calls("Rules") != readsBefore {
				t.Error("a pass reads the rules although the tenant has no limit and all rules are empty")
			}
		})
	}
}
