// SPDX-License-Identifier: Apache-2.0

package sendlimit

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

// Trace is one page of what was sent.
type Trace struct {
	Sent []Sent
	// Next continues the list, empty at its end.
	Next string
}
