// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// Needs lists the names outside the domain that must be read before its records can be planned.
// Each list corresponds to a field of Beyond.
type Needs struct {
	// SPF holds the first names to read. Each record may reference more names.
	SPF       []string
	Above     []string
	Exchanges []string
	Keys      []string
}

// Wanted returns the DKIM selectors as records to publish. A read for a domain's status passes them
// to the reader, because a provider may have flattened the CNAMEs.
func (s Signing) Wanted() []Desired {
	var out []Desired
	for _, d := range []Desired{{Selector1, s.Selector1}, {Selector2, s.Selector2}} {
		if d.Content != "" {
			out = append(out, d)
		}
	}
	return out
}

// Needs returns the names to read in addition to s before the wanted records can be planned. The
// lists are minimal, because each name costs a DNS query.
func (s Sight) Needs(wanted []Desired) Needs {
	var n Needs
	l := zoneView{Sight: s}
	for _, want := range wanted {
		switch want.Purpose {
		case Sending:
			n.SPF = s.needsSPF(want)
		case Policy:
			if len(l.setAt(want.Name, CNAME).Values) == 0 && len(filter(l.values(want.Name, TXT), isDMARC)) == 0 {
				n.Above = DMARCAbove(s.Domain)
			}
		case Selector1, Selector2:
			if len(l.setAt(want.Name, CNAME).Values) == 0 && len(l.setAt(want.Name, TXT).Values) > 0 {
				n.Keys = append(n.Keys, normalName(want.Content))
			}
		}
	}
	n.Exchanges = s.needsExchanges(wanted)
	return n
}

func (s Sight) needsSPF(want Desired) []string {
	var names []string
	for _, text := range append([]string{want.Content}, s.values(want.Name, TXT)...) {
		names = append(names, SPFReferences(text)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// needsExchanges returns the MX hosts except those of the platform, nil if only DKIM selectors are
// wanted.
func (s Sight) needsExchanges(wanted []Desired) []string {
	selectors := func(d Desired) bool { return d.Purpose == Selector1 || d.Purpose == Selector2 }
	if !slices.ContainsFunc(wanted, func(d Desired) bool { return !selectors(d) }) {
		return nil
	}
	var hosts []string
	for _, value := range s.values(s.Domain, MX) {
		_, host, ok := parseMX(value)
		desired := slices.ContainsFunc(wanted, func(d Desired) bool { return d.Type == MX && sameName(d.Content, host) })
		if ok && host != "" && !address(host) && !desired && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
