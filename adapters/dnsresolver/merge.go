// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"cmp"
	"slices"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// sightOf makes one sight out of what serving servers said. A value counts as
// seen only when each of them returns it: a mail platform may ask any of them,
// so what one of them does not have yet is not published.
func sightOf(name, apex string, serving []report) dns.Sight {
	s := dns.Sight{Domain: name, Zone: apex}
	if len(serving) > 0 {
		s.Sets = common(serving)
	}
	return s
}

// common keeps what all servers return, in an order that depends on nothing
// but the content.
func common(serving []report) []dns.RRSet {
	var out []dns.RRSet
	for k, first := range serving[0].sets {
		values, ttl, made := first.values, first.ttl, first.made
		for _, other := range serving[1:] {
			s := other.sets[k]
			values = both(values, s.values)
			ttl = min(ttl, s.ttl)
			made = made && s.made
		}
		if len(values) > 0 {
			values = slices.Clone(values)
			order(values, wire.StringToType[string(k.kind)])
			out = append(out, dns.RRSet{Name: k.name, Type: k.kind, TTL: ttl, Values: values, Synthesised: made})
		}
	}
	slices.SortFunc(out, func(a, b dns.RRSet) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
	})
	return out
}

func both(a, b []string) []string {
	var out []string
	for _, v := range a {
		if slices.Contains(b, v) {
			out = append(out, v)
		}
	}
	return out
}
