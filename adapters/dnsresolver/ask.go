// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"net/netip"
	"sync"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
)

// report is what one address of the zone's servers had to say.
type report struct {
	state dns.ServerState
	sets  map[key]set
	// missed are the questions without an answer, absent the names that do
	// not exist.
	missed map[key]bool
	absent map[string]bool
	// noTCP: TCP did not bring what UDP truncated. unsure: it is not known
	// what a wildcard says.
	noTCP, unsure bool
}

type key struct {
	name string
	kind dns.Type
}

type set struct {
	values []string
	ttl    int
	made   bool // a wildcard says the same
}

// reading is one read of one domain.
type reading struct {
	*Reader
	name, apex string
	wanted     []dns.Desired
	label      string // nobody has a record at it
	book       *book
}

// askAll asks every address of the servers that has no report yet, each once
// even when several names share it.
func (rd *reading) askAll(ctx context.Context, servers []server, reports map[netip.AddrPort]report) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	for _, s := range servers {
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
				rep := rd.interview(ctx, to)
				mu.Lock()
				reports[to] = rep
				mu.Unlock()
			})
		}
	}
	wg.Wait()
}

// interview asks one server for the SOA, which tells whether it serves the
// zone at all, then for everything else at once, then for what that calls for.
func (rd *reading) interview(ctx context.Context, to netip.AddrPort) report {
	in := &interview{reading: rd, to: to, cuts: map[string]bool{}, report: report{
		sets: map[key]set{}, missed: map[key]bool{}, absent: map[string]bool{},
	}}
	soa := question{rd.apex, wire.TypeSOA}
	m, err := rd.wire.ask(ctx, to, soa, rd.manner())
	if in.report.state = rd.classify(m, err); in.report.state != dns.ServerOK {
		return in.report
	}
	in.take(ctx, soa, m)
	in.everything(ctx)
	in.wg.Wait()
	in.probe(ctx)
	// Other servers may be slow: what the answers call for need not wait.
	rd.beyond(ctx, sightOf(rd.name, rd.apex, []report{in.report}).Needs(rd.wanted))
	return in.report
}

// classify judges a server by its answer for the SOA of the zone's apex.
func (rd *reading) classify(m *wire.Msg, err error) dns.ServerState {
	if err != nil {
		return dns.ServerUnreachable
	}
	// A server of the zone above denies what it does not know as its own.
	owner, found := soaOwner(m, rd.apex)
	if !rd.believes(m) || found && owner != rd.apex {
		return dns.ServerLame
	}
	return dns.ServerOK
}

// believes reports whether m is an answer of a server that serves the name:
// without AA it comes from a cache or is a referral elsewhere.
func (r *Reader) believes(m *wire.Msg) bool {
	return (m.Authoritative || r.recursive) && (m.Rcode == wire.RcodeSuccess || m.Rcode == wire.RcodeNameError)
}
