// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestChangeInEffect(t *testing.T) {
	on := sendlimit.Rule{Name: "one", Enabled: true, Lists: []string{"ada@a.test"}}
	off := sendlimit.Rule{Name: "two", Lists: []string{"bob@a.test"}}
	for _, tt := range []struct {
		name    string
		address string
		action  sendlimit.Action
		rules   []sendlimit.Rule
		want    bool
	}{
		{"blocked by one of two", "Ada@a.test", sendlimit.Blocked, []sendlimit.Rule{off, on}, true},
		{"listed in a disabled rule", "bob@a.test", sendlimit.Blocked, []sendlimit.Rule{off, on}, false},
		{"not listed", "cyd@a.test", sendlimit.Blocked, []sendlimit.Rule{off, on}, false},
		{"blocked, without rules", "ada@a.test", sendlimit.Blocked, nil, false},
		{"unblocked, but still listed", "ada@a.test", sendlimit.Unblocked, []sendlimit.Rule{off, on}, false},
		{"unblocked, listed in a disabled rule", "bob@a.test", sendlimit.Unblocked, []sendlimit.Rule{off, on}, true},
		{"unblocked, without rules", "ada@a.test", sendlimit.Unblocked, nil, true},
	} {
		c := sendlimit.Change{Action: tt.action, Event: sendlimit.Event{Address: tt.address}}
		if got := c.InEffect(tt.rules); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestRuleWriteOrder(t *testing.T) {
	r := sendlimit.Decision{BlockLists: map[string][]string{sendlimit.TenantWide: {}, "b.test": {"bob@b.test"}, "z.test": {}}}
	got := r.WriteOrder([]string{sendlimit.TenantWide, "a.test", "b.test", "z.test"})
	if want := []string{"b.test", "z.test", sendlimit.TenantWide, "a.test"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

// TestBlockedMailboxesStayBlocked checks that a mailbox that must stay blocked is blocked by some
// rule after every step, whichever steps fail. If no step fails, the intended rule blocks it.
func TestBlockedMailboxesStayBlocked(t *testing.T) {
	scopes := []string{sendlimit.TenantWide, "a.test", "b.test"}
	rapid.Check(t, func(t *rapid.T) {
		r := sendlimit.Decision{BlockLists: map[string][]string{}}
		for _, scope := range scopes {
			if rapid.Bool().Draw(t, "policy") {
				r.BlockLists[scope] = []string{}
			}
		}
		now := map[string][]string{} // what each rule blocks
		var stay []string
		for _, domain := range scopes[1:] {
			address := "ada@" + domain
			heldBy := rapid.SampledFrom([]string{sendlimit.TenantWide, domain, "none"}).Draw(t, "held by")
			now[heldBy] = append(now[heldBy], address)
			covering := domain
			if !r.HasPolicy(domain) {
				covering = sendlimit.TenantWide
			}
			if r.HasPolicy(covering) && rapid.Bool().Draw(t, "over") {
				r.BlockLists[covering] = append(r.BlockLists[covering], address)
				if heldBy != "none" {
					stay = append(stay, address)
				}
			}
		}
		delete(now, "none")
		var failed []string
		for _, scope := range r.WriteOrder(scopes) {
			list := r.BlockLists[scope]
			if r.BlocksForFailed(scope, failed) {
				list = r.AddressesWithFailed(scope, failed, rulesOf(now))
			}
			if rapid.Bool().Draw(t, "fails") {
				failed = append(failed, scope)
				continue
			}
			now[scope] = list
			for _, address := range stay {
				if !blockedIn(now, address) {
					t.Fatalf("%s is unblocked by the write of %q, after %q failed: %v, want %v", address, scope, failed, now, r.BlockLists)
				}
			}
		}
		for _, scope := range scopes {
			if len(failed) == 0 && !slices.Equal(now[scope], r.BlockLists[scope]) {
				t.Fatalf("%q blocks %q, not %q", scope, now[scope], r.BlockLists[scope])
			}
		}
	})
}

func rulesOf(now map[string][]string) (rules []sendlimit.Rule) {
	for scope, list := range now {
		rules = append(rules, sendlimit.Rule{Name: sendlimit.RuleName(scope), Enabled: len(list) > 0, Lists: list})
	}
	return rules
}

func blockedIn(now map[string][]string, address string) bool {
	for _, list := range now {
		if slices.Contains(list, address) {
			return true
		}
	}
	return false
}
