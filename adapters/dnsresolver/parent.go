// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"

	wire "github.com/miekg/dns"
)

// parentServers is how many servers of a parent zone are asked at most.
const parentServers = 2

// referral is what somebody says of who serves a zone.
type referral struct {
	hosts []string // sorted
	glue  *wire.Msg
}

// hostsOf reads the name servers of a zone from an answer.
func hostsOf(m *wire.Msg, apex string) referral {
	v, err := look(m, question{apex, wire.TypeNS})
	if err != nil {
		return referral{}
	}
	return referral{capped(v.values), m}
}

func capped(hosts []string) []string { return hosts[:min(len(hosts), maxServers)] }

// referral asks the zone above to whom it delegates a zone. It says nothing
// when nobody above can be asked or serves both zones.
func (r *Reader) referral(ctx context.Context, apex string) referral {
	if r.recursive {
		return referral{}
	}
	above := parent(apex)
	servers, known := r.parents.find(above)
	if !known {
		servers = r.above(ctx, above)
	}
	silent := len(servers) > 0
	for _, to := range servers {
		m, err := r.wire.ask(ctx, to, question{apex, wire.TypeNS}, asParent)
		if err != nil {
			continue
		}
		silent = false
		if hosts := referred(m, apex); len(hosts) > 0 {
			return referral{capped(hosts), m}
		}
	}
	if silent && ctx.Err() == nil {
		r.parents.keep(above, nil) // no read shall wait for them for a while
	}
	return referral{}
}

// referred reads the name servers out of a referral to owner.
func referred(m *wire.Msg, owner string) []string {
	var hosts []string
	if m.Authoritative || m.Rcode != wire.RcodeSuccess {
		return nil
	}
	for _, rr := range m.Ns {
		if ns, ok := rr.(*wire.NS); ok && plain(ns.Hdr.Name) == owner {
			hosts = append(hosts, host(ns.Ns))
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// above finds a few servers of the zone that holds name.
func (r *Reader) above(ctx context.Context, name string) []netip.AddrPort {
	m, err := r.recurse(ctx, question{name, wire.TypeNS})
	if err != nil || name == "" {
		return nil
	}
	apex, ok := zoneOf(m, name)
	if ok && apex != name && apex != "" {
		if m, err = r.recurse(ctx, question{apex, wire.TypeNS}); err != nil {
			return nil
		}
	}
	var out []netip.AddrPort
	if ok {
		hosts := hostsOf(m, apex).hosts
		rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
		hosts = hosts[:min(len(hosts), parentServers)]
		for _, s := range r.guarded(hosts, r.resolve(ctx, referral{hosts, m}, apex)) {
			out = append(out, s.addrs[:min(len(s.addrs), 1)]...)
		}
	}
	if ctx.Err() == nil {
		r.parents.keep(name, out)
	}
	return out
}
