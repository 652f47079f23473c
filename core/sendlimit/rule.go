// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"slices"
	"strings"
)

// Rule is the mail platform's rule of a scope. The zero Rule is one that is not
// there.
type Rule struct {
	ID   string
	Name string
	// Enabled rules block; one that is switched off blocks nobody, whatever it
	// lists.
	Enabled bool
	// Lists are the addresses in the rule, in lower case and in order.
	Lists []string
	// Altered is that it acts and is not as ours are in something else: what it
	// looks at or does, or when. To block by it puts it right.
	Altered bool
	// Made and Written say what this call did: made the rule, or changed it.
	Made, Written bool
}

// Blocks are the addresses that the rule stops.
func (r Rule) Blocks() []string {
	if !r.Enabled {
		return nil
	}
	return r.Lists
}

// Right reports whether the rule blocks exactly these addresses, which are in
// order, and needs no writing. One that is to block nobody may be missing.
func (r Rule) Right(list []string) bool {
	return !r.Altered && r.Enabled == (len(list) > 0) && slices.Equal(r.Blocks(), list)
}

// RuleOf is the rule of a scope among ours, the zero Rule where it is not.
func RuleOf(scope string, rules []Rule) Rule {
	for _, r := range rules {
		if strings.EqualFold(r.Name, RuleName(scope)) {
			return r
		}
	}
	return Rule{}
}

// Trace is one page of what was sent.
type Trace struct {
	Sent []Sent
	// Next continues the list, empty at its end.
	Next string
}
