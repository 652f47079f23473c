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
	apex    string
	servers []server
}

// delegation finds the zone of name, or says why it cannot.
func (r *Reader) delegation(ctx context.Context, name string) (zone, string) {
	if z, ok := r.known.find(name); ok {
		return z, ""
	}
	apex, reason := r.apex(ctx, name)
	if reason == "" {
		z, why := r.servers(ctx, apex)
		if why == "" {
			r.known.keep(name, z)
		}
		return z, why
	}
	if ctx.Err() != nil {
		reason = reasonDeadline
	}
	return zone{}, reason
}

// apex walks from name towards the root until a resolver names the zone. It
// stops at a public suffix: below one, a zone is somebody's; at one, the
// domain is not delegated.
func (r *Reader) apex(ctx context.Context, name string) (string, string) {
	if _, ok := wire.IsDomainName(name); !ok || name == "" {
		return "", reasonZoneCut
	}
	reason := reasonNotDelegated
	for cur := name; !suffix(cur); cur = parent(cur) {
		m, err := r.recurse(ctx, question{cur, wire.TypeSOA})
		if err != nil {
			reason = reasonZoneCut
			continue
		}
		owner, ok := soaOwner(m, cur)
		switch {
		case !ok:
			continue
		case suffix(owner):
			return "", reasonNotDelegated
		default:
			return owner, ""
		}
	}
	return "", reason
}

// soaOwner finds whose SOA an answer holds. An alias in the answer means that
// the SOA may be of the alias's target, which says nothing.
func soaOwner(m *wire.Msg, name string) (string, bool) {
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == wire.TypeCNAME || rr.Header().Rrtype == wire.TypeDNAME {
			return "", false
		}
	}
	for _, rr := range append(slices.Clone(m.Answer), m.Ns...) {
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
