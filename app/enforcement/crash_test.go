// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// TestARunThatEndsAnywhere: the next run makes good what one left undone that
// blocks a mailbox of one domain and lets one of the other go, with one event
// each and no rule written twice.
func TestARunThatEndsAnywhere(t *testing.T) {
	for _, after := range []bool{false, true} {
		for step, dead := 0, true; dead; step++ {
			h, ada, bob := newBusy(t)
			dead = h.dies(t, step, after).dead
			must(t, h.run(t))
			h.agrees(t)
			if events := h.events(t); len(events[ada]) != 1 || len(events[bob]) != 2 || h.fake.Effects("Block") != 3 {
				t.Fatalf("step %d, after its effect %v: %d writes, events %+v", step, after, h.fake.Effects("Block"), events)
			}
			if step > 50 {
				t.Fatal("the run never ends")
			}
		}
	}
}

// newBusy is a house whose next run blocks ada and lets bob go.
func newBusy(t *testing.T) (h *house, ada, bob string) {
	t.Helper()
	return busyIn(t, newStore(t), 0)
}

func busyIn(t *testing.T, store *bunstore.Store, n int) (h *house, ada, bob string) {
	t.Helper()
	h = numbered(t, store, n)
	ada, bob = h.boxes[0].Address, h.boxes[2].Address
	h.limit(t, one, 5)
	h.limit(t, two, 5)
	h.fake.Send(h.id, bob, 6)
	must(t, h.run(t))
	h.fake.Send(h.id, ada, 6)
	h.limit(t, two, 6)
	return h, ada, bob
}

// TestARunThatEndsAndAnotherThatDecidesOtherwise: what the first one did at the
// platform has its event all the same, also when the second one ends too. On
// the way both end at every failpoint that the package has.
func TestARunThatEndsAndAnotherThatDecidesOtherwise(t *testing.T) {
	store, reached, n := newStore(t), map[string]bool{}, 0
	for _, ends := range []bool{false, true} {
		for first, dead := 0, true; dead; first++ {
			for second, again := 0, true; again; second++ {
				h, _, _ := busyIn(t, store, n)
				l := h.dies(t, first, ends)
				reached[l.place()], dead = true, l.dead
				h.limit(t, one, 9) // which ada has not passed
				h.limit(t, two, 3) // and bob has
				l = h.dies(t, second, !ends)
				n++
				reached[l.place()], again = true, l.dead && first%3 == 0
				must(t, h.run(t))
				h.agrees(t)
			}
		}
	}
	for name, place := range failpoints {
		if !reached[place] {
			t.Errorf("no process ended where %s is, %s", name, place)
		}
	}
}

// place is where a life ended.
func (l *life) place() string {
	if l.after {
		return "after " + l.last
	}
	return "before " + l.last
}

// failpoints are those of the package, and which end of a life is the same.
var failpoints = map[string]string{
	"enforcement.before-counts": "before SaveCounts", "enforcement.after-counts": "after SaveCounts",
	"enforcement.before-settled": "before Settle", "enforcement.after-settled": "after Settle",
	"enforcement.before-intents": "before SaveIntents", "enforcement.after-intents": "after SaveIntents",
	"enforcement.before-rule": "before Block", "enforcement.after-rule": "after Block",
	"enforcement.before-changes": "before SaveChanges", "enforcement.after-changes": "after SaveChanges",
	"enforcement.before-release": "before ReleaseTenant",
}

func TestEveryFailpointIsAnEnd(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	var found []string
	for _, file := range append(files, "../settling/intents.go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		must(t, err)
		for _, m := range regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`).FindAllStringSubmatch(string(source), -1) {
			found = append(found, m[1])
		}
	}
	slices.Sort(found)
	if known := slices.Sorted(maps.Keys(failpoints)); !slices.Equal(found, known) {
		t.Fatalf("the source has %q, ends are known of %q", found, known)
	}
}

// While rules cannot be read, what a run left open stays so and nothing is
// decided; counts are stored.
func TestIntentsThatCannotBeSettled(t *testing.T) {
	h := newHouse(t)
	ada, bob := h.boxes[0].Address, h.boxes[1].Address
	h.limit(t, one, 5)
	h.fake.Send(h.id, ada, 6)
	h.fake.Fail(fake.Fault{Method: "Block", Kind: outcome.Unknown, AfterEffect: true, Times: 1})
	if err := h.run(t); err == nil {
		t.Fatal("the fault was not told")
	}
	h.limit(t, one, 9)
	lift := h.fake.Fail(fake.Fault{Method: "Rules", Kind: outcome.Down})
	h.fake.Send(h.id, bob, 2)
	for range 2 {
		if err := h.run(t); err == nil || len(h.events(t)) != 0 || h.fake.Calls("Block") != 1 || h.sent(t, bob) != 2 {
			t.Fatalf("%v, events %+v, %d calls", err, h.events(t), h.fake.Calls("Block"))
		}
	}
	lift()
	must(t, h.run(t))
	h.agrees(t)
	events := h.events(t)[ada]
	if len(events) != 2 || events[0].Limit != 5 || events[1].Limit != 9 || !events[0].At.Before(events[1].At) {
		t.Fatalf("events %+v", events)
	}
}

// A mailbox that moves from one rule to another is blocked by one of them at
// every moment, and where the one that is to have it cannot be set, the other
// keeps it.
func TestABlockMovesFromRuleToRule(t *testing.T) {
	for name, move := range map[string]func(h *house){
		"to its domain's": func(h *house) { h.limit(t, one, 5) },
		"to the tenant's": func(h *house) { h.drop(t, one) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			ada, other := h.boxes[0].Address, h.boxes[2].Address
			from, to := sendlimit.TenantWide, one
			h.limit(t, sendlimit.TenantWide, 5)
			if name == "to the tenant's" {
				from, to = to, from
				h.limit(t, one, 5)
			}
			h.fake.Send(h.id, ada, 6)
			h.fake.Send(h.id, other, 6)
			must(t, h.run(t))
			move(h)
			for range 2 {
				h.fake.Fail(fake.Fault{Method: "Block", About: to, Kind: outcome.Down, Times: 1})
				if err := h.run(t); err == nil || !slices.Contains(h.lists(t, from), ada) {
					t.Fatalf("%v: %q lists %q", err, from, h.lists(t, from))
				}
			}
			must(t, h.run(t))
			if !slices.Contains(h.lists(t, to), ada) || slices.Contains(h.lists(t, from), ada) {
				t.Fatalf("%q lists %q, %q lists %q", from, h.lists(t, from), to, h.lists(t, to))
			}
			must(t, h.run(t))
			h.agrees(t)
			if events := h.events(t); len(events[ada]) != 1 || len(events[other]) != 1 {
				t.Fatalf("events %+v", events)
			}
		})
	}
}
