// SPDX-License-Identifier: Apache-2.0

package zones

import (
	"maps"
	"slices"
	"strings"

	wire "github.com/miekg/dns"
)

// Veil is how a provider hides a record behind answers of its own.
type Veil string

// The veils.
const (
	// Flattened answers with what is at a CNAME's target: addresses at the
	// apex, elsewhere everything.
	Flattened Veil = "flattened"
	// Proxied answers with the provider's own addresses.
	Proxied Veil = "proxied"
)

// Veiled is a record that a provider lists but does not serve as it is.
type Veiled struct {
	Record Record `json:"record"`
	As     Veil   `json:"as"`
}

// What stands before proxied hosts: addresses for documentation, as nothing is
// behind them.
const (
	proxyV4, proxyV6 = "198.51.100.80", "2001:db8::80"
	veiledTTL        = 300
	maxVeils         = 8
)

// veil adds a veiled record to a zone.
func (z *zone) veil(v Veiled) error {
	alias := v.Record.Type == "CNAME"
	if v.As != Proxied && v.As != Flattened || !alias && (v.As == Flattened || v.Record.Type != "A" && v.Record.Type != "AAAA") {
		return invalid("%s %s cannot be %s", v.Record.Type, v.Record.Name, v.As)
	}
	plainRecord := v.Record
	if alias { // at the apex too, which a CNAME that is served cannot be
		plainRecord.Name = "veiled." + z.apex
	}
	if _, err := plainRecord.rr(z.apex); err != nil {
		return err
	}
	name := strings.ToLower(v.Record.Name)
	if !within(name, z.apex) {
		return invalid("name %q is not in zone %s", v.Record.Name, z.apex)
	}
	z.veils[name] = append(z.veils[name], v)
	z.note(name)
	return nil
}

// behind answers a question about name from the veiled records at owner. The
// caller holds the lock.
func (s *Store) behind(z *zone, owner, name string, qtype uint16, depth int) []wire.RR {
	var out []wire.RR
	for _, v := range z.veils[owner] {
		switch {
		case v.As == Proxied:
			if len(out) == 0 {
				out = shield(name, qtype)
			}
		case depth < maxVeils && (owner != z.apex || qtype == wire.TypeA || qtype == wire.TypeAAAA):
			out = append(out, s.flat(v.Record, name, qtype, depth+1)...)
		}
	}
	return out
}

// shield is how a proxied host answers.
func shield(name string, qtype uint16) []wire.RR {
	r := Record{Type: wire.TypeToString[qtype], Name: name, TTL: veiledTTL, Content: proxyV4}
	if qtype == wire.TypeAAAA {
		r.Content = proxyV6
	} else if qtype != wire.TypeA {
		return nil
	}
	rr, _ := r.data(header(name, qtype, veiledTTL))
	return []wire.RR{rr}
}

// flat is what stands at a CNAME's target, under the alias's own name.
func (s *Store) flat(alias Record, name string, qtype uint16, depth int) []wire.RR {
	if qtype == wire.TypeCNAME {
		return nil
	}
	m := new(wire.Msg)
	m.Question = []wire.Question{{Qtype: qtype}}
	s.answer(m, plain(alias.Content), qtype, depth)
	out := ofType(m.Answer, qtype)
	for i, rr := range out {
		out[i] = wire.Copy(rr)
		out[i].Header().Name = name + "."
		out[i].Header().Ttl = min(out[i].Header().Ttl, uint32(alias.TTL))
	}
	return out
}

// unveiled are the records that the world sees of a zone's veiled ones. The
// caller holds the lock.
func (s *Store) unveiled(z *zone) []Record {
	var out []Record
	for _, owner := range slices.Sorted(maps.Keys(z.veils)) {
		for _, qtype := range []uint16{wire.TypeA, wire.TypeAAAA, wire.TypeMX, wire.TypeTXT} {
			for _, rr := range s.behind(z, owner, owner, qtype, 0) {
				r := Record{Type: wire.TypeToString[qtype], Name: owner, TTL: int(rr.Header().Ttl)}
				switch rr := rr.(type) {
				case *wire.A:
					r.Content = rr.A.String()
				case *wire.AAAA:
					r.Content = rr.AAAA.String()
				case *wire.MX:
					priority := int(rr.Preference)
					r.Priority, r.Content = &priority, plain(rr.Mx)
				case *wire.TXT:
					r.Content = strings.ReplaceAll(strings.Join(rr.Txt, ""), `\\`, `\`)
				}
				out = append(out, r)
			}
		}
	}
	return out
}
