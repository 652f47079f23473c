// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"maps"
	"slices"
	"strings"

	wire "github.com/miekg/dns"
)

// Veil says which records a provider's name servers return instead of the stored record.
type Veil string

const (
	// Flattened means that the answer for a CNAME contains the records of its target. At the apex
	// the answer has only addresses. At other names it has records of all types except CNAME.
	Flattened Veil = "flattened"
	// Proxied means that the answer contains addresses of the provider.
	Proxied Veil = "proxied"
)

// VeiledRecord is a record for which the provider's name servers answer with different records.
type VeiledRecord struct {
	Record Record `json:"record"`
	Veil   Veil   `json:"as"`
}

// proxyV4 and proxyV6 are the addresses in answers for proxied hosts. They are addresses reserved
// for documentation, because the sandbox has no proxy. maxFlattenDepth is the maximum length of a
// chain of flattened CNAMEs.
const (
	proxyV4, proxyV6 = "198.51.100.80", "2001:db8::80"
	proxiedTTL       = 300
	maxFlattenDepth  = 8
)

// addVeiled adds a veiled record to the zone, or fails with an InvalidError.
func (z *zone) addVeiled(veiled VeiledRecord) error {
	isCNAME := veiled.Record.Type == "CNAME"
	if veiled.Veil != Proxied && veiled.Veil != Flattened || !isCNAME && (veiled.Veil == Flattened || veiled.Record.Type != "A" && veiled.Record.Type != "AAAA") {
		return invalid("%s %s cannot be %s", veiled.Record.Type, veiled.Record.Name, veiled.Veil)
	}
	checked := veiled.Record
	if isCNAME {
		// Unlike other CNAMEs, a veiled CNAME may be at the apex, so toWire gets a different name.
		checked.Name = "veiled." + z.apex
	}
	if _, err := checked.toWire(z.apex); err != nil {
		return err
	}
	name := strings.ToLower(veiled.Record.Name)
	if !isWithin(name, z.apex) {
		return invalid("name %q is not in zone %s", veiled.Record.Name, z.apex)
	}
	z.veils[name] = append(z.veils[name], veiled)
	z.addName(name)
	return nil
}

// veiledAnswer returns the records that answer a question about name, if owner has a veiled record.
// owner is name, or the wildcard that answers for name. The caller holds the lock.
func (s *Store) veiledAnswer(z *zone, owner, name string, qtype uint16, depth int) []wire.RR {
	var answers []wire.RR
	for _, v := range z.veils[owner] {
		switch {
		case v.Veil == Proxied:
			if len(answers) == 0 {
				answers = proxiedAnswer(name, qtype)
			}
		case depth < maxFlattenDepth && (owner != z.apex || qtype == wire.TypeA || qtype == wire.TypeAAAA):
			answers = append(answers, s.flattenedAnswer(v.Record, name, qtype, depth+1)...)
		}
	}
	return answers
}

// proxiedAnswer returns the answer for a proxied host.
func proxiedAnswer(name string, qtype uint16) []wire.RR {
	r := Record{Type: wire.TypeToString[qtype], Name: name, TTL: proxiedTTL, Content: proxyV4}
	if qtype == wire.TypeAAAA {
		r.Content = proxyV6
	} else if qtype != wire.TypeA {
		return nil
	}
	rr, _ := r.parseContent(header(name, qtype, proxiedTTL))
	return []wire.RR{rr}
}

// flattenedAnswer returns the records at the target of alias, with name as their owner.
func (s *Store) flattenedAnswer(alias Record, name string, qtype uint16, depth int) []wire.RR {
	if qtype == wire.TypeCNAME {
		return nil
	}
	m := new(wire.Msg)
	m.Question = []wire.Question{{Qtype: qtype}}
	s.answer(m, canonicalName(alias.Content), qtype, depth)
	records := recordsOfType(m.Answer, qtype)
	for i, rr := range records {
		records[i] = wire.Copy(rr)
		records[i].Header().Name = name + "."
		records[i].Header().Ttl = min(records[i].Header().Ttl, uint32(alias.TTL))
	}
	return records
}

// veiledAsServed returns the A, AAAA, MX and TXT records with which a zone answers for its veiled
// records. The caller holds the lock.
func (s *Store) veiledAsServed(z *zone) []Record {
	var served []Record
	for _, owner := range slices.Sorted(maps.Keys(z.veils)) {
		for _, qtype := range []uint16{wire.TypeA, wire.TypeAAAA, wire.TypeMX, wire.TypeTXT} {
			for _, rr := range s.veiledAnswer(z, owner, owner, qtype, 0) {
				r := Record{Type: wire.TypeToString[qtype], Name: owner, TTL: int(rr.Header().Ttl)}
				switch rr := rr.(type) {
				case *wire.A:
					r.Content = rr.A.String()
				case *wire.AAAA:
					r.Content = rr.AAAA.String()
				case *wire.MX:
					priority := int(rr.Preference)
					r.Priority, r.Content = &priority, canonicalName(rr.Mx)
				case *wire.TXT:
					r.Content = strings.ReplaceAll(strings.Join(rr.Txt, ""), `\\`, `\`)
				}
				served = append(served, r)
			}
		}
	}
	return served
}
