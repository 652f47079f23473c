// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// interview collects the answers of one server.
type interview struct {
	*reading
	to     netip.AddrPort
	wg     sync.WaitGroup
	mu     sync.Mutex
	cuts   map[string]bool // names that were asked for their own NS
	report report
}

func (q question) key() key { return key{q.name, dns.Type(wire.TypeToString[q.qtype])} }

// everything asks all that is watched. What stands at a domain itself shows an
// alias there too.
func (in *interview) everything(ctx context.Context) {
	for _, q := range []question{
		{in.apex, wire.TypeNS}, {in.name, wire.TypeMX}, {in.name, wire.TypeTXT}, {"_dmarc." + in.name, wire.TypeTXT},
	} {
		in.wg.Go(func() { in.ask(ctx, q) })
	}
	keys := "_domainkey." + in.name
	for _, name := range []string{"selector1." + keys, "selector2." + keys} {
		in.wg.Go(func() {
			if in.alone(ctx, name) {
				in.cut(ctx, keys)
			}
		})
	}
	in.wg.Go(func() { in.alone(ctx, "autodiscover."+in.name) })
}

// alone asks for a CNAME, and where there is none for what it could not stand
// beside: a key made by hand, addresses, what the provider has flattened. It
// reports whether anything is there.
func (in *interview) alone(ctx context.Context, name string) bool {
	if in.ask(ctx, question{name, wire.TypeCNAME}) {
		return true
	}
	if in.gone(name) {
		return false
	}
	found := make([]bool, 3)
	var wg sync.WaitGroup
	for i, qtype := range []uint16{wire.TypeTXT, wire.TypeA, wire.TypeAAAA} {
		wg.Go(func() { found[i] = in.ask(ctx, question{name, qtype}) })
	}
	wg.Wait()
	return found[0] || found[1] || found[2]
}

// ask puts one question and reports whether the answer says anything.
func (in *interview) ask(ctx context.Context, q question) bool {
	m, err := in.wire.ask(ctx, in.to, q, in.manner())
	if err == nil {
		if owner := in.below(m, q); len(referred(m, owner)) > 0 {
			return in.delegated(ctx, q, m, owner)
		}
	}
	if err == nil && m.Rcode == wire.RcodeServerFailure && q.qtype != wire.TypeCNAME && q.qtype != wire.TypeNS {
		// Some fail on aliases that lead in a circle, but do tell the first.
		if in.ask(ctx, question{q.name, wire.TypeCNAME}) {
			return true
		}
	}
	if err != nil || !in.believes(m) {
		in.miss(q, err)
		return false
	}
	return in.take(ctx, q, m)
}

// below finds the zone to which an answer refers. One that holds the domain
// itself would mean that the zone is another than we think.
func (in *interview) below(m *wire.Msg, q question) string {
	for _, rr := range m.Ns {
		owner := plain(rr.Header().Name)
		kind := rr.Header().Rrtype
		if (kind == wire.TypeNS || kind == wire.TypeSOA) && within(q.name, owner) && in.under(owner) {
			return owner
		}
	}
	return ""
}

func (in *interview) under(owner string) bool { return owner != in.name && within(owner, in.name) }

// delegated notes a zone of its own below the domain. What stands there is not
// in this zone, but the world sees it.
func (in *interview) delegated(ctx context.Context, q question, m *wire.Msg, owner string) bool {
	in.note(key{owner, dns.NS}, set{values: referred(m, owner), ttl: int(m.Ns[0].Header().Ttl)})
	if q.qtype == wire.TypeNS {
		return true
	}
	v, err := in.book.ask(ctx, q)
	if err != nil && !errors.Is(err, errFailing) {
		in.miss(q, err)
	}
	in.noteView(q, v)
	return len(v.values) > 0
}

// cut asks, once, for the NS of a name that may be a zone of its own.
func (in *interview) cut(ctx context.Context, name string) {
	in.mu.Lock()
	asked := in.cuts[name]
	in.cuts[name] = true
	in.mu.Unlock()
	if !asked {
		in.ask(ctx, question{name, wire.TypeNS})
	}
}

// take notes what an answer says and reports whether it says anything.
func (in *interview) take(ctx context.Context, q question, m *wire.Msg) bool {
	v, err := look(m, q)
	if err == nil && v.open != "" {
		var beyond view
		beyond, err = in.book.ask(ctx, question{v.open, q.qtype})
		v.values, v.ttl = beyond.values, beyond.ttl
	}
	// A target that nobody finds is nothing; one that nobody could be asked
	// about is not known.
	if err != nil && !errors.Is(err, errFailing) {
		in.miss(q, err)
	}
	in.noteView(q, v)
	if len(v.values) > 0 || v.alias != "" {
		return true
	}
	if m.Rcode == wire.RcodeNameError {
		in.mu.Lock()
		in.report.absent[q.name] = true
		in.mu.Unlock()
	}
	if owner := in.below(m, q); owner != "" && q.qtype != wire.TypeNS {
		in.cut(ctx, owner)
	}
	return false
}

func (in *interview) noteView(q question, v view) {
	if v.alias != "" {
		in.note(key{q.name, dns.CNAME}, set{values: []string{v.alias}, ttl: v.aliasTTL})
	}
	in.note(q.key(), set{values: v.values, ttl: v.ttl})
}

func (in *interview) note(k key, s set) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(s.values) > 0 {
		in.report.sets[k] = s
	}
}

func (in *interview) gone(name string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.report.absent[name]
}

func (in *interview) miss(q question, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.missed[q.key()] = true
	in.report.noTCP = in.report.noTCP || errors.Is(err, errTruncated)
}
