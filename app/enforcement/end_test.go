// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/limits"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// limitService returns a service that ends policies. It waits only a millisecond for a pass in
// progress.
func (fx *fixture) limitService() *limits.Service {
	return &limits.Service{Tenants: fx.store, Domains: fx.store, Mailboxes: fx.store, Policies: fx.store, Claims: fx.store, Removals: fx.store, Platform: fx.fake,
		Now: fx.Now, Pause: time.Millisecond, PassWait: time.Millisecond, CallWait: time.Millisecond}
}

func (fx *fixture) endPolicy(t *testing.T, scope string) (limits.EndResult, error) {
	t.Helper()
	if scope == sendlimit.TenantWide {
		return fx.limitService().End(t.Context(), fx.owner, fx.id, nil, nil)
	}
	return fx.limitService().End(t.Context(), fx.owner, fx.id, &scope, nil)
}

// sendUnderLimits sets the limits of the scopes, sends this many messages from each mailbox, and
// runs a pass.
func (fx *fixture) sendUnderLimits(t *testing.T, limits map[string]int, sent ...int) {
	t.Helper()
	for scope, perDay := range limits {
		fx.limit(t, scope, perDay)
	}
	must(t, fx.run(t))
	for i, n := range sent {
		fx.fake.Send(fx.id, fx.mailboxes[i].Address, n)
	}
	must(t, fx.run(t))
}

// TestEndUnblocksOnlyTheMailboxesOfThePolicy ends the limit of a domain, and then the tenant-wide
// limit. The first two mailboxes belong to the domain, the third does not.
func TestEndUnblocksOnlyTheMailboxesOfThePolicy(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 10, domainOne: 5}, 6, 11, 12)
	ended, err := fx.endPolicy(t, domainOne)
	must(t, err)
	wantBlocked := []string{fx.mailboxes[2].Address, fx.mailboxes[1].Address} // sorted
	if ended.Unblocked != 1 || ended.Policy.PerDay != 5 || !slices.Equal(fx.blockedByRules(t), wantBlocked) || !slices.Equal(fx.storedBlocked(t), wantBlocked) {
		t.Fatalf("got %+v; the rules block %v, the store %v, want 1 unblock and %v", ended, fx.blockedByRules(t), fx.storedBlocked(t), wantBlocked)
	}
	if sendlimit.RuleOf(domainOne, fx.fake.SnapshotOf(fx.id).Rules).Name != "" {
		t.Fatalf("the platform has the rules %+v, want none of the domain", fx.fake.SnapshotOf(fx.id).Rules)
	}
	_, err = fx.endPolicy(t, domainOne)
	if !errors.Is(err, fault.PolicyNotFound) {
		t.Fatalf("a second end: got %v, want policy_not_found", err)
	}
	must(t, fx.run(t))
	if !slices.Equal(fx.blockedByRules(t), wantBlocked) {
		t.Fatalf("after a pass the rules block %v, want %v", fx.blockedByRules(t), wantBlocked)
	}
	ended, err = fx.endPolicy(t, sendlimit.TenantWide)
	must(t, err)
	if ended.Unblocked != 2 || len(fx.fake.SnapshotOf(fx.id).Rules) != 0 || len(fx.storedBlocked(t)) != 0 {
		t.Fatalf("got %+v, want 2 unblocks; the platform has the rules %+v, want none", ended, fx.fake.SnapshotOf(fx.id).Rules)
	}
	fx.checkEvents(t)
}

func TestEndOfTheTenantWideLimitKeepsTheRulesOfDomains(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 10, domainOne: 5}, 6, 1, 12)
	ended, err := fx.endPolicy(t, sendlimit.TenantWide)
	must(t, err)
	wantBlocked := []string{fx.mailboxes[0].Address}
	if ended.Unblocked != 1 || !slices.Equal(fx.blockedByRules(t), wantBlocked) || !slices.Equal(fx.storedBlocked(t), wantBlocked) {
		t.Fatalf("got %+v; the rules block %v, the store %v, want 1 unblock and %v", ended, fx.blockedByRules(t), fx.storedBlocked(t), wantBlocked)
	}
	fx.checkEvents(t)
}

// TestEndSucceedsAlthoughABlockedMailboxIsMissing ends the limit of a domain after its blocked
// mailbox was deleted at the platform. The platform refuses to block this mailbox by the
// tenant-wide rule. This rule then blocks the mailboxes that still exist.
func TestEndSucceedsAlthoughABlockedMailboxIsMissing(t *testing.T) {
	for name, missing := range map[string][]int{"one blocked mailbox is missing": {0}, "both blocked mailboxes are missing": {0, 2}} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			present := []string{}
			for i, m := range fx.mailboxes {
				if !slices.Contains(missing, i) {
					present = append(present, m.Address)
				}
			}
			fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 5, domainOne: 3}, 6, 0, 6)
			service, scope := fx.limitService(), domainOne
			service.Platform = partialPlatform{fx.fake, &present}
			_, err := service.End(t.Context(), fx.owner, fx.id, &scope, nil)
			must(t, err)
			var wantBlocked []string
			if len(missing) == 1 {
				wantBlocked = []string{fx.mailboxes[2].Address}
			}
			if !slices.Equal(fx.blockedByRules(t), wantBlocked) || sendlimit.RuleOf(domainOne, fx.fake.SnapshotOf(fx.id).Rules).Name != "" {
				t.Fatalf("the platform has the rules %+v, want a block of %v and no rule of the domain", fx.fake.SnapshotOf(fx.id).Rules, wantBlocked)
			}
			fx.Platform = partialPlatform{fx.fake, &present}
			must(t, fx.run(t))
			fx.checkConsistent(t)
		})
	}
}

// TestEndOfTheTenantWideLimitMovesBlocksToDomains checks the end of the tenant-wide limit before a
// pass has applied a new limit of a domain. A blocked mailbox that exceeds the domain's limit stays
// blocked, by the domain's rule. End unblocks all other mailboxes.
func TestEndOfTheTenantWideLimitMovesBlocksToDomains(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 5}, 6, 12, 7)
	fx.limit(t, domainOne, 10)
	ended, err := fx.endPolicy(t, sendlimit.TenantWide)
	must(t, err)
	wantBlocked := []string{fx.mailboxes[1].Address}
	if ended.Unblocked != 2 || !slices.Equal(fx.blockedByRules(t), wantBlocked) || !slices.Equal(fx.storedBlocked(t), wantBlocked) {
		t.Fatalf("got %+v; the rules block %v, the store %v, want 2 unblocks and %v", ended, fx.blockedByRules(t), fx.storedBlocked(t), wantBlocked)
	}
	fx.checkConsistent(t) // the block has one event: the mailbox stayed blocked
	must(t, fx.run(t))
	fx.checkConsistent(t)
}

// TestEndConvergesAfterAFailure lets each call of End that changes a rule fail, before and after
// the effect of the call. After a failed End, a pass restores the block. A repeated End ends the
// policy, with or without a pass between the two calls of End.
func TestEndConvergesAfterAFailure(t *testing.T) {
	for _, method := range []string{"Block", "RemoveRule"} {
		for _, afterEffect := range []bool{false, true} {
			for _, withPass := range []bool{false, true} {
				fx := newFixture(t)
				fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 10, domainOne: 5}, 6, 11)
				endFault := fx.fake.Fail(fake.Fault{Method: method, Kind: outcome.Unknown, AfterEffect: afterEffect})
				_, err := fx.endPolicy(t, domainOne)
				endFault()
				if outcome.KindOf(err) != outcome.Unknown {
					t.Fatalf("%s: got %v, want an unknown outcome", method, err)
				}
				if withPass {
					must(t, fx.run(t))
					wantBothBlocked := []string{fx.mailboxes[0].Address, fx.mailboxes[1].Address}
					if !slices.Equal(fx.blockedByRules(t), wantBothBlocked) || !slices.Equal(fx.storedBlocked(t), wantBothBlocked) {
						t.Fatalf("%s, after its effect %v: after a pass the rules block %v, the store %v, want %v", method, afterEffect, fx.blockedByRules(t), fx.storedBlocked(t), wantBothBlocked)
					}
				}
				_, err = fx.endPolicy(t, domainOne)
				must(t, err)
				wantBlocked := []string{fx.mailboxes[1].Address}
				if !slices.Equal(fx.blockedByRules(t), wantBlocked) || !slices.Equal(fx.storedBlocked(t), wantBlocked) {
					t.Errorf("%s, after its effect %v: the rules block %v, the store %v, want %v", method, afterEffect, fx.blockedByRules(t), fx.storedBlocked(t), wantBlocked)
				}
			}
		}
	}
}

// TestEndSetsNoRuleAfterTheTenantWasDeleted deletes the tenant during a call of End whose answer is
// lost. End must not repeat the call. Otherwise a rule of a deleted tenant would block mailboxes
// forever.
func TestEndSetsNoRuleAfterTheTenantWasDeleted(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 10, domainOne: 5}, 11)
	service, scope := fx.limitService(), domainOne
	service.Platform = crashingPlatform{fx.fake, &crashPlan{stepName: "Block", pause: func() (lost bool) {
		fx.deleteTenant(t, fx.deletionService())
		return true
	}}}
	_, err := service.End(t.Context(), fx.owner, fx.id, &scope, nil)
	if rules := fx.fake.SnapshotOf(fx.id).Rules; !errors.Is(err, fault.ServiceUnavailable) || len(rules) != 0 {
		t.Fatalf("got %v, want service_unavailable; the platform has the rules %+v, want none", err, rules)
	}
}

// TestIntentsOfOtherScopesOutliveEnd loses the answer to a block by the tenant-wide rule, while a
// lagging replica lists the rule without this block. The limit of a domain is then ended, and the
// tenant-wide limit is raised above the count. The next pass must still switch the rule off.
func TestIntentsOfOtherScopesOutliveEnd(t *testing.T) {
	fx := newFixture(t)
	fx.sendUnderLimits(t, map[string]int{sendlimit.TenantWide: 5, domainOne: 5}, 6)
	fx.fake.FreezeRuleList(fx.id)
	fx.fake.Send(fx.id, fx.mailboxes[2].Address, 6)
	fx.fake.Fail(fake.Fault{Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	if err := fx.run(t); err == nil || len(fx.blockedByRule(t, sendlimit.TenantWide)) != 1 {
		t.Fatalf("got %v, want an error; the rule blocks %q, want one mailbox", err, fx.blockedByRule(t, sendlimit.TenantWide))
	}
	fx.limit(t, sendlimit.TenantWide, 10)
	_, err := fx.endPolicy(t, domainOne)
	must(t, err)
	must(t, fx.run(t))
	if rules, stored := fx.blockedByRules(t), fx.storedBlocked(t); len(rules) != 0 || len(stored) != 0 {
		t.Fatalf("the rules block %q, and the store has the blocked mailboxes %q; want none", rules, stored)
	}
}

// TestEndKnowsTheRuleOfTheFirstBlock checks that End reports the rule of a limit that was set
// without a rule. The first block created this rule, and the list of a lagging replica can lack it.
func TestEndKnowsTheRuleOfTheFirstBlock(t *testing.T) {
	for name, tc := range map[string]struct {
		lagging bool           // the list of rules is older than the first block
		limits  map[string]int // by scope
	}{
		"the list has the rule":                       {false, map[string]int{domainOne: 5}},
		"the list lacks the rule":                     {true, map[string]int{domainOne: 5}},
		"the list lacks the rule and the block moves": {true, map[string]int{domainOne: 5, sendlimit.TenantWide: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			if tc.lagging {
				fx.fake.FreezeRuleList(fx.id)
			}
			fx.sendUnderLimits(t, tc.limits, 6)
			ended, err := fx.endPolicy(t, domainOne)
			must(t, err)
			if rule := sendlimit.RuleOf(domainOne, fx.fake.SnapshotOf(fx.id).Rules); ended.Policy.RuleID != "" || !ended.HadRule || rule.Name != "" {
				t.Fatalf("got %+v, want HadRule without a rule id; the platform has the rules %+v, want none of the domain", ended, fx.fake.SnapshotOf(fx.id).Rules)
			}
		})
	}
}
