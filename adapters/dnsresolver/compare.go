// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"cmp"
	"net/netip"
	"slices"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/dns"
)

// comparison is the result of comparing the reports of all servers of a zone.
type comparison struct {
	zone    zone
	reports map[netip.AddrPort]report
	serving []report // the reports of the servers that serve the zone, in the order of zone.servers
	// agrees is true for the addresses whose reports agree with the leading report. The leading
	// report is the report that agrees with the most reports. isDisagreeing is true if two reports
	// disagree. isMultiProvider is true if two reports will continue to disagree.
	agrees                         map[netip.AddrPort]bool
	isDisagreeing, isMultiProvider bool
}

func compareServers(z zone, reports map[netip.AddrPort]report) comparison {
	compared := comparison{zone: z, reports: reports, agrees: map[netip.AddrPort]bool{}}
	var addrs []netip.AddrPort
	for _, s := range z.servers {
		for _, addr := range s.addrs {
			if reports[addr].state == dns.ServerOK && !slices.Contains(addrs, addr) {
				addrs = append(addrs, addr)
				compared.serving = append(compared.serving, reports[addr])
			}
		}
	}
	leader, mostAgreeing := 0, -1
	for i, a := range compared.serving {
		n := 0
		for _, b := range compared.serving {
			if a.agreesWith(b) {
				n++
				continue
			}
			compared.isDisagreeing, compared.isMultiProvider = true, compared.isMultiProvider || a.keepsDisagreeing(b, z.apex)
		}
		if n > mostAgreeing {
			leader, mostAgreeing = i, n
		}
	}
	for i, addr := range addrs {
		compared.agrees[addr] = compared.serving[leader].agreesWith(compared.serving[i])
	}
	return compared
}

// agreesWith reports whether the answers of two servers agree (see sameValues), for all questions
// that both answered.
func (r report) agreesWith(other report) bool { return r.matches(other) && other.matches(r) }

func (r report) matches(other report) bool {
	for k, s := range r.sets {
		if !other.unanswered[k] && !k.sameValues(s.values, other.sets[k].values) {
			return false
		}
	}
	return true
}

// sameValues compares the values of two servers. SOA records may differ. The addresses of a name
// can differ in each answer, so sameValues only compares whether both servers return addresses.
func (k setKey) sameValues(a, b []string) bool {
	switch k.kind {
	case dns.SOA:
		return true
	case dns.A, dns.AAAA:
		return (len(a) == 0) == (len(b) == 0)
	default:
		return slices.Equal(a, b)
	}
}

// keepsDisagreeing reports whether two servers that disagree will continue to disagree. This is the
// case if their SOA serials are equal, because then no update is pending. It is also the case if
// their SOA records belong to different providers.
func (r report) keepsDisagreeing(other report, apex string) bool {
	ownValues, otherValues := r.sets[setKey{apex, dns.SOA}].values, other.sets[setKey{apex, dns.SOA}].values
	if len(ownValues) == 0 || len(otherValues) == 0 {
		return false
	}
	ownSOA, otherSOA := parseSOA(ownValues[0]), parseSOA(otherValues[0])
	return ownSOA.serial == otherSOA.serial || ownSOA.primary != otherSOA.primary || ownSOA.mailbox != otherSOA.mailbox
}

// states returns the state of each name server. The state of a server with several addresses is the
// best state of its addresses.
func (v comparison) states() []dns.Server {
	servers := make([]dns.Server, len(v.zone.servers))
	for i, s := range v.zone.servers {
		state, agrees := dns.ServerUnreachable, true
		if s.isBlocked {
			state = dns.ServerBlocked
		}
		for _, addr := range s.addrs {
			addrState := v.reports[addr].state
			if addrState == dns.ServerOK || state != dns.ServerOK && addrState == dns.ServerLame {
				state = addrState
			}
			agrees = agrees && (addrState != dns.ServerOK || v.agrees[addr])
		}
		servers[i] = dns.Server{Name: s.name, State: state, Agrees: agrees && state == dns.ServerOK}
	}
	return servers
}

func (v comparison) unreliableReason(servers []dns.Server) string {
	serving := 0
	for _, s := range servers {
		if s.State == dns.ServerOK {
			serving++
		}
	}
	switch {
	case v.zone.isBogus:
		return reasonBogus
	case serving == 0:
		return reasonNoAnswer
	case v.isDisagreeing:
		return reasonDisagree
	case serving < min(2, len(servers)):
		return reasonSingle
	case slices.ContainsFunc(v.serving, func(r report) bool { return len(r.unanswered) > 0 }):
		return reasonTypeUnknown
	default:
		return ""
	}
}

func (v comparison) warnings(zoneRead dns.ZoneRead) []string {
	anyServer := func(state dns.ServerState) bool {
		return slices.ContainsFunc(zoneRead.Servers, func(n dns.Server) bool { return n.State == state })
	}
	anyReport := func(matches func(report) bool) bool { return slices.ContainsFunc(v.serving, matches) }
	var found []string
	for _, w := range []struct {
		warning string
		applies bool
	}{
		{warnLame, anyServer(dns.ServerLame)},
		{warnUnreachable, anyServer(dns.ServerUnreachable)},
		{warnForbidden, anyServer(dns.ServerBlocked)},
		{warnMismatch, anyReport(v.delegationMismatch)},
		{warnTCP, anyReport(func(r report) bool { return r.noTCP })},
		{warnWildcard, anyReport(func(r report) bool { return r.wildcardUnknown }) ||
			slices.ContainsFunc(zoneRead.Sets, func(set dns.RRSet) bool { return set.Synthesised })},
		{warnMulti, v.isMultiProvider},
	} {
		if w.applies {
			found = append(found, w.warning)
		}
	}
	return found
}

// delegationMismatch reports whether the zone's NS records in a report differ from the delegation.
func (v comparison) delegationMismatch(r report) bool {
	k := setKey{v.zone.apex, dns.NS}
	return !r.unanswered[k] && !slices.Equal(limitServers(r.sets[k].values), v.zone.delegation)
}

// unaskedServers returns the servers in the zone's NS records that are not in zone.servers.
func (v comparison) unaskedServers() []string {
	var hosts []string
	for _, r := range v.serving {
		for _, host := range r.sets[setKey{v.zone.apex, dns.NS}].values {
			isHost := func(s server) bool { return s.name == host }
			if !slices.ContainsFunc(v.zone.servers, isHost) && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	slices.Sort(hosts)
	return hosts
}

// mergeReports returns a ZoneRead with the values that all serving servers return. A mail platform
// may ask any server. A value therefore counts as published only if all servers return it. For
// addresses see commonValues.
func mergeReports(name, apex string, serving []report) dns.ZoneRead {
	merged := dns.ZoneRead{Domain: name, Zone: apex}
	if len(serving) > 0 {
		merged.Sets = commonSets(serving)
	}
	return merged
}

// commonSets returns the common values of all servers, sorted by name, type and value.
func commonSets(serving []report) []dns.RRSet {
	var sets []dns.RRSet
	for k, first := range serving[0].sets {
		values, ttl, synthesised := first.values, first.ttl, first.isSynthesised
		for _, other := range serving[1:] {
			s := other.sets[k]
			values = k.commonValues(values, s.values)
			ttl = min(ttl, s.ttl)
			synthesised = synthesised && s.isSynthesised
		}
		if len(values) > 0 {
			values = slices.Clone(values)
			sortValues(values, wire.StringToType[string(k.kind)])
			sets = append(sets, dns.RRSet{Name: k.name, Type: k.kind, TTL: ttl, Values: values, Synthesised: synthesised})
		}
	}
	slices.SortFunc(sets, func(a, b dns.RRSet) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type))
	})
	return sets
}

// commonValues returns the values that are in both lists. The addresses of a name can differ in
// each answer, so commonValues returns the first list of addresses if both lists have addresses.
func (k setKey) commonValues(a, b []string) []string {
	if (k.kind == dns.A || k.kind == dns.AAAA) && len(b) > 0 {
		return a
	}
	return intersect(a, b)
}

func intersect(a, b []string) []string {
	var common []string
	for _, v := range a {
		if slices.Contains(b, v) {
			common = append(common, v)
		}
	}
	return common
}
