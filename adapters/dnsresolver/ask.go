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

// report is what one address of the zone's servers had to say.
type report struct {
	state dns.ServerState
	sets  map[key]set
	// unknown counts questions without an answer, truncated those among
	// them that TCP did not bring.
	unknown, truncated int
}

type key struct {
	name string
	kind dns.Type
}

type set struct {
	values []string
	ttl    int
}

// askAll asks every address of the zone's servers, each once even when
// several names share it.
func (r *Reader) askAll(ctx context.Context, z zone, name string) map[netip.AddrPort]report {
	var wg sync.WaitGroup
	var mu sync.Mutex
	reports := map[netip.AddrPort]report{}
	for _, s := range z.servers {
		for _, to := range s.addrs {
			mu.Lock()
			_, asked := reports[to]
			if !asked {
				reports[to] = report{}
			}
			mu.Unlock()
			if asked {
				continue
			}
			wg.Go(func() {
				rep := r.interview(ctx, to, z.apex, name)
				mu.Lock()
				reports[to] = rep
				mu.Unlock()
			})
		}
	}
	wg.Wait()
	return reports
}

// interview asks one server for the SOA, which tells whether it serves the
// zone at all, and then for everything else at once.
func (r *Reader) interview(ctx context.Context, to netip.AddrPort, apex, name string) report {
	in := &interview{reader: r, to: to, report: report{sets: map[key]set{}}}
	soa := question{apex, wire.TypeSOA}
	m, err := r.wire.ask(ctx, to, soa, false, true, 2)
	if in.report.state = classify(m, err); in.report.state != dns.ServerOK {
		return in.report
	}
	in.take(ctx, soa, m)
	for _, q := range questions(apex, name) {
		in.wg.Go(func() { in.ask(ctx, q) })
	}
	in.wg.Wait()
	return in.report
}

// classify judges a server by its answer for the SOA of the zone's apex.
func classify(m *wire.Msg, err error) dns.ServerState {
	switch {
	case err != nil:
		return dns.ServerUnreachable
	case authoritative(m):
		return dns.ServerOK
	default:
		return dns.ServerLame
	}
}

// authoritative reports whether m is an answer of a server that serves the
// name: without AA it comes from a cache or is a referral elsewhere.
func authoritative(m *wire.Msg) bool {
	return m.Authoritative && (m.Rcode == wire.RcodeSuccess || m.Rcode == wire.RcodeNameError)
}

// interview collects the answers of one server.
type interview struct {
	reader *Reader
	to     netip.AddrPort
	wg     sync.WaitGroup
	mu     sync.Mutex
	report report
}

// ask puts one question and, where its answer calls for them, the next.
func (in *interview) ask(ctx context.Context, q asked) {
	m, err := in.reader.wire.ask(ctx, in.to, q.question, false, true, 2)
	if err != nil || !authoritative(m) {
		in.miss(err)
		return
	}
	if found := in.take(ctx, q.question, m); found {
		return
	}
	for _, next := range q.otherwise {
		in.wg.Go(func() { in.ask(ctx, asked{question: next}) })
	}
}

// take notes what an answer says and reports whether it says anything.
func (in *interview) take(ctx context.Context, q question, m *wire.Msg) bool {
	v, err := look(m, q)
	if err == nil && v.open != "" {
		var beyond view
		if beyond, err = in.reader.chase(ctx, question{v.open, q.qtype}); err == nil {
			v.values, v.ttl = beyond.values, beyond.ttl
		}
	}
	if err != nil {
		in.miss(err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if v.alias != "" {
		in.report.sets[key{q.name, dns.CNAME}] = set{[]string{v.alias}, v.aliasTTL}
	}
	if len(v.values) > 0 {
		in.report.sets[key{q.name, dns.Type(wire.TypeToString[q.qtype])}] = set{v.values, v.ttl}
	}
	return len(v.values) > 0
}

func (in *interview) miss(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.report.unknown++
	if errors.Is(err, errTruncated) {
		in.report.truncated++
	}
}
