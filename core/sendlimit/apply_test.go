// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestInEffectFollowsTheEnabledRules(t *testing.T) {
	enabledRule := sendlimit.Rule{Name: "one", Enabled: true, Lists: []string{"ada@a.test"}}
	disabledRule := sendlimit.Rule{Name: "two", Lists: []string{"bob@a.test"}}
	for _, tc := range []struct {
		name    string
		address string
		action  sendlimit.Action
		rules   []sendlimit.Rule
		want    bool
	}{
		{"blocked by one of two rules", "Ada@a.test", sendlimit.Blocked, []sendlimit.Rule{disabledRule, enabledRule}, true},
		{"listed in a disabled rule", "bob@a.test", sendlimit.Blocked, []sendlimit.Rule{disabledRule, enabledRule}, false},
		{"not listed", "cyd@a.test", sendlimit.Blocked, []sendlimit.Rule{disabledRule, enabledRule}, false},
		{"blocked, without rules", "ada@a.test", sendlimit.Blocked, nil, false},
		{"unblocked, but still listed", "ada@a.test", sendlimit.Unblocked, []sendlimit.Rule{disabledRule, enabledRule}, false},
		{"unblocked, listed in a disabled rule", "bob@a.test", sendlimit.Unblocked, []sendlimit.Rule{disabledRule, enabledRule}, true},
		{"unblocked, without rules", "ada@a.test", sendlimit.Unblocked, nil, true},
	} {
		change := sendlimit.Change{Action: tc.action, Event: sendlimit.Event{Address: tc.address}}
		if got := change.InEffect(tc.rules); got != tc.want {
			t.Errorf("%s: in effect is %t, want %t", tc.name, got, tc.want)
		}
	}
}

func TestRulesWithAddressesAreWrittenFirst(t *testing.T) {
	decision := sendlimit.Decision{BlockLists: map[string][]string{sendlimit.TenantWide: {}, "b.test": {"bob@b.test"}, "z.test": {}}}
	got := decision.WriteOrder([]string{sendlimit.TenantWide, "a.test", "b.test", "z.test"})
	if want := []string{"b.test", "z.test", sendlimit.TenantWide, "a.test"}; !slices.Equal(got, want) {
		t.Fatalf("got the order %q, want %q", got, want)
	}
}

// TestBlockedMailboxesStayBlocked writes the rules of a decision one by one, and some writes fail.
// After each write, every mailbox that must stay blocked is in at least one rule. If no write
// fails, each rule blocks the addresses of the decision.
func TestBlockedMailboxesStayBlocked(t *testing.T) {
	scopes := []string{sendlimit.TenantWide, "a.test", "b.test"}
	rapid.Check(t, func(t *rapid.T) {
		decision := sendlimit.Decision{BlockLists: map[string][]string{}}
		for _, scope := range scopes {
			if rapid.Bool().Draw(t, "policy") {
				decision.BlockLists[scope] = []string{}
			}
		}
		blockedByScope := map[string][]string{} // the addresses that each rule blocks
		var mustStayBlocked []string
		for _, domain := range scopes[1:] {
			address := "ada@" + domain
			blockingScope := rapid.SampledFrom([]string{sendlimit.TenantWide, domain, "none"}).Draw(t, "blocking scope")
			blockedByScope[blockingScope] = append(blockedByScope[blockingScope], address)
			coveringScope := domain
			if !decision.HasPolicy(domain) {
				coveringScope = sendlimit.TenantWide
			}
			if decision.HasPolicy(coveringScope) && rapid.Bool().Draw(t, "above the limit") {
				decision.BlockLists[coveringScope] = append(decision.BlockLists[coveringScope], address)
				if blockingScope != "none" {
					mustStayBlocked = append(mustStayBlocked, address)
				}
			}
		}
		delete(blockedByScope, "none")
		var failedScopes []string
		for _, scope := range decision.WriteOrder(scopes) {
			list := decision.BlockLists[scope]
			if decision.CanCoverFailedScopes(scope, failedScopes) {
				list = decision.AddressesWithFailedScopes(scope, failedScopes, rulesOf(blockedByScope))
			}
			if rapid.Bool().Draw(t, "fails") {
				failedScopes = append(failedScopes, scope)
				continue
			}
			blockedByScope[scope] = list
			for _, address := range mustStayBlocked {
				if !blockedIn(blockedByScope, address) {
					t.Fatalf("%s is unblocked by the write of %q, after %q failed: %v, want %v", address, scope, failedScopes, blockedByScope, decision.BlockLists)
				}
			}
		}
		for _, scope := range scopes {
			if len(failedScopes) == 0 && !slices.Equal(blockedByScope[scope], decision.BlockLists[scope]) {
				t.Fatalf("the rule of %q blocks %q, want %q", scope, blockedByScope[scope], decision.BlockLists[scope])
			}
		}
	})
}

func rulesOf(blockedByScope map[string][]string) (rules []sendlimit.Rule) {
	for scope, list := range blockedByScope {
		rules = append(rules, sendlimit.Rule{Name: sendlimit.RuleName(scope), Enabled: len(list) > 0, Lists: list})
	}
	return rules
}

func blockedIn(blockedByScope map[string][]string, address string) bool {
	for _, list := range blockedByScope {
		if slices.Contains(list, address) {
			return true
		}
	}
	return false
}
