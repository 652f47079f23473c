// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"cmp"
	"net/netip"
	"slices"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// merge makes one sight out of what the servers said and tells why it is not
// complete. A value counts as seen only when every server that serves the
// zone returns it: a mail platform may ask any of them, so what one of them
// does not have yet is not published.
func merge(reports map[netip.AddrPort]report) ([]dns.RRSet, string) {
	var serving []report
	for _, rep := range reports {
		if rep.state == dns.ServerOK {
			serving = append(serving, rep)
		}
	}
	if len(serving) == 0 {
		return nil, reasonNoAnswer
	}
	return common(serving), gaps(serving)
}

// gaps says why questions stayed without an answer, "" when none did.
func gaps(serving []report) string {
	unknown, truncated := 0, 0
	for _, rep := range serving {
		unknown += rep.unknown
		truncated += rep.truncated
	}
	switch unknown {
	case 0:
		return ""
	case truncated:
		return reasonTCPBlocked
	default:
		return reasonTypeUnknown
	}
}

// common keeps what all servers return, in an order that depends on nothing
// but the content.
func common(serving []report) []dns.RRSet {
	var out []dns.RRSet
	for k, first := range serving[0].sets {
		values, ttl := first.values, first.ttl
		for _, other := range serving[1:] {
			s := other.sets[k]
			values = both(values, s.values)
			ttl = min(ttl, s.ttl)
		}
		if len(values) > 0 {
			order(values, wire.StringToType[string(k.kind)])
			out = append(out, dns.RRSet{Name: k.name, Type: k.kind, TTL: ttl, Values: values})
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

// states says how each name server did. One with several addresses is as good
// as its best.
func states(z zone, reports map[netip.AddrPort]report) []dns.Server {
	out := make([]dns.Server, len(z.servers))
	for i, s := range z.servers {
		state := dns.ServerUnreachable
		if s.blocked {
			state = dns.ServerBlocked
		}
		for _, to := range s.addrs {
			if got := reports[to].state; got == dns.ServerOK || state != dns.ServerOK && got == dns.ServerLame {
				state = got
			}
		}
		out[i] = dns.Server{Name: s.name, State: state, Agrees: state == dns.ServerOK}
	}
	return out
}
