// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strconv"
	"strings"
)

// Verification selects the record that proves ownership. The platform offers
// alternatives; the TXT is the one that disturbs no mail.
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

// ReadStatus reads how a domain's mail records stand. verification holds the
// ownership records that the platform offers, signing its DKIM targets.
func ReadStatus(s Sight, verification []Record, signing Signing) Status {
	selector1, selector2 := ReadSelectors(s, signing)
	return Status{
		MX:               preferredMX(s.values(s.Domain, MX)),
		SPF:              tagged(s.values(s.Domain, TXT), "v=spf1"),
		DMARC:            tagged(s.values("_dmarc."+s.Domain, TXT), "v=DMARC1"),
		DKIM:             dkim(selector1, selector2),
		VerificationSeen: slices.ContainsFunc(verification, s.shows),
	}
}

// ReadSelectors reads how the two DKIM selectors stand. While the platform has
// named no targets nothing can be right: what is published there is foreign.
func ReadSelectors(s Sight, signing Signing) (Selector, Selector) {
	return s.selector("selector1", signing.Selector1), s.selector("selector2", signing.Selector2)
}

func (s Sight) selector(label string, want Record) Selector {
	name := label + "._domainkey." + s.Domain
	seen := s.values(name, CNAME)
	switch {
	case want.Content != "" && len(seen) == 1 && sameName(seen[0], want.Content):
		return SelectorPropagated
	case len(seen) > 0 || len(s.values(name, TXT)) > 0:
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

// shows reports whether the world sees a record that the platform asks for.
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

// preferredMX returns the exchange with the lowest preference, as published
// but for its final dot, which is always there. Of equals the first by name
// counts, since servers turn the order.
func preferredMX(values []string) string {
	best, lowest := Missing, -1
	for _, value := range slices.Sorted(slices.Values(values)) {
		number, host, _ := strings.Cut(value, " ")
		preference, err := strconv.Atoi(number)
		if err != nil || (lowest >= 0 && preference >= lowest) {
			continue
		}
		best, lowest = strings.TrimSuffix(host, ".")+".", preference
	}
	return best
}

// tagged returns the TXT that begins with a version tag. When there are
// several, which is a fault of the zone, it is the first by text, since
// servers turn the order.
func tagged(texts []string, version string) string {
	for _, text := range slices.Sorted(slices.Values(texts)) {
		if len(text) < len(version) || !strings.EqualFold(text[:len(version)], version) {
			continue
		}
		if rest := text[len(version):]; rest == "" || strings.ContainsAny(rest[:1], " ;\t") {
			return text
		}
	}
	return Missing
}

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
