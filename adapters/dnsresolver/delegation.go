// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	wire "github.com/miekg/dns"
	"golang.org/x/net/publicsuffix"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
)

// zone is the zone that holds the records of a domain, with its name servers.
type zone struct {
	apex string
	// delegation lists the name servers to which the parent zone delegates this zone, sorted. If no
	// server of the parent zone returns a referral, it lists the zone's own NS records.
	delegation []string
	servers    []server // the servers of delegation and of the zone's NS records, or the resolvers
	// isSecure and isBogus are the result of the resolver's DNSSEC validation.
	isSecure, isBogus bool
}

// findZone returns the zone that holds name, from the cache or the DNS. If it finds no zone, it
// returns the reason as a value of ZoneRead.Reason.
func (r *Reader) findZone(ctx context.Context, name string) (zone, string) {
	if z, ok := r.zones.get(name); ok {
		return z, ""
	}
	z, reason := r.walkToZone(ctx, name)
	switch {
	case reason == "":
		r.zones.put(name, z)
	case ctx.Err() != nil:
		reason = reasonDeadline
	}
	return z, reason
}

// walkToZone asks for the NS records of name, then of each parent name. It stops when a resolver's
// answer shows the zone, or when the servers of the parent zone refer to the zone's servers. It
// also stops at a public suffix, because no customer owns the zone of a public suffix. It returns
// dns.ReasonNotDelegated if an answer shows that name is in such a zone. If it finds no zone, it
// returns reasonZoneCut if a question got no answer, otherwise dns.ReasonNotDelegated.
func (r *Reader) walkToZone(ctx context.Context, name string) (zone, string) {
	if _, ok := wire.IsDomainName(name); !ok || name == "" {
		return zone{}, reasonZoneCut
	}
	reason := dns.ReasonNotDelegated
	for candidate := name; !isPublicSuffix(candidate); candidate = parent(candidate) {
		m, bogus, err := r.queryChecked(ctx, question{candidate, wire.TypeNS})
		if err != nil {
			reason = reasonZoneCut
			if ref := r.parentReferral(ctx, candidate); len(ref.hosts) > 0 {
				return r.addServers(ctx, zone{apex: candidate}, referral{}, ref)
			}
			continue
		}
		apex, ok := zoneOf(m, candidate)
		switch {
		case !ok:
			continue
		case isPublicSuffix(apex):
			return zone{}, dns.ReasonNotDelegated
		default:
			return r.addServersOfBothSides(ctx, zone{apex: apex, isSecure: m.AuthenticatedData && !bogus, isBogus: bogus}, m)
		}
	}
	return zone{}, reason
}

// addServersOfBothSides returns z with the servers that the parent zone and the zone itself list. m
// is the answer that contains the apex of z.
func (r *Reader) addServersOfBothSides(ctx context.Context, z zone, m *wire.Msg) (zone, string) {
	var fromParent referral
	var parentRead panics.Group
	parentRead.Go(func() { fromParent = r.parentReferral(ctx, z.apex) })
	fromZone := hostsOf(m, z.apex)
	if len(fromZone.hosts) == 0 && !answersFor(m, z.apex) {
		if m, bogus, err := r.queryChecked(ctx, question{z.apex, wire.TypeNS}); err == nil {
			fromZone, z.isBogus = hostsOf(m, z.apex), z.isBogus || bogus
		}
	}
	parentRead.Wait()
	return r.addServers(ctx, z, fromZone, fromParent)
}

func answersFor(m *wire.Msg, name string) bool {
	return len(m.Question) == 1 && canonicalName(m.Question[0].Name) == name
}

// zoneOf returns the zone that contains name. m is the answer for the NS records of name. zoneOf
// returns false for an answer with a CNAME or DNAME, because the SOA record in that answer may
// belong to the zone of the target.
func zoneOf(m *wire.Msg, name string) (string, bool) {
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == wire.TypeCNAME || rr.Header().Rrtype == wire.TypeDNAME {
			return "", false
		}
	}
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == wire.TypeNS && canonicalName(rr.Header().Name) == name {
			return name, true
		}
	}
	return soaOwner(m, name)
}

// soaOwner returns the owner name of an SOA record in m. It ignores an owner that is neither name
// nor a parent of name.
func soaOwner(m *wire.Msg, name string) (string, bool) {
	for _, rr := range slices.Concat(m.Answer, m.Ns) {
		owner := canonicalName(rr.Header().Name)
		if rr.Header().Rrtype == wire.TypeSOA && isWithin(name, owner) {
			return owner, true
		}
	}
	return "", false
}

func parent(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	return rest
}

// isWithin reports whether name equals zone or is below it. Every name is below the root, whose
// name is "".
func isWithin(name, zone string) bool {
	return zone == "" || name == zone || strings.HasSuffix(name, "."+zone)
}

// isPublicSuffix reports whether name is a public suffix, which cannot be a customer's zone. The
// root and all top-level domains count as public suffixes.
func isPublicSuffix(name string) bool {
	if name == "" {
		return true
	}
	s, _ := publicsuffix.PublicSuffix(name)
	return s == name
}

// maxParentServers is the maximum number of servers of a parent zone that are asked.
const maxParentServers = 2

// referral lists the name servers of a zone according to the parent zone or to the zone itself.
// glue is the message whose additional section may contain the servers' addresses.
type referral struct {
	hosts []string
	glue  *wire.Msg
}

// hostsOf returns the name servers that m lists for the zone apex, sorted, at most maxServers.
func hostsOf(m *wire.Msg, apex string) referral {
	parsed, err := parseAnswer(m, question{apex, wire.TypeNS})
	if err != nil {
		return referral{}
	}
	return referral{limitServers(parsed.values), m}
}

func limitServers(hosts []string) []string { return hosts[:min(len(hosts), maxServers)] }

// parentReferral asks servers of the parent zone for the name servers to which they delegate apex.
// It returns an empty referral if no server refers to apex, for example because the servers of the
// parent zone also serve apex.
func (r *Reader) parentReferral(ctx context.Context, apex string) referral {
	if r.isRecursive {
		return referral{}
	}
	parentName := parent(apex)
	servers, known := r.parentAddrs.get(parentName)
	if !known {
		servers = r.parentZoneServers(ctx, parentName)
	}
	mode := modeParent
	if isPublicSuffix(parentName) {
		mode = modeRegistry
	}
	silent := len(servers) > 0
	for _, addr := range servers {
		m, err := r.client.exchange(ctx, addr, question{apex, wire.TypeNS}, mode)
		if err != nil {
			continue
		}
		silent = false
		if hosts := referredHosts(m, apex); len(hosts) > 0 {
			return referral{limitServers(hosts), m}
		}
	}
	if silent && ctx.Err() == nil {
		// The failure is cached, so that later reads do not wait for these servers.
		r.parentAddrs.put(parentName, nil)
	}
	return referral{}
}

// referredHosts returns the sorted name servers in a referral to owner. An authoritative answer is
// not a referral.
func referredHosts(m *wire.Msg, owner string) []string {
	var hosts []string
	if m.Authoritative || m.Rcode != wire.RcodeSuccess {
		return nil
	}
	for _, rr := range m.Ns {
		if ns, ok := rr.(*wire.NS); ok && canonicalName(ns.Hdr.Name) == owner {
			hosts = append(hosts, displayName(ns.Ns))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// parentZoneServers chooses up to maxParentServers servers at random from the servers of the zone
// that contains name. It returns one address of each chosen server.
func (r *Reader) parentZoneServers(ctx context.Context, name string) []netip.AddrPort {
	m, err := r.queryResolvers(ctx, question{name, wire.TypeNS})
	if err != nil || name == "" {
		return nil
	}
	apex, ok := zoneOf(m, name)
	if ok && apex != name && apex != "" {
		if m, err = r.queryResolvers(ctx, question{apex, wire.TypeNS}); err != nil {
			return nil
		}
	}
	var addrs []netip.AddrPort
	if ok {
		hosts := hostsOf(m, apex).hosts
		rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		hosts = hosts[:min(len(hosts), maxParentServers)]
		for _, s := range r.permittedServers(hosts, r.resolveHosts(ctx, referral{hosts, m}, apex), nil) {
			addrs = append(addrs, s.addrs[:min(len(s.addrs), 1)]...)
		}
	}
	if ctx.Err() == nil {
		r.parentAddrs.put(name, addrs)
	}
	return addrs
}
