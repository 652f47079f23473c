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
// blocks one mailbox and unblocks a different mailbox. The next pass completes both changes. Each
// change has one event, and sets its rule once.
func TestNextPassCompletesTheChangesOfACrashedPass(t *testing.T) {
	for _, afterEffect := range []bool{false, true} {
		for step, crashed := 0, true; crashed; step++ {
			fx, ada, adaTwo := newWithPendingChanges(t)
			crashed = fx.runCrashing(t, step, afterEffect).crashed
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if events := fx.events(t); len(events[ada]) != 1 || len(events[adaTwo]) != 2 || fx.fake.Effects("Block") != 3 {
				t.Fatalf("step %d, after its effect %v: got %d writes and the events %+v, want 3 writes, 1 event of ada and 2 of adaTwo", step, afterEffect, fx.fake.Effects("Block"), events)
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
func newWithPendingChangesIn(t *testing.T, store *bunstore.Store, number int) (fx *fixture, ada, adaTwo string) {
	t.Helper()
	fx = newNumberedFixture(t, store, number)
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
	store, crashPoints, fixtures := newStore(t), map[string]bool{}, 0
	for _, afterEffect := range []bool{false, true} {
		for firstStep, firstCrashed := 0, true; firstCrashed; firstStep++ {
			for secondStep, more := 0, true; more; secondStep++ {
				fx, _, _ := newWithPendingChangesIn(t, store, fixtures)
				fixtures++
				firstPass := fx.runCrashing(t, firstStep, afterEffect)
				fx.limit(t, domainOne, 9) // ada is below this limit
				fx.limit(t, domainTwo, 3) // adaTwo exceeds this limit
				secondPass := fx.runCrashing(t, secondStep, !afterEffect)
				for _, plan := range []*crashPlan{firstPass, secondPass} {
					if plan.crashed {
						crashPoints[plan.crashPoint()] = true
					}
				}
				firstCrashed = firstPass.crashed
				more = secondPass.crashed && firstStep%3 == 0 // not every pair of steps, to save time
				must(t, fx.run(t))
				fx.checkConsistent(t)
			}
		}
	}
	for _, step := range crashSteps {
		if !crashPoints["before "+step] || !crashPoints["after "+step] {
			t.Errorf("no pass crashed before %s, or no pass crashed after %s", step, step)
		}
	}
}

// crashPoint returns "before" or "after", and the name of the step at which the process crashed or
// paused. If it did neither, the name is that of the last step.
func (p *crashPlan) crashPoint() string {
	if p.afterEffect {
		return "after " + p.lastStep
	}
	return "before " + p.lastStep
}

// crashSteps are the steps before and after which TestChangesOfACrashedPassKeepTheirEvents must
// crash.
var crashSteps = []string{"SaveCounts", "ReconcileIntents", "SaveIntents", "Block", "SaveChanges", "ReleaseTenant"}

// TestIntentsStayOpenWithoutRules checks passes that cannot read the rules while intents are open.
// They store counts, but set no rule and record no event. A pass that can read the rules then
// records the block and the unblock.
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
		if err := fx.run(t); err == nil || len(fx.events(t)) != 0 || fx.fake.Calls("Block") != 1 || fx.storedSends(t, bob) != 2 {
			t.Fatalf("got the error %v, the events %+v, %d block calls and %d messages of bob, want an error, no event, 1 call and 2 messages", err, fx.events(t), fx.fake.Calls("Block"), fx.storedSends(t, bob))
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

// TestBlockMovesBetweenRules checks a block that moves from an old rule to a new rule. While the
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
				if err := fx.run(t); err == nil || !slices.Contains(fx.blockedByRule(t, from), ada) {
					t.Fatalf("got the error %v, want an error; the old rule of %q blocks %q, want ada in it", err, from, fx.blockedByRule(t, from))
				}
			}
			must(t, fx.run(t))
			if !slices.Contains(fx.blockedByRule(t, to), ada) || slices.Contains(fx.blockedByRule(t, from), ada) {
				t.Fatalf("the old rule of %q lists %q, the new rule of %q lists %q, want ada only in the new rule", from, fx.blockedByRule(t, from), to, fx.blockedByRule(t, to))
			}
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if events := fx.events(t); len(events[ada]) != 1 || len(events[adaTwo]) != 1 {
				t.Fatalf("the events are %+v, want one block of ada and one of adaTwo", events)
			}
		})
	}
}
