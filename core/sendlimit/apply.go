// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"cmp"
	"slices"
	"strings"
)

// InEffect reports whether the mail platform's rules already have the effect of c. If the action is
// Blocked, a rule must block the address. If the action is Unblocked, no rule may block the
// address.
func (c Change) InEffect(rules []Rule) bool {
	blocked := slices.ContainsFunc(rules, func(r Rule) bool { return r.blocksAddress(c.Event.Address) })
	return blocked == (c.Action == Blocked)
}

// HasPolicy reports whether the scope has a policy.
func (decision Decision) HasPolicy(scope string) bool { return decision.BlockLists[scope] != nil }

// WriteOrder returns the scopes in the order in which their rules must be written. In this order, a
// mailbox that moves from one rule to another is always blocked by at least one of them. Rules of
// domains with a policy come first, then the tenant-wide rule, then the rules of domains without a
// policy.
func (decision Decision) WriteOrder(scopes []string) []string {
	rank := func(scope string) int {
		switch {
		case scope == TenantWide:
			return 1
		case decision.HasPolicy(scope):
			return 0
		}
		return 2
	}
	ordered := slices.Clone(scopes)
	slices.SortFunc(ordered, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return ordered
}

// CanCoverFailedScopes reports whether a scope's rule may have to keep blocking mailboxes that the
// decision moves to other rules. failed holds the scopes whose rules could not be written, so those
// rules do not block the mailboxes yet. If CanCoverFailedScopes returns true, the caller writes the
// scope's rule with the addresses that AddressesWithFailedScopes returns.
func (decision Decision) CanCoverFailedScopes(scope string, failed []string) bool {
	if scope != TenantWide && decision.HasPolicy(scope) {
		return false
	}
	return slices.ContainsFunc(failed, func(failedScope string) bool { return len(decision.BlockLists[failedScope]) > 0 })
}

// AddressesWithFailedScopes returns the sorted addresses that a scope's rule must block if the
// rules of the scopes in failed could not be written. These are the addresses of the scope itself,
// and the addresses of failed scopes that the scope's rule blocks at present.
func (decision Decision) AddressesWithFailedScopes(scope string, failed []string, rules []Rule) []string {
	addresses := slices.Clone(decision.BlockLists[scope])
	for _, rule := range rules {
		if !strings.EqualFold(rule.Name, RuleName(scope)) {
			continue
		}
		for _, failedScope := range failed {
			for _, address := range decision.BlockLists[failedScope] {
				if rule.blocksAddress(address) {
					addresses = append(addresses, address)
				}
			}
		}
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}
