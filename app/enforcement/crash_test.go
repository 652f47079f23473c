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

// The process crashes at each step of a pass. The next pass completes its block and its unblock,
// with one event each and without writing a rule twice.
func TestCrashAtEachStep(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step, dead := 0, true; dead; step++ {
			fx, ada, bob := newWithPendingChanges(t)
			dead = fx.runCrashing(t, step, after).dead
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if events := fx.events(t); len(events[ada]) != 1 || len(events[bob]) != 2 || fx.fake.Effects("Block") != 3 {
				t.Fatalf("step %d, after its effect %v: %d writes, events %+v", step, after, fx.fake.Effects("Block"), events)
			}
			if step > 50 {
				t.Fatal("the run never ends")
			}
		}
	}
}

// newWithPendingChanges returns a fixture whose next pass blocks ada and unblocks bob.
func newWithPendingChanges(t *testing.T) (fx *fixture, ada, bob string) {
	t.Helper()
	return newWithPendingChangesIn(t, newStore(t), 0)
}

func newWithPendingChangesIn(t *testing.T, store *bunstore.Store, n int) (fx *fixture, ada, bob string) {
	t.Helper()
	fx = newNumberedFixture(t, store, n)
	ada, bob = fx.boxes[0].Address, fx.boxes[2].Address
	fx.limit(t, one, 5)
	fx.limit(t, two, 5)
	fx.fake.Send(fx.id, bob, 6)
	must(t, fx.run(t))
	fx.fake.Send(fx.id, ada, 6)
	fx.limit(t, two, 6)
	return fx, ada, bob
}

// A pass crashes, and the next pass decides differently and can crash too. Each change at the
// platform still has its event. Over all subtests, passes crash before and after each write.
func TestCrashThenDifferentDecision(t *testing.T) {
	store, reached, n := newStore(t), map[string]bool{}, 0
	for _, ends := range []bool{false, true} {
		for first, dead := 0, true; dead; first++ {
			for second, again := 0, true; again; second++ {
				fx, _, _ := newWithPendingChangesIn(t, store, n)
				l := fx.runCrashing(t, first, ends)
				reached[l.crashPoint()], dead = true, l.dead
				fx.limit(t, one, 9) // ada is below this limit
				fx.limit(t, two, 3) // bob exceeds this limit
				l = fx.runCrashing(t, second, !ends)
				n++
				reached[l.crashPoint()], again = true, l.dead && first%3 == 0
				must(t, fx.run(t))
				fx.checkConsistent(t)
			}
		}
	}
	for _, step := range crashSteps {
		if !reached["before "+step] || !reached["after "+step] {
			t.Errorf("no process crashed both before and after %s", step)
		}
	}
}

// crashPoint returns the step at which the process crashed.
func (l *crashPlan) crashPoint() string {
	if l.after {
		return "after " + l.last
	}
	return "before " + l.last
}

// crashSteps are the writes of a pass. A crash before and after each one is tested.
var crashSteps = []string{"SaveCounts", "Settle", "SaveIntents", "Block", "SaveChanges", "ReleaseTenant"}

// While rules cannot be read, open intents stay open and no decision is made. Counts are still
// stored.
func TestIntentsStayOpenWithoutRules(t *testing.T) {
	fx := newFixture(t)
	ada, bob := fx.boxes[0].Address, fx.boxes[1].Address
	fx.limit(t, one, 5)
	fx.fake.Send(fx.id, ada, 6)
	fx.fake.Fail(fake.Fault{Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	if err := fx.run(t); err == nil {
		t.Fatal("the fault was not reported")
	}
	fx.limit(t, one, 9)
	lift := fx.fake.Fail(fake.Fault{Method: "Rules", Kind: outcome.Down})
	fx.fake.Send(fx.id, bob, 2)
	for range 2 {
		if err := fx.run(t); err == nil || len(fx.events(t)) != 0 || fx.fake.Calls("Block") != 1 || fx.shownSends(t, bob) != 2 {
			t.Fatalf("%v, events %+v, %d calls", err, fx.events(t), fx.fake.Calls("Block"))
		}
	}
	lift()
	must(t, fx.run(t))
	fx.checkConsistent(t)
	events := fx.events(t)[ada]
	if len(events) != 2 || events[0].Limit != 5 || events[1].Limit != 9 || !events[0].At.Before(events[1].At) {
		t.Fatalf("events %+v", events)
	}
}

// A mailbox that moves from one rule to another is always blocked by one of them. If the new rule
// cannot be set, the old rule keeps blocking it.
func TestBlockMovesBetweenRules(t *testing.T) {
	for name, move := range map[string]func(fx *fixture){
		"to its domain's": func(fx *fixture) { fx.limit(t, one, 5) },
		"to the tenant's": func(fx *fixture) { fx.dropDomain(t, one) },
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			ada, other := fx.boxes[0].Address, fx.boxes[2].Address
			from, to := sendlimit.TenantWide, one
			fx.limit(t, sendlimit.TenantWide, 5)
			if name == "to the tenant's" {
				from, to = to, from
				fx.limit(t, one, 5)
			}
			fx.fake.Send(fx.id, ada, 6)
			fx.fake.Send(fx.id, other, 6)
			must(t, fx.run(t))
			move(fx)
			for range 2 {
				fx.fake.Fail(fake.Fault{Method: "Block", About: to, Kind: outcome.Down, Times: 1})
				if err := fx.run(t); err == nil || !slices.Contains(fx.ruleList(t, from), ada) {
					t.Fatalf("%v: %q lists %q", err, from, fx.ruleList(t, from))
				}
			}
			must(t, fx.run(t))
			if !slices.Contains(fx.ruleList(t, to), ada) || slices.Contains(fx.ruleList(t, from), ada) {
				t.Fatalf("%q lists %q, %q lists %q", from, fx.ruleList(t, from), to, fx.ruleList(t, to))
			}
			must(t, fx.run(t))
			fx.checkConsistent(t)
			if events := fx.events(t); len(events[ada]) != 1 || len(events[other]) != 1 {
				t.Fatalf("events %+v", events)
			}
		})
	}
}
