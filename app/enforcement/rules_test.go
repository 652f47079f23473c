// SPDX-License-Identifier: Apache-2.0

package enforcement_test

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// However many rules there are, a look reads them once and sets those that have
// to differ.
func TestRulesThatAreRightCostOneRead(t *testing.T) {
	h := newHouse(t)
	for _, scope := range []string{one, two, sendlimit.TenantWide} {
		h.limit(t, scope, 5)
	}
	must(t, h.run(t))
	if h.fake.Calls("Rules") != 1 || h.fake.Calls("Block") != 0 {
		t.Fatalf("%d reads, %d other calls", h.fake.Calls("Rules"), h.fake.Calls("Block"))
	}
	h.fake.Send(h.id, h.boxes[0].Address, 6)
	for range 3 {
		must(t, h.run(t))
	}
	if h.agrees(t); h.fake.Calls("Rules") != 4 || h.fake.Calls("Block") != 1 {
		t.Fatalf("%d reads, %d other calls", h.fake.Calls("Rules"), h.fake.Calls("Block"))
	}
}

// What somebody changed in a rule is put right, whatever it is.
func TestARuleThatWasChangedByHand(t *testing.T) {
	h := newHouse(t)
	h.limit(t, one, 5)
	ada, bob := h.boxes[0].Address, h.boxes[1].Address
	h.fake.Send(h.id, ada, 6)
	must(t, h.run(t))
	name := sendlimit.RuleName(one)
	for what, other := range map[string]sendlimit.Rule{
		"switched off":    {Lists: []string{ada}},
		"another list":    {Enabled: true, Lists: []string{ada, bob}},
		"everybody's":     {Enabled: true},
		"something else":  {Enabled: true, Lists: []string{ada}, Altered: true},
		"off and another": {Lists: []string{bob}, Altered: true},
	} {
		other.Name = name
		h.fake.SetRule(h.id, other)
		must(t, h.run(t))
		if r := h.fake.Holds(h.id).Rules[0]; !r.Right([]string{ada}) {
			t.Fatalf("%s: %+v", what, r)
		}
	}
	h.fake.DropRule(h.id, name)
	must(t, h.run(t))
	if got := h.lists(t, one); len(got) != 1 || len(h.events(t)) != 1 {
		t.Fatalf("removed: %q, events %+v", got, h.events(t))
	}
}

// Rules of an earlier life of a tenant, which nobody knows of any more, block
// nobody after its first look, also where no limit was set; later looks at
// such a tenant ask for no rules.
func TestRulesThatWereLeftOver(t *testing.T) {
	long := strings.Repeat("long-", 12) + one
	for name, limited := range map[string]bool{"limited": true, "without a limit": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			ada := h.boxes[0].Address
			for _, scope := range []string{one, long, sendlimit.TenantWide} {
				h.fake.SetRule(h.id, sendlimit.Rule{Name: sendlimit.RuleName(scope), Enabled: true, Lists: []string{ada}})
			}
			h.fake.SetRule(h.id, sendlimit.Rule{Name: "somebody's", Enabled: true, Lists: []string{ada}})
			if limited {
				h.limit(t, two, 5)
			}
			h.fake.Fail(fake.Fault{Method: "Rules", Kind: outcome.Down, Times: 1})
			if err := h.run(t); err == nil || len(h.lists(t, one)) == 0 {
				t.Fatalf("%v: %q", err, h.lists(t, one))
			}
			must(t, h.run(t))
			for _, scope := range []string{one, long, sendlimit.TenantWide} {
				if got := h.lists(t, scope); len(got) != 0 {
					t.Errorf("%q blocks %q", scope, got)
				}
			}
			reads, writes := h.fake.Calls("Rules"), h.fake.Effects("Block")
			must(t, h.run(t))
			if again := h.fake.Calls("Rules") > reads; again != limited || writes != 3 || h.fake.Effects("Block") != 3 {
				t.Fatalf("read again: %v; %d writes", again, h.fake.Effects("Block"))
			}
			if len(h.events(t)) != 0 || len(h.blocks(t)) != 1 {
				t.Fatalf("events %+v, blocked are %q", h.events(t), h.blocks(t))
			}
		})
	}
}
