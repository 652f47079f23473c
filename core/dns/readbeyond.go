// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// Needs are names beyond a domain's own that must be looked at before its
// wanted records can be decided on. Each list says for which part of Beyond.
type Needs struct {
	// SPF is where the tree begins: each text found may refer to more.
	SPF       []string
	Above     []string
	Exchanges []string
	Keys      []string
}

// Wanted are the selectors of a configuration as records to be published. A read
// for a domain's status wants these: a provider may have flattened them.
func (s Signing) Wanted() []Desired {
	var out []Desired
	for _, d := range []Desired{{Selector1, s.Selector1}, {Selector2, s.Selector2}} {
		if d.Content != "" {
			out = append(out, d)
		}
	}
	return out
}

// Needs lists what must be known besides s to decide on the wanted records, and
// no more: every name is a question to somebody's server.
func (s Sight) Needs(wanted []Desired) Needs {
	var n Needs
	l := look{Sight: s}
	for _, want := range wanted {
		switch want.Purpose {
		case Sending:
			n.SPF = s.needsSPF(want)
		case Policy:
			if len(l.at(want.Name, CNAME).Values) == 0 && len(only(l.values(want.Name, TXT), isDMARC)) == 0 {
				n.Above = DMARCAbove(s.Domain)
			}
		case Selector1, Selector2:
			if len(l.at(want.Name, CNAME).Values) == 0 && len(l.at(want.Name, TXT).Values) > 0 {
				n.Keys = append(n.Keys, referred(want.Content))
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

// needsExchanges lists the hosts of the MX but the platform's own. Who asks for
// selectors alone decides nothing about the MX.
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
