// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"net/netip"
	"slices"

	wire "github.com/miekg/dns"

	"github.com/tenantry/tenantry/core/egress"
	"github.com/tenantry/tenantry/core/panics"
)

// Limits on the servers of one zone. They are needed because the owner of the domain chooses the
// servers.
const (
	maxServers            = 13
	maxAddressesPerServer = 2
	maxAddresses          = 16
)

// server is one name server of a zone. isBlocked is true if addrs is empty and an address was
// forbidden because it is not public.
type server struct {
	name      string
	addrs     []netip.AddrPort
	isBlocked bool
}

// addServers returns z with the servers that the zone (fromZone) or the parent zone (fromParent)
// lists. It returns a reason when neither lists a server. With Options.Recursive, the servers are
// the resolvers.
func (r *Reader) addServers(ctx context.Context, z zone, fromZone, fromParent referral) (zone, string) {
	z.delegation = fromParent.hosts
	if len(fromParent.hosts) == 0 {
		z.delegation = fromZone.hosts
	}
	if r.isRecursive {
		z.servers = r.resolversAsServers()
		return z, ""
	}
	allServers := referral{limitServers(union(fromParent.hosts, fromZone.hosts)), fromZone.glue}
	if len(allServers.hosts) == 0 {
		if ctx.Err() != nil {
			return z, reasonDeadline
		}
		return z, reasonNoAnswer
	}
	addrsOfHost := r.resolveHosts(ctx, allServers, z.apex, fromParent.glue)
	z.servers = r.permittedServers(allServers.hosts, addrsOfHost, nil)
	return z, ""
}

// addServersByName returns z with hosts as additional servers. It adds at most as many as
// maxServers and maxAddresses allow.
func (r *Reader) addServersByName(ctx context.Context, z zone, hosts []string) zone {
	hosts = hosts[:min(len(hosts), max(0, maxServers-len(z.servers)))]
	addrsOfHost := r.resolveHosts(ctx, referral{hosts: hosts}, z.apex)
	z.servers = slices.Clone(z.servers)
	for i, s := range r.permittedServers(hosts, addrsOfHost, z.servers) {
		// A host is left out if maxAddresses allows none of its addresses. In the list, it would
		// look like a server that does not answer.
		if len(s.addrs) > 0 || s.isBlocked || len(addrsOfHost[i]) == 0 {
			z.servers = append(z.servers, s)
		}
	}
	return z
}

func union(a, b []string) []string {
	hosts := slices.Concat(a, b)
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// resolveHosts returns the addresses of each host of ref. It uses the glue records of ref and of
// moreGlue for hosts inside the zone. It asks the resolvers for all other hosts, and for hosts
// without a glue record.
func (r *Reader) resolveHosts(ctx context.Context, ref referral, apex string, moreGlue ...*wire.Msg) [][]netip.Addr {
	addrsOfHost := make([][]netip.Addr, len(ref.hosts))
	var wg panics.Group
	for i, host := range ref.hosts {
		for _, m := range append(moreGlue, ref.glue) {
			if m != nil && len(addrsOfHost[i]) == 0 {
				addrsOfHost[i] = glueAddrs(m, host, apex)
			}
		}
		if len(addrsOfHost[i]) == 0 {
			wg.Go(func() { addrsOfHost[i] = r.resolveHost(ctx, host) })
		}
	}
	wg.Wait()
	return addrsOfHost
}

// glueAddrs returns the addresses of host in the additional section of m. For a host outside the
// zone it returns nil, because the resolvers can find the addresses of that host.
func glueAddrs(m *wire.Msg, host, apex string) []netip.Addr {
	if !isWithin(host, apex) {
		return nil
	}
	var addrs []netip.Addr
	for _, rr := range m.Extra {
		if canonicalName(rr.Header().Name) == host {
			addrs = appendAddr(addrs, rr)
		}
	}
	return addrs
}

// resolveHost returns the addresses of a name server, IPv4 first, because some machines have no
// IPv6.
func (r *Reader) resolveHost(ctx context.Context, host string) []netip.Addr {
	if cached, ok := r.hostAddrs.get(host); ok {
		return slices.Clone(cached)
	}
	var addrs []netip.Addr
	for _, qtype := range []uint16{wire.TypeA, wire.TypeAAAA} {
		q := question{host, qtype}
		m, err := r.queryResolvers(ctx, q)
		if err != nil {
			continue
		}
		parsed, err := parseAnswer(m, q)
		if err != nil {
			continue
		}
		for _, text := range parsed.values {
			if a, err := netip.ParseAddr(text); err == nil {
				addrs = append(addrs, a)
			}
		}
	}
	if len(addrs) > 0 && ctx.Err() == nil {
		r.hostAddrs.put(host, slices.Clone(addrs))
	}
	return addrs
}

// permittedServers returns the hosts with their permitted addresses: at most maxAddressesPerServer
// for each host and maxAddresses in total. addrsOfHost holds the addresses of each host. The
// servers in present are asked already, so their addresses count towards maxAddresses. Every host
// gets its first address before a host gets its second one, so that as many servers as possible are
// asked.
func (r *Reader) permittedServers(hosts []string, addrsOfHost [][]netip.Addr, present []server) []server {
	permitted := map[netip.AddrPort]bool{}
	for _, s := range present {
		for _, addr := range s.addrs {
			permitted[addr] = true
		}
	}
	servers := make([]server, len(hosts))
	for limit := range maxAddressesPerServer {
		for i, host := range hosts {
			servers[i].name = host
			r.addAddresses(&servers[i], addrsOfHost[i], limit+1, permitted)
		}
	}
	return servers
}

// addAddresses adds the addresses ips to a server until it has limit addresses. permitted holds the
// addresses of all servers.
func (r *Reader) addAddresses(s *server, ips []netip.Addr, limit int, permitted map[netip.AddrPort]bool) {
	anyForbidden := false
	for _, ip := range slices.SortedFunc(slices.Values(ips), netip.Addr.Compare) {
		addr := netip.AddrPortFrom(ip.Unmap(), r.port)
		switch {
		case !r.allowPrivate && !egress.IsPublic(ip):
			anyForbidden = true
		case len(s.addrs) < limit && !slices.Contains(s.addrs, addr) && (permitted[addr] || len(permitted) < maxAddresses):
			permitted[addr] = true
			s.addrs = append(s.addrs, addr)
		}
	}
	s.isBlocked = anyForbidden && len(s.addrs) == 0
}

func appendAddr(list []netip.Addr, rr wire.RR) []netip.Addr {
	var raw []byte
	switch rr := rr.(type) {
	case *wire.A:
		raw = rr.A.To4()
	case *wire.AAAA:
		raw = rr.AAAA
	}
	if a, ok := netip.AddrFromSlice(raw); ok {
		return append(list, a)
	}
	return list
}
