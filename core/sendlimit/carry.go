// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"cmp"
	"slices"
	"strings"
)

// Happened reports whether a change that was meant to be is so at the mail
// platform, by our rules there.
func (c Change) Happened(rules []Rule) bool {
	blocked := slices.ContainsFunc(rules, func(r Rule) bool { return r.stops(c.Event.Address) })
	return blocked == (c.Action == Blocked)
}

func (r Rule) stops(address string) bool {
	return slices.ContainsFunc(r.Blocks(), func(one string) bool { return strings.EqualFold(one, address) })
}

// InForce reports whether a scope has a policy.
func (r Ruling) InForce(scope string) bool { return r.Lists[scope] != nil }

// Order is the order in which the rules of scopes are set, so that a mailbox
// which another rule is to block from now on is never without one in between:
// those of domains take theirs from the tenant-wide one, that takes theirs from
// such whose policy is gone.
func (r Ruling) Order(scopes []string) []string {
	turn := func(scope string) int {
		switch {
		case scope == TenantWide:
			return 1
		case r.InForce(scope):
			return 0
		}
		return 2
	}
	out := slices.Clone(scopes)
	slices.SortFunc(out, func(a, b string) int { return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(a, b)) })
	return out
}

// Gives reports whether the rule of a scope may have to give mailboxes up to
// one of those that could not be set before it.
func (r Ruling) Gives(scope string, failed []string) bool {
	if scope != TenantWide && r.InForce(scope) {
		return false
	}
	return slices.ContainsFunc(failed, func(other string) bool { return len(r.Lists[other]) > 0 })
}

// Keeping is whom the rule of a scope has to block while those of others could
// not be set: its own, and those of theirs that it blocks now.
func (r Ruling) Keeping(scope string, failed []string, rules []Rule) []string {
	list := slices.Clone(r.Lists[scope])
	for _, rule := range rules {
		if !strings.EqualFold(rule.Name, RuleName(scope)) {
			continue
		}
		for _, other := range failed {
			for _, address := range r.Lists[other] {
				if rule.stops(address) {
					list = append(list, address)
				}
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
