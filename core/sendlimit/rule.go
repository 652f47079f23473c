// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"slices"
	"strings"
)

// Rule is the mail platform's transport rule of a scope. The zero Rule stands for a missing rule.
type Rule struct {
	ID   string
	Name string
	// Enabled is false for a rule that is switched off, which blocks no address.
	Enabled bool
	// Lists holds the addresses in the rule, in lower case and sorted.
	Lists []string
	// Altered is true when an enabled rule differs from the expected one in more than its
	// addresses, such as its conditions, actions or schedule. The next write restores it.
	Altered bool
	// Made and Written report whether this call created or changed the rule.
	Made, Written bool
}

// Blocks returns the addresses that the rule blocks, nil when it is switched off.
func (r Rule) Blocks() []string {
	if !r.Enabled {
		return nil
	}
	return r.Lists
}

// Right reports whether the rule blocks exactly the addresses of list, which is sorted, so that no
// write is needed. A missing rule is right for an empty list.
func (r Rule) Right(list []string) bool {
	return !r.Altered && r.Enabled == (len(list) > 0) && slices.Equal(r.Blocks(), list)
}

// RuleOf returns the rule of a scope, or the zero Rule if rules has none.
func RuleOf(scope string, rules []Rule) Rule {
	for _, r := range rules {
		if strings.EqualFold(r.Name, RuleName(scope)) {
			return r
		}
	}
	return Rule{}
}

// Trace is one page of the message trace.
type Trace struct {
	Sent []Sent
	// Next is the cursor of the next page, empty on the last page.
	Next string
}
