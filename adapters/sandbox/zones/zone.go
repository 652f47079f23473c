// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"strings"

	wire "github.com/miekg/dns"
)

// zone is what the server answers from.
type zone struct {
	apex string
	soa  *wire.SOA
	sets map[string][]wire.RR // by name
	// names are those that exist, the empty ones between names included.
	names map[string]bool
	veils map[string][]Veiled // by name
	// wild says which names a wildcard may stand for; nil means all.
	wild func(name string) bool
}

// negativeTTL is short: who works in a sandbox does not wait.
const negativeTTL = 5

// makeZone checks records and makes a zone of them.
func makeZone(apex string, k kept) (*zone, error) {
	if len(k.Records)+len(k.Veiled) > maxRecords {
		return nil, invalid("a zone holds at most %d records", maxRecords)
	}
	host := hosts[k.Provider]
	z := &zone{apex: apex, sets: map[string][]wire.RR{}, names: map[string]bool{}, veils: map[string][]Veiled{}}
	z.soa = &wire.SOA{
		Hdr: header(apex, wire.TypeSOA, 3600), Ns: host.servers[0] + ".", Mbox: host.mailbox + ".",
		Serial: k.Serial, Refresh: 3600, Retry: 600, Expire: 604800, Minttl: negativeTTL,
	}
	z.add(z.soa)
	for _, server := range host.servers {
		z.add(&wire.NS{Hdr: header(apex, wire.TypeNS, 3600), Ns: server + "."})
	}
	for _, r := range k.Records {
		rr, err := r.rr(apex)
		if err != nil {
			return nil, err
		}
		if err := z.fits(rr); err != nil {
			return nil, err
		}
		z.add(rr)
	}
	for _, v := range k.Veiled {
		if err := z.veil(v); err != nil {
			return nil, err
		}
	}
	return z, nil
}

// fits refuses what no server serves: a record twice, or anything beside a
// CNAME.
func (z *zone) fits(rr wire.RR) error {
	name := plain(rr.Header().Name)
	for _, other := range z.sets[name] {
		if wire.IsDuplicate(rr, other) {
			return invalid("%s holds the same %s twice", name, wire.TypeToString[rr.Header().Rrtype])
		}
		if rr.Header().Rrtype == wire.TypeCNAME || other.Header().Rrtype == wire.TypeCNAME {
			return invalid("%s holds a CNAME, which stands alone", name)
		}
	}
	return nil
}

func (z *zone) add(rr wire.RR) {
	name := plain(rr.Header().Name)
	z.sets[name] = append(z.sets[name], rr)
	z.note(name)
}

// note remembers that a name exists, and all names above it.
func (z *zone) note(name string) {
	for n := name; within(n, z.apex); _, n, _ = strings.Cut(n, ".") {
		z.names[n] = true
	}
}

// find gives whose records answer for name, and whether it exists. Where it does
// not, the wildcard of the closest name above that does takes its place
// (RFC 4592).
func (z *zone) find(name string) (owner string, exists bool) {
	if z.names[name] {
		return name, true
	}
	above := name
	for !z.names[above] {
		_, above, _ = strings.Cut(above, ".")
	}
	wild := "*." + above
	if len(z.sets[wild])+len(z.veils[wild]) == 0 || z.wild != nil && !z.wild(name) {
		return "", false
	}
	return wild, true
}

// at gives the records of owner under name.
func (z *zone) at(owner, name string) []wire.RR {
	if owner == name {
		return z.sets[name]
	}
	out := make([]wire.RR, len(z.sets[owner]))
	for i, rr := range z.sets[owner] {
		out[i] = wire.Copy(rr)
		out[i].Header().Name = name + "."
	}
	return out
}

// cut gives the NS records that delegate name away from this zone, if any.
func (z *zone) cut(name string) []wire.RR {
	for n := name; n != z.apex; _, n, _ = strings.Cut(n, ".") {
		if ns := ofType(z.sets[n], wire.TypeNS); len(ns) > 0 {
			return ns
		}
	}
	return nil
}

func header(name string, rrtype uint16, ttl uint32) wire.RR_Header {
	return wire.RR_Header{Name: name + ".", Rrtype: rrtype, Class: wire.ClassINET, Ttl: ttl}
}

func ofType(list []wire.RR, rrtype uint16) []wire.RR {
	var out []wire.RR
	for _, rr := range list {
		if rr.Header().Rrtype == rrtype {
			out = append(out, rr)
		}
	}
	return out
}

func plain(name string) string {
	return strings.TrimSuffix(wire.CanonicalName(name), ".")
}
