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

// serverReader asks one address of a name server all questions of a domainRead, and collects the
// answers in report. Questions run concurrently. mu guards askedNS and report.
type serverReader struct {
	read    *domainRead
	addr    netip.AddrPort
	wg      panics.Group
	mu      sync.Mutex
	askedNS map[string]bool // names for which queryNSOnce was called
	report  report
}

func (q question) setKey() setKey { return setKey{q.name, dns.Type(wire.TypeToString[q.qtype])} }

// queryAll starts the questions for the zone's NS records and for all records that tenantry
// manages. The caller waits for sr.wg. For the DKIM selectors and autodiscover, queryAll asks for
// the CNAME first. For the domain name and _dmarc it starts no question for a CNAME, because the
// answers for MX and TXT would contain the CNAME.
func (sr *serverReader) queryAll(ctx context.Context) {
	for _, q := range []question{
		{sr.read.apex, wire.TypeNS}, {sr.read.name, wire.TypeMX}, {sr.read.name, wire.TypeTXT}, {"_dmarc." + sr.read.name, wire.TypeTXT},
	} {
		sr.wg.Go(func() { sr.query(ctx, q) })
	}
	dkimName := "_domainkey." + sr.read.name
	for _, name := range []string{"selector1." + dkimName, "selector2." + dkimName} {
		sr.wg.Go(func() {
			if sr.queryCNAMEOrData(ctx, name) {
				sr.queryNSOnce(ctx, dkimName)
			}
		})
	}
	sr.wg.Go(func() { sr.queryCNAMEOrData(ctx, "autodiscover."+sr.read.name) })
}

// queryCNAMEOrData asks for the CNAME of a name. If the name exists without a CNAME, it asks for
// TXT, A and AAAA. TXT can be a DKIM key that was published as text instead of a CNAME. A and AAAA
// can be a CNAME that the DNS provider replaced by addresses. queryCNAMEOrData reports whether the
// name has any of these records.
func (sr *serverReader) queryCNAMEOrData(ctx context.Context, name string) bool {
	if sr.query(ctx, question{name, wire.TypeCNAME}) {
		return true
	}
	if sr.isAbsent(name) {
		return false
	}
	hasRecord := make([]bool, 3)
	var wg panics.Group
	for i, qtype := range []uint16{wire.TypeTXT, wire.TypeA, wire.TypeAAAA} {
		wg.Go(func() { hasRecord[i] = sr.query(ctx, question{name, qtype}) })
	}
	wg.Wait()
	return hasRecord[0] || hasRecord[1] || hasRecord[2]
}

// query asks the server one question, records the answer, and reports whether the answer holds a
// record.
func (sr *serverReader) query(ctx context.Context, q question) bool {
	m, err := sr.read.reader.client.exchange(ctx, sr.addr, q, sr.read.reader.serverMode())
	if err == nil {
		if owner := sr.childZone(m, q); len(referredHosts(m, owner)) > 0 {
			return sr.readDelegated(ctx, q, m, owner)
		}
	}
	if err == nil && m.Rcode == wire.RcodeServerFailure && q.qtype != wire.TypeCNAME && q.qtype != wire.TypeNS {
		// Some servers answer SERVFAIL if the CNAMEs form a loop, but return the first CNAME if
		// they are asked for it.
		if sr.query(ctx, question{q.name, wire.TypeCNAME}) {
			return true
		}
	}
	if err != nil || !sr.read.reader.isAuthoritative(m) {
		sr.recordUnanswered(q, err)
		return false
	}
	return sr.recordAnswer(ctx, q, m)
}

// childZone returns the zone that contains q.name, if m shows that this zone is below the domain.
// Otherwise it returns "". m shows a zone by an NS or SOA record in its authority section.
// childZone ignores a referral to a zone that contains the domain, because findZone then found the
// wrong zone.
func (sr *serverReader) childZone(m *wire.Msg, q question) string {
	for _, rr := range m.Ns {
		owner := canonicalName(rr.Header().Name)
		kind := rr.Header().Rrtype
		if (kind == wire.TypeNS || kind == wire.TypeSOA) && isWithin(q.name, owner) && sr.isBelowDomain(owner) {
			return owner
		}
	}
	return ""
}

func (sr *serverReader) isBelowDomain(owner string) bool {
	return owner != sr.read.name && isWithin(owner, sr.read.name)
}

// readDelegated records the delegation of owner, a zone below the domain. Unless q is a question
// for NS records, it asks the resolvers for q, because the domain's zone does not hold the records
// of owner.
func (sr *serverReader) readDelegated(ctx context.Context, q question, m *wire.Msg, owner string) bool {
	sr.recordSet(setKey{owner, dns.NS}, recordSet{values: referredHosts(m, owner), ttl: int(m.Ns[0].Header().Ttl)})
	if q.qtype == wire.TypeNS {
		return true
	}
	parsed, err := sr.read.answers.lookup(ctx, q)
	if err != nil && !errors.Is(err, errOnlyErrorCodes) {
		sr.recordUnanswered(q, err)
	}
	sr.recordParsed(q, parsed)
	return len(parsed.values) > 0
}

// queryNSOnce asks for the NS records of a name that may be the apex of a separate zone. Later
// calls for the same name do nothing.
func (sr *serverReader) queryNSOnce(ctx context.Context, name string) {
	sr.mu.Lock()
	alreadyAsked := sr.askedNS[name]
	sr.askedNS[name] = true
	sr.mu.Unlock()
	if !alreadyAsked {
		sr.query(ctx, question{name, wire.TypeNS})
	}
}

// recordAnswer records the content of an answer and reports whether the answer holds a record. If
// the answer does not contain the target of a CNAME, recordAnswer asks the resolvers for the
// target.
func (sr *serverReader) recordAnswer(ctx context.Context, q question, m *wire.Msg) bool {
	parsed, err := parseAnswer(m, q)
	if err == nil && parsed.pendingTarget != "" {
		var target parsedAnswer
		target, err = sr.read.answers.lookup(ctx, question{parsed.pendingTarget, q.qtype})
		parsed.values, parsed.ttl = target.values, target.ttl
	}
	// If the resolvers return error codes for the target, the target has no values. After any other
	// error, the question counts as unanswered.
	if err != nil && !errors.Is(err, errOnlyErrorCodes) {
		sr.recordUnanswered(q, err)
	}
	sr.recordParsed(q, parsed)
	if len(parsed.values) > 0 || parsed.alias != "" {
		return true
	}
	if m.Rcode == wire.RcodeNameError {
		sr.mu.Lock()
		sr.report.absent[q.name] = true
		sr.mu.Unlock()
	}
	if owner := sr.childZone(m, q); owner != "" && q.qtype != wire.TypeNS {
		sr.queryNSOnce(ctx, owner)
	}
	return false
}

func (sr *serverReader) recordParsed(q question, parsed parsedAnswer) {
	if parsed.alias != "" {
		sr.recordSet(setKey{q.name, dns.CNAME}, recordSet{values: []string{parsed.alias}, ttl: parsed.aliasTTL})
	}
	sr.recordSet(q.setKey(), recordSet{values: parsed.values, ttl: parsed.ttl})
}

func (sr *serverReader) recordSet(k setKey, s recordSet) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	if len(s.values) > 0 {
		sr.report.sets[k] = s
	}
}

func (sr *serverReader) isAbsent(name string) bool {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	return sr.report.absent[name]
}

func (sr *serverReader) recordUnanswered(q question, err error) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	sr.report.unanswered[q.setKey()] = true
	sr.report.noTCP = sr.report.noTCP || errors.Is(err, errTruncated)
}
