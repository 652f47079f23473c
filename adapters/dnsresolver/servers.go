// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"net/netip"
	"slices"
	"sync"

	wire "github.com/miekg/dns"
)

// What a delegation may cost: it is the domain's owner who writes it.
const (
	maxServers   = 13
	maxPerServer = 2
	maxAddresses = 16
)

// server is one name server of a zone. blocked says that it has addresses but
// none that we may ask.
type server struct {
	name    string
	addrs   []netip.AddrPort
	blocked bool
}

// furnish finds the servers that either side of a zone cut names.
func (r *Reader) furnish(ctx context.Context, z zone, own, above referral) (zone, string) {
	z.delegation = above.hosts
	if len(above.hosts) == 0 {
		z.delegation = own.hosts
	}
	if r.recursive {
		z.servers = r.standIns()
		return z, ""
	}
	all := referral{capped(union(above.hosts, own.hosts)), own.glue}
	if len(all.hosts) == 0 {
		if ctx.Err() != nil {
			return z, reasonDeadline
		}
		return z, reasonNoAnswer
	}
	found := r.resolve(ctx, all, z.apex, above.glue)
	z.servers = r.guarded(all.hosts, found)
	return z, ""
}

// widen adds servers that the zone itself names to those that are asked.
func (r *Reader) widen(ctx context.Context, z zone, hosts []string) zone {
	hosts = hosts[:min(len(hosts), max(0, maxServers-len(z.servers)))]
	addrs := 0
	for _, s := range z.servers {
		addrs += len(s.addrs)
	}
	z.servers = slices.Clone(z.servers)
	for _, s := range r.guarded(hosts, r.resolve(ctx, referral{hosts: hosts}, z.apex)) {
		s.addrs = s.addrs[:min(len(s.addrs), max(0, maxAddresses-addrs))]
		addrs += len(s.addrs)
		z.servers = append(z.servers, s)
	}
	return z
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// resolve finds the addresses of name servers, in the answers that came along
// where they are believed.
func (r *Reader) resolve(ctx context.Context, of referral, apex string, more ...*wire.Msg) [][]netip.Addr {
	found := make([][]netip.Addr, len(of.hosts))
	var wg sync.WaitGroup
	for i, host := range of.hosts {
		for _, m := range append(more, of.glue) {
			if m != nil && len(found[i]) == 0 {
				found[i] = glue(m, host, apex)
			}
		}
		if len(found[i]) == 0 {
			wg.Go(func() { found[i] = r.addresses(ctx, host) })
		}
	}
	wg.Wait()
	return found
}

// glue gives the addresses that came along. They are believed only for hosts
// inside the zone, which cannot be found in another way.
func glue(m *wire.Msg, host, apex string) []netip.Addr {
	if !within(host, apex) {
		return nil
	}
	var out []netip.Addr
	for _, rr := range m.Extra {
		if plain(rr.Header().Name) == host {
			out = appendAddr(out, rr)
		}
	}
	return out
}

// addresses resolves a name server's host: IPv4 first, as not every machine
// has IPv6.
func (r *Reader) addresses(ctx context.Context, host string) []netip.Addr {
	if known, ok := r.hosts.find(host); ok {
		return slices.Clone(known)
	}
	var out []netip.Addr
	for _, qtype := range []uint16{wire.TypeA, wire.TypeAAAA} {
		q := question{host, qtype}
		m, err := r.recurse(ctx, q)
		if err != nil {
			continue
		}
		v, err := look(m, q)
		if err != nil {
			continue
		}
		for _, text := range v.values {
			if a, err := netip.ParseAddr(text); err == nil {
				out = append(out, a)
			}
		}
	}
	if len(out) > 0 && ctx.Err() == nil {
		r.hosts.keep(host, slices.Clone(out))
	}
	return out
}

// guarded keeps the addresses that may be asked, within the caps.
func (r *Reader) guarded(hosts []string, found [][]netip.Addr) []server {
	out := make([]server, len(hosts))
	seen := map[netip.AddrPort]bool{}
	for i, host := range hosts {
		s := server{name: host}
		slices.SortFunc(found[i], netip.Addr.Compare)
		for _, a := range slices.Compact(found[i]) {
			to := netip.AddrPortFrom(a.Unmap(), r.port)
			switch {
			case !r.allowPrivate && !public(a):
				s.blocked = true
			case len(s.addrs) < maxPerServer && (seen[to] || len(seen) < maxAddresses):
				seen[to] = true
				s.addrs = append(s.addrs, to)
			}
		}
		s.blocked = s.blocked && len(s.addrs) == 0
		out[i] = s
	}
	return out
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
