// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	wire "github.com/miekg/dns"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/panics"
)

// report holds the answers of one address of a name server.
type report struct {
	state dns.ServerState
	sets  map[setKey]recordSet
	// unanswered holds the questions without a usable answer. absent holds the names that do not
	// exist.
	unanswered map[setKey]bool
	absent     map[string]bool
	// noTCP is true if a UDP answer was truncated and TCP failed. wildcardUnknown is true if a
	// wildcard probe got no usable answer.
	noTCP, wildcardUnknown bool
}

type setKey struct {
	name string
	kind dns.Type
}

type recordSet struct {
	values        []string
	ttl           int
	isSynthesised bool // a wildcard record has the same values
}

// domainRead is the state of one read of one domain.
type domainRead struct {
	reader     *Reader
	name, apex string
	wanted     []dns.Desired
	probeLabel string // see newProbeLabel
	answers    *answerCache
}

// askAll asks all addresses of the servers and adds their reports. It skips addresses that have a
// report. It asks an address only once, even if several servers share the address.
func (rd *domainRead) askAll(ctx context.Context, servers []server, reports map[netip.AddrPort]report) {
	var wg panics.Group
	var mu sync.Mutex
	for _, s := range servers {
		for _, addr := range s.addrs {
			mu.Lock()
			_, wasAsked := reports[addr]
			if !wasAsked {
				reports[addr] = report{}
			}
			mu.Unlock()
			if wasAsked {
				continue
			}
			wg.Go(func() {
				serverReport := rd.readServer(ctx, addr)
				mu.Lock()
				reports[addr] = serverReport
				mu.Unlock()
			})
		}
	}
	wg.Wait()
}

// readServer asks the server at addr for the SOA, which shows whether the server serves the zone.
// Then it asks the other questions concurrently, probes for wildcards, and reads the dependencies.
func (rd *domainRead) readServer(ctx context.Context, addr netip.AddrPort) report {
	sr := &serverReader{read: rd, addr: addr, askedNS: map[string]bool{}, report: report{
		sets: map[setKey]recordSet{}, unanswered: map[setKey]bool{}, absent: map[string]bool{},
	}}
	soa := question{rd.apex, wire.TypeSOA}
	m, err := rd.reader.askSOA(ctx, addr, soa)
	if sr.report.state = rd.classify(m, err); sr.report.state != dns.ServerOK {
		return sr.report
	}
	sr.recordAnswer(ctx, soa, m)
	sr.queryAll(ctx)
	sr.wg.Wait()
	sr.detectWildcards(ctx)
	// Questions about dependencies are asked now, while slower servers still answer. The answers
	// are cached.
	rd.readDependencies(ctx, mergeReports(rd.name, rd.apex, []report{sr.report}).Needs(rd.wanted))
	return sr.report
}

// askSOA asks the server at addr for the SOA of a zone. If a server does not answer, later calls
// make only one attempt, until the server answers or cacheTTL has passed. Otherwise a server that
// never answers would hold a slot during all attempts of each read.
func (r *Reader) askSOA(ctx context.Context, addr netip.AddrPort, soa question) (*wire.Msg, error) {
	mode := r.soaMode(addr)
	m, err := r.client.exchange(ctx, addr, soa, mode)
	switch {
	case err == nil:
		r.silentServers.delete(addr.String())
	case mode == modeServer && !errors.Is(err, errNoSlot) && !errors.Is(ctx.Err(), context.Canceled):
		r.silentServers.put(addr.String(), struct{}{})
	}
	return m, err
}

func (r *Reader) soaMode(addr netip.AddrPort) queryMode {
	if _, silent := r.silentServers.get(addr.String()); silent {
		return modeSilentServer
	}
	return r.serverMode()
}

// classify returns the state of a server. m and err are the result of askSOA for this server.
func (rd *domainRead) classify(m *wire.Msg, err error) dns.ServerState {
	if err != nil {
		return dns.ServerUnreachable
	}
	// A server that serves only the parent zone answers with the SOA of that zone.
	owner, found := soaOwner(m, rd.apex)
	if !rd.reader.isAuthoritative(m) || found && owner != rd.apex {
		return dns.ServerLame
	}
	return dns.ServerOK
}

// isAuthoritative reports whether m comes from a server that serves the zone. An answer without the
// AA flag comes from a cache or is a referral. With Options.Recursive the flag is not required.
func (r *Reader) isAuthoritative(m *wire.Msg) bool {
	return (m.Authoritative || r.isRecursive) && (m.Rcode == wire.RcodeSuccess || m.Rcode == wire.RcodeNameError)
}
