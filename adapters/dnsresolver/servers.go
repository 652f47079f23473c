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

// servers lists the name servers of a zone with their addresses.
func (r *Reader) servers(ctx context.Context, apex string) (zone, string) {
	m, err := r.recurse(ctx, question{apex, wire.TypeNS})
	if err != nil {
		if ctx.Err() != nil {
			return zone{apex: apex}, reasonDeadline
		}
		return zone{apex: apex}, reasonNoAnswer
	}
	v, err := look(m, question{apex, wire.TypeNS})
	if err != nil || len(v.values) == 0 {
		return zone{apex: apex}, reasonNoAnswer
	}
	hosts := v.values[:min(len(v.values), maxServers)]
	found := make([][]netip.Addr, len(hosts))
	var wg sync.WaitGroup
	for i, host := range hosts {
		if found[i] = glue(m, host, apex); len(found[i]) == 0 {
			wg.Go(func() { found[i] = r.addresses(ctx, host) })
		}
	}
	wg.Wait()
	return zone{apex: apex, servers: r.guarded(hosts, found)}, ""
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
