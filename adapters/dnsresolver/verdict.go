// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"net/netip"
	"slices"

	"github.com/tenantry/tenantry/core/dns"
)

// verdict judges what all servers said together.
type verdict struct {
	zone    zone
	reports map[netip.AddrPort]report
	serving []report // in the order of the zone's servers
	// agrees holds the addresses that say what most say; split tells that
	// some do not, multi that this is not for lack of time.
	agrees       map[netip.AddrPort]bool
	split, multi bool
}

func judge(z zone, reports map[netip.AddrPort]report) verdict {
	v := verdict{zone: z, reports: reports, agrees: map[netip.AddrPort]bool{}}
	var addrs []netip.AddrPort
	for _, s := range z.servers {
		for _, to := range s.addrs {
			if reports[to].state == dns.ServerOK && !slices.Contains(addrs, to) {
				addrs = append(addrs, to)
				v.serving = append(v.serving, reports[to])
			}
		}
	}
	leader, most := 0, -1
	for i, a := range v.serving {
		n := 0
		for _, b := range v.serving {
			if a.agrees(b) {
				n++
				continue
			}
			v.split, v.multi = true, v.multi || a.settled(b, z.apex)
		}
		if n > most {
			leader, most = i, n
		}
	}
	for i, to := range addrs {
		v.agrees[to] = v.serving[leader].agrees(v.serving[i])
	}
	return v
}

// agrees compares what two servers say of all that both answered.
func (r report) agrees(other report) bool { return r.covers(other) && other.covers(r) }

func (r report) covers(other report) bool {
	for k, s := range r.sets {
		if !other.missed[k] && !k.same(s.values, other.sets[k].values) {
			return false
		}
	}
	return true
}

// same compares two servers' values. Numbers of the zone itself may differ.
// Addresses are often handed out in turn; only that there are any matters, as
// nothing may stand beside a CNAME.
func (k key) same(a, b []string) bool {
	switch k.kind {
	case dns.SOA:
		return true
	case dns.A, dns.AAAA:
		return (len(a) == 0) == (len(b) == 0)
	default:
		return slices.Equal(a, b)
	}
}

// settled reports whether two servers that disagree will go on to do so: both
// are as new, or they do not belong together.
func (r report) settled(other report, apex string) bool {
	mine, its := r.sets[key{apex, dns.SOA}].values, other.sets[key{apex, dns.SOA}].values
	if len(mine) == 0 || len(its) == 0 {
		return false
	}
	a, b := parseSOA(mine[0]), parseSOA(its[0])
	return a.serial == b.serial || a.primary != b.primary || a.mailbox != b.mailbox
}

// states says how each name server did. One with several addresses is as good
// as its best.
func (v verdict) states() []dns.Server {
	out := make([]dns.Server, len(v.zone.servers))
	for i, s := range v.zone.servers {
		state, agrees := dns.ServerUnreachable, true
		if s.blocked {
			state = dns.ServerBlocked
		}
		for _, to := range s.addrs {
			got := v.reports[to].state
			if got == dns.ServerOK || state != dns.ServerOK && got == dns.ServerLame {
				state = got
			}
			agrees = agrees && (got != dns.ServerOK || v.agrees[to])
		}
		out[i] = dns.Server{Name: s.name, State: state, Agrees: agrees && state == dns.ServerOK}
	}
	return out
}

// reason says why the servers' answers cannot be relied on, "" when they can.
func (v verdict) reason(servers []dns.Server) string {
	serving := 0
	for _, s := range servers {
		if s.State == dns.ServerOK {
			serving++
		}
	}
	switch {
	case v.zone.bogus:
		return reasonBogus
	case serving == 0:
		return reasonNoAnswer
	case v.split:
		return reasonDisagree
	case serving < min(2, len(servers)):
		return reasonSingle
	case slices.ContainsFunc(v.serving, func(r report) bool { return len(r.missed) > 0 }):
		return reasonTypeUnknown
	default:
		return ""
	}
}

// warnings lists what is wrong besides.
func (v verdict) warnings(s dns.Sight) []string {
	is := func(state dns.ServerState) bool {
		return slices.ContainsFunc(s.Servers, func(n dns.Server) bool { return n.State == state })
	}
	any := func(of func(report) bool) bool { return slices.ContainsFunc(v.serving, of) }
	var out []string
	for _, w := range []struct {
		word string
		when bool
	}{
		{warnLame, is(dns.ServerLame)},
		{warnUnreachable, is(dns.ServerUnreachable)},
		{warnForbidden, is(dns.ServerBlocked)},
		{warnMismatch, any(v.mismatched)},
		{warnTCP, any(func(r report) bool { return r.noTCP })},
		{warnWildcard, any(func(r report) bool { return r.unsure }) ||
			slices.ContainsFunc(s.Sets, func(set dns.RRSet) bool { return set.Synthesised })},
		{warnMulti, v.multi},
	} {
		if w.when {
			out = append(out, w.word)
		}
	}
	return out
}

// mismatched reports whether a server names other servers for the zone than the
// delegation does.
func (v verdict) mismatched(r report) bool {
	k := key{v.zone.apex, dns.NS}
	return !r.missed[k] && !slices.Equal(capped(r.sets[k].values), v.zone.delegation)
}

// unnamed lists the servers that the zone itself names and that were not asked.
func (v verdict) unnamed() []string {
	var out []string
	for _, r := range v.serving {
		for _, host := range r.sets[key{v.zone.apex, dns.NS}].values {
			asked := func(s server) bool { return s.name == host }
			if !slices.ContainsFunc(v.zone.servers, asked) && !slices.Contains(out, host) {
				out = append(out, host)
			}
		}
	}
	slices.Sort(out)
	return out
}
