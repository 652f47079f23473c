// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// clause is one comparison of a $filter.
type clause struct {
	property, operator, value string
}

var (
	comparison = regexp.MustCompile(`^([A-Za-z]+(?:/\$count)?)\s+(eq|ne)\s+(?:'((?:[^']|'')*)'|(true|false|null|\d+))$`)
	function   = regexp.MustCompile(`^(?i)(startswith|endswith)\(\s*([A-Za-z]+)\s*,\s*'((?:[^']|'')*)'\s*\)$`)
	spacedAnd  = regexp.MustCompile(`\s+and\s+`)
)

// parseFilter reads a conjunction of comparisons, the only form that the calls
// of this product use. Anything else is refused as Graph refuses what a
// property does not support.
func parseFilter(text string) ([]clause, *graphError) {
	if text == "" {
		return nil, nil
	}
	var clauses []clause
	for _, part := range spacedAnd.Split(strings.TrimSpace(text), -1) {
		if m := comparison.FindStringSubmatch(strings.Trim(part, "()")); m != nil {
			clauses = append(clauses, clause{m[1], m[2], strings.ReplaceAll(m[3], "''", "'") + m[4]})
			continue
		}
		m := function.FindStringSubmatch(part)
		if m == nil {
			return nil, errFilter.of(part)
		}
		clauses = append(clauses, clause{m[2], strings.ToLower(m[1]), strings.ReplaceAll(m[3], "''", "'")})
	}
	return clauses, nil
}

// advanced reports whether a clause needs ConsistencyLevel: eventual.
func (c clause) advanced() bool {
	return c.operator == "endswith" || c.operator == "ne" || strings.HasSuffix(c.property, "/$count")
}

// holds tests one object. Texts compare without regard to case, as the
// directory does.
func (c clause) holds(o object) bool {
	have := strings.ToLower(fmt.Sprint(o[c.property]))
	if list, ok := strings.CutSuffix(c.property, "/$count"); ok {
		items, _ := o[list].([]object)
		have = fmt.Sprint(len(items))
	}
	want := strings.ToLower(c.value)
	switch c.operator {
	case "eq":
		return have == want
	case "ne":
		return have != want
	case "startswith":
		return strings.HasPrefix(have, want)
	}
	return strings.HasSuffix(have, want)
}

// filtered keeps the objects for which every clause holds. known are the
// properties that may be filtered by.
func filtered(all []object, clauses []clause, known ...string) ([]object, *graphError) {
	for _, c := range clauses {
		if !slices.Contains(known, c.property) {
			return nil, errFilter.of(c.property)
		}
	}
	kept := []object{}
	for _, o := range all {
		if !slices.ContainsFunc(clauses, func(c clause) bool { return !c.holds(o) }) {
			kept = append(kept, o)
		}
	}
	return kept, nil
}
