// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// Verification returns the record that proves ownership, false if there is none. The platform
// offers alternatives. TXT is preferred, because it does not affect mail.
func Verification(offered []Record) (Record, bool) {
	for _, r := range offered {
		if r.Type == TXT {
			return r, true
		}
	}
	if len(offered) > 0 {
		return offered[0], true
	}
	return Record{}, false
}

// ReadStatus returns the status of a domain's mail records. verification holds the ownership
// records that the platform offers, signing its DKIM targets.
func ReadStatus(s Sight, verification []Record, signing Signing) Status {
	selector1, selector2 := ReadSelectors(s, signing)
	return Status{
		MX:               preferredMX(s.values(s.Domain, MX)),
		SPF:              Shown(first(s.values(s.Domain, TXT), isSPF)),
		DMARC:            Shown(first(s.values("_dmarc."+s.Domain, TXT), isDMARC)),
		DKIM:             dkim(selector1, selector2),
		VerificationSeen: slices.ContainsFunc(verification, s.shows),
	}
}

// ReadSelectors returns the states of the two DKIM selectors. As long as the platform has specified
// no targets, published records count as a mismatch.
func ReadSelectors(s Sight, signing Signing) (Selector, Selector) {
	return s.selector(Selector1, "selector1", signing.Selector1), s.selector(Selector2, "selector2", signing.Selector2)
}

// selector returns the state of a DKIM selector. A record that a plan would preserve has
// propagated.
func (s Sight) selector(of Purpose, label string, want Record) Selector {
	want.Type, want.Name = CNAME, label+"._domainkey."+s.Domain
	l := zoneView{Sight: s}
	switch {
	case l.dkimSelector(Desired{of, want}).action == Preserve:
		return SelectorPropagated
	case len(l.setAt(want.Name, CNAME).Values) > 0 || len(l.otherTypesAt(want.Name, CNAME)) > 0:
		return SelectorMismatch
	default:
		return SelectorMissing
	}
}

func dkim(selectors ...Selector) string {
	right := 0
	for _, s := range selectors {
		if s == SelectorPropagated {
			right++
		}
	}
	switch right {
	case len(selectors):
		return DKIMHealthy
	case 0:
		return Missing
	default:
		return DKIMPartial
	}
}

// shows reports whether a record that the platform specifies is published.
func (s Sight) shows(want Record) bool {
	return slices.ContainsFunc(s.values(want.Name, want.Type), func(value string) bool {
		if want.Type == TXT {
			return value == want.Content
		}
		if want.Type == MX {
			_, value, _ = strings.Cut(value, " ")
		}
		return sameName(value, want.Content)
	})
}

func (s Sight) values(name string, of Type) []string {
	for _, set := range s.Sets {
		if set.Type == of && sameName(set.Name, name) {
			return set.Values
		}
	}
	return nil
}

// preferredMX returns the host with the lowest preference, with its final dot. Among equal
// preferences the first value in sort order wins, because servers rotate the order.
func preferredMX(values []string) string {
	best, lowest := Missing, -1
	for _, value := range slices.Sorted(slices.Values(values)) {
		preference, host, ok := parseMX(value)
		if ok && (lowest < 0 || preference < lowest) {
			best, lowest = host+".", preference
		}
	}
	return best
}

// first returns the first matching text in sort order, or Missing. Several matches are an error in
// the zone. Sorting makes the result independent of the servers' rotation.
func first(texts []string, is func(string) bool) string {
	if found := slices.Sorted(slices.Values(filter(texts, is))); len(found) > 0 {
		return found[0]
	}
	return Missing
}

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
