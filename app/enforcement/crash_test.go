// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// TestNextPassCompletesTheChangesOfACrashedPass crashes the process at each step of a pass that
// blocks one mailbox and unblocks another. The next pass completes both changes. Each change has
// one event, and no rule is written twice.
func TestNextPassCompletesTheChangesOfACrashedPass(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		for step, crashed := 0, true; crashed; step++ {
			fx, ada, adaTwo := newWithPendingChanges(t)
			crashed = fx.runCrashing(t, step, afterEffect).crashed
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if events := fx.events(t); len(events[ada]) != 1 || len(events[adaTwo]) != 2 || fx.fake.Effects("Block") != 3 {
				t.Fatalf("step %d, after its effect %v: %d writes, events %+v", step, afterEffect, fx.fake.Effects("Block"), events)
			}
			if step > 50 {
				t.Fatal("the pass has more than 50 steps")
			}
		}
	}
}

// newWithPendingChanges returns a fixture whose next pass blocks ada and unblocks adaTwo.
func newWithPendingChanges(t *testing.T) (fx *fixture, ada, adaTwo string) {
	t.Helper()
	return newWithPendingChangesIn(t, newStore(t), 0)
}

// newWithPendingChangesIn returns the same as newWithPendingChanges, in a store that several
// fixtures can share.
func newWithPendingChangesIn(t *testing.T, store *bunstore.Store, n int) (fx *fixture, ada, adaTwo string) {
	t.Helper()
	fx = newNumberedFixture(t, store, n)
	ada, adaTwo = fx.mailboxes[0].Address, fx.mailboxes[2].Address
	fx.limit(t, domainOne, 5)
	fx.limit(t, domainTwo, 5)
	fx.fake.Send(fx.id, adaTwo, 6)
	must(t, fx.run(t))
	fx.fake.Send(fx.id, ada, 6)
	fx.limit(t, domainTwo, 6)
	return fx, ada, adaTwo
}

// TestChangesOfACrashedPassKeepTheirEvents crashes a pass. The next pass decides differently and
// can crash too. Each change at the platform still has its event. Over all cases, passes crash
// before and after each step in crashSteps.
func TestChangesOfACrashedPassKeepTheirEvents(t *testing.T) {
	store, reached, n := newStore(t), map[string]bool{}, 0
	for _, afterEffect := range []bool{false, true} {
		for first, crashed := 0, true; crashed; first++ {
			for second, more := 0, true; more; second++ {
				fx, _, _ := newWithPendingChangesIn(t, store, n)
				plan := fx.runCrashing(t, first, afterEffect)
				reached[plan.crashPoint()], crashed = plan.crashed || reached[plan.crashPoint()], plan.crashed
				fx.limit(t, domainOne, 9) // ada is below this limit
				fx.limit(t, domainTwo, 3) // adaTwo exceeds this limit
				plan = fx.runCrashing(t, second, !afterEffect)
				n++
				reached[plan.crashPoint()], more = plan.crashed || reached[plan.crashPoint()], plan.crashed && first%3 == 0
				must(t, fx.run(t))
				fx.checkConsistent(t)
			}
		}
	}
	for _, step := range crashSteps {
		if !reached["before "+step] || !reached["after "+step] {
			t.Errorf("no pass crashed before %s, or no pass crashed after it", step)
		}
	}
}

// crashPoint returns "before" or "after" and the name of the last step of the pass, at which the
// process crashed or paused unless the pass has ended.
func (p *crashPlan) crashPoint() string {
	if p.afterEffect {
		return "after " + p.lastStep
	}
	return "before " + p.lastStep
}

// crashSteps are the steps before and after which TestChangesOfACrashedPassKeepTheirEvents must
// crash.
var crashSteps = []string{"SaveCounts", "ReconcileIntents", "SaveIntents", "Block", "SaveChanges", "ReleaseTenant"}

// TestIntentsStayOpenWithoutRules checks that a pass with open intents makes no decision while it
// cannot read the rules. The intents stay open. Counts are still stored.
func TestIntentsStayOpenWithoutRules(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.mailboxes[0].Address, fx.mailboxes[1].Address
	fx.limit(t, domainOne, 5)
	fx.fake.Send(fx.id, ada, 6)
	fx.fake.Fail(fake.Fault{Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	if err := fx.run(t); err == nil {
		t.Fatal("the fault was not reported")
	}
	fx.limit(t, domainOne, 9)
	endFault := fx.fake.Fail(fake.Fault{Method: "Rules", Kind: outcome.Down})
	fx.fake.Send(fx.id, bob, 2)
	for range 2 {
		if err := fx.run(t); err == nil || len(fx.events(t)) != 0 || fx.fake.Calls("Block") != 1 || fx.shownSends(t, bob) != 2 {
			t.Fatalf("%v, events %+v, %d calls", err, fx.events(t), fx.fake.Calls("Block"))
		}
	}
	endFault()
	must(t, fx.run(t))
	fx.checkConsistent(t)
	events := fx.events(t)[ada]
	if len(events) != 2 || events[0].Limit != 5 || events[1].Limit != 9 || !events[0].At.Before(events[1].At) {
		t.Fatalf("the events are %+v, want a block with the limit 5 and an unblock with the limit 9", events)
	}
}

// TestBlockMovesBetweenRules checks a blocked mailbox that moves from one rule to another. If the
// new rule cannot be set, the old rule keeps blocking the mailbox.
func TestBlockMovesBetweenRules(t *testing.T) {
	for name, move := range map[string]func(fx *fixture){
		"to the rule of its domain": func(fx *fixture) { fx.limit(t, domainOne, 5) },
		"to the rule of the tenant": func(fx *fixture) { fx.dropDomain(t, domainOne) },
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			ada, adaTwo := fx.mailboxes[0].Address, fx.mailboxes[2].Address
			from, to := sendlimit.TenantWide, domainOne
			fx.limit(t, sendlimit.TenantWide, 5)
			if name == "to the rule of the tenant" {
				from, to = to, from
				fx.limit(t, domainOne, 5)
			}
			fx.fake.Send(fx.id, ada, 6)
			fx.fake.Send(fx.id, adaTwo, 6)
			must(t, fx.run(t))
			move(fx)
			for range 2 {
				fx.fake.Fail(fake.Fault{Method: "Block", Object: to, Kind: outcome.Down, Times: 1})
				if err := fx.run(t); err == nil || !slices.Contains(fx.ruleList(t, from), ada) {
					t.Fatalf("%v: the old rule of %q does not block ada: %q", err, from, fx.ruleList(t, from))
				}
			}
			must(t, fx.run(t))
			if !slices.Contains(fx.ruleList(t, to), ada) || slices.Contains(fx.ruleList(t, from), ada) {
				t.Fatalf("%q lists %q, %q lists %q", from, fx.ruleList(t, from), to, fx.ruleList(t, to))
			}
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if events := fx.events(t); len(events[ada]) != 1 || len(events[adaTwo]) != 1 {
				t.Fatalf("the events are %+v, want one block each", events)
			}
		})
	}
}
