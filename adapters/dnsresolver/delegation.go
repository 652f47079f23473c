// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"slices"
	"strings"

	wire "github.com/miekg/dns"
	"golang.org/x/net/publicsuffix"
)

// zone is where a domain's records live and who serves them.
type zone struct {
	apex string
	// delegation names the servers to which the parent zone delegates, or
	// those that the zone itself names where the parent says nothing.
	delegation []string
	servers    []server // of both
	// secure and bogus are what DNSSEC says of the zone.
	secure, bogus bool
}

// delegation finds the zone of name, or says why it cannot.
func (r *Reader) delegation(ctx context.Context, name string) (zone, string) {
	if z, ok := r.known.find(name); ok {
		return z, ""
	}
	z, reason := r.cut(ctx, name)
	switch {
	case reason == "":
		r.known.keep(name, z)
	case ctx.Err() != nil:
		reason = reasonDeadline
	}
	return z, reason
}

// cut walks from name towards the root until a resolver names the zone, or the
// zone above refers to its servers. It stops at a public suffix: below one, a
// zone is somebody's; at one, the domain is not delegated.
func (r *Reader) cut(ctx context.Context, name string) (zone, string) {
	if _, ok := wire.IsDomainName(name); !ok || name == "" {
		return zone{}, reasonZoneCut
	}
	reason := reasonNotDelegated
	for cur := name; !suffix(cur); cur = parent(cur) {
		m, bogus, err := r.checked(ctx, question{cur, wire.TypeNS})
		if err != nil {
			reason = reasonZoneCut
			if ref := r.referral(ctx, cur); len(ref.hosts) > 0 {
				return r.furnish(ctx, zone{apex: cur}, referral{}, ref)
			}
			continue
		}
		apex, ok := zoneOf(m, cur)
		switch {
		case !ok:
			continue
		case suffix(apex):
			return zone{}, reasonNotDelegated
		default:
			return r.found(ctx, zone{apex: apex, secure: m.AuthenticatedData && !bogus, bogus: bogus}, m)
		}
	}
	return zone{}, reason
}

// found asks on both sides of a zone cut for the zone's servers. m is the
// answer that showed the cut.
func (r *Reader) found(ctx context.Context, z zone, m *wire.Msg) (zone, string) {
	above := make(chan referral, 1)
	go func() { above <- r.referral(ctx, z.apex) }()
	own := hostsOf(m, z.apex)
	if len(own.hosts) == 0 && !answersFor(m, z.apex) {
		if m, bogus, err := r.checked(ctx, question{z.apex, wire.TypeNS}); err == nil {
			own, z.bogus = hostsOf(m, z.apex), z.bogus || bogus
		}
	}
	return r.furnish(ctx, z, own, <-above)
}

func answersFor(m *wire.Msg, name string) bool {
	return len(m.Question) == 1 && plain(m.Question[0].Name) == name
}

// zoneOf finds in the answer for a name's NS in which zone the name is. An
// alias in the answer means that an SOA may be of the alias's target, which
// says nothing.
func zoneOf(m *wire.Msg, name string) (string, bool) {
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == wire.TypeCNAME || rr.Header().Rrtype == wire.TypeDNAME {
			return "", false
		}
	}
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == wire.TypeNS && plain(rr.Header().Name) == name {
			return name, true
		}
	}
	return soaOwner(m, name)
}

// soaOwner finds whose SOA a negative answer about name holds.
func soaOwner(m *wire.Msg, name string) (string, bool) {
	for _, rr := range slices.Concat(m.Answer, m.Ns) {
		owner := plain(rr.Header().Name)
		if rr.Header().Rrtype == wire.TypeSOA && within(name, owner) {
			return owner, true
		}
	}
	return "", false
}

func parent(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	return rest
}

// within reports whether name is zone or lies below it. Everything lies below
// the root, "".
func within(name, zone string) bool {
	return zone == "" || name == zone || strings.HasSuffix(name, "."+zone)
}

// suffix reports whether name is a public suffix, where no zone of a customer
// can be. A top level that the list does not know counts as one.
func suffix(name string) bool {
	if name == "" {
		return true
	}
	s, _ := publicsuffix.PublicSuffix(name)
	return s == name
}
