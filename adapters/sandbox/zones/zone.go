// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"strings"

	wire "github.com/miekg/dns"
)

// zone holds the records of one zone in the form in which the server sends them.
type zone struct {
	apex string
	soa  *wire.SOA
	sets map[string][]wire.RR // keyed by name
	// names has the names that exist, including empty non-terminals.
	names map[string]bool
	veils map[string][]VeiledRecord // keyed by name
	// isProvidersOwn is true for a provider's own zone. A wildcard with a DKIM key then answers
	// only for DKIM selectors.
	isProvidersOwn bool
}

// negativeTTL is the TTL of negative answers, in seconds. It is short, so that users of the sandbox
// see a new record soon.
const negativeTTL = 5

// newZone checks the records and returns a zone with these records and the SOA and NS records of
// the provider. It fails with an InvalidError.
func newZone(apex string, stored storedZone) (*zone, error) {
	if len(stored.Records)+len(stored.VeiledRecords) > maxRecords {
		return nil, invalid("a zone holds at most %d records", maxRecords)
	}
	provider := hostingProviderOf(stored.Provider)
	created := &zone{apex: apex, sets: map[string][]wire.RR{}, names: map[string]bool{}, veils: map[string][]VeiledRecord{}}
	created.soa = &wire.SOA{
		Hdr: header(apex, wire.TypeSOA, 3600), Ns: provider.servers[0] + ".", Mbox: provider.mailbox + ".",
		Serial: stored.Serial, Refresh: 3600, Retry: 600, Expire: 604800, Minttl: negativeTTL,
	}
	created.add(created.soa)
	for _, server := range provider.servers {
		created.add(&wire.NS{Hdr: header(apex, wire.TypeNS, 3600), Ns: server + "."})
	}
	for _, r := range stored.Records {
		rr, err := r.toWire(apex)
		if err != nil {
			return nil, err
		}
		if err := created.checkConflicts(rr); err != nil {
			return nil, err
		}
		created.add(rr)
	}
	for _, v := range stored.VeiledRecords {
		if err := created.addVeiled(v); err != nil {
			return nil, err
		}
	}
	return created, nil
}

// checkConflicts refuses a record that conflicts with the existing records of the same name. A name
// must not have the same record twice, or a CNAME together with other records.
func (z *zone) checkConflicts(rr wire.RR) error {
	name := canonicalName(rr.Header().Name)
	for _, other := range z.sets[name] {
		if wire.IsDuplicate(rr, other) {
			return invalid("%s holds the same %s twice", name, wire.TypeToString[rr.Header().Rrtype])
		}
		if rr.Header().Rrtype == wire.TypeCNAME || other.Header().Rrtype == wire.TypeCNAME {
			return invalid("%s holds a CNAME, so it cannot hold other records", name)
		}
	}
	return nil
}

func (z *zone) add(rr wire.RR) {
	name := canonicalName(rr.Header().Name)
	z.sets[name] = append(z.sets[name], rr)
	z.addName(name)
}

// addName records that a name and all its parent names in the zone exist.
func (z *zone) addName(name string) {
	for n := name; isWithin(n, z.apex); _, n, _ = strings.Cut(n, ".") {
		z.names[n] = true
	}
}

// lookup returns the owner name whose records answer for name. That is name itself if it exists,
// otherwise the wildcard below its closest existing parent name (RFC 4592). exists is false if no
// owner answers for name.
func (z *zone) lookup(name string) (owner string, exists bool) {
	if z.names[name] {
		return name, true
	}
	closest := name
	for !z.names[closest] {
		_, closest, _ = strings.Cut(closest, ".")
	}
	wildcard := "*." + closest
	if len(z.sets[wildcard])+len(z.veils[wildcard]) == 0 || z.isProvidersOwn && hasDKIMKey(z.sets[wildcard]) && !isSelector(name) {
		return "", false
	}
	return wildcard, true
}

// hasDKIMKey reports whether records contain a DKIM key.
func hasDKIMKey(records []wire.RR) bool {
	for _, rr := range recordsOfType(records, wire.TypeTXT) {
		if txt, ok := rr.(*wire.TXT); ok && strings.HasPrefix(strings.Join(txt.Txt, ""), "v=DKIM1") {
			return true
		}
	}
	return false
}

// isSelector reports whether name is the name of a DKIM selector. A mail platform has a key at each
// selector, but no TXT record at other names.
func isSelector(name string) bool { return strings.Contains(name, "._domainkey.") }

// recordsAt returns the records stored at owner. If owner is a wildcard, the result has copies with
// the owner name `name`.
func (z *zone) recordsAt(owner, name string) []wire.RR {
	if owner == name {
		return z.sets[name]
	}
	records := make([]wire.RR, len(z.sets[owner]))
	for i, rr := range z.sets[owner] {
		records[i] = wire.Copy(rr)
		records[i].Header().Name = name + "."
	}
	return records
}

// delegationOf returns the NS records that delegate name to another zone, or nil.
func (z *zone) delegationOf(name string) []wire.RR {
	for n := name; n != z.apex; _, n, _ = strings.Cut(n, ".") {
		if ns := recordsOfType(z.sets[n], wire.TypeNS); len(ns) > 0 {
			return ns
		}
	}
	return nil
}

func header(name string, rrtype uint16, ttl uint32) wire.RR_Header {
	return wire.RR_Header{Name: name + ".", Rrtype: rrtype, Class: wire.ClassINET, Ttl: ttl}
}

func recordsOfType(list []wire.RR, rrtype uint16) []wire.RR {
	var matching []wire.RR
	for _, rr := range list {
		if rr.Header().Rrtype == rrtype {
			matching = append(matching, rr)
		}
	}
	return matching
}

func canonicalName(name string) string {
	return strings.TrimSuffix(wire.CanonicalName(name), ".")
}
