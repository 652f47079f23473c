// SPDX-License-Identifier: Apache-2.0

package zones

import wire "github.com/miekg/dns"

// answer fills in what the zones say, following aliases from zone to zone; depth
// counts the veils that the question went through. The caller holds the lock.
func (s *Store) answer(m *wire.Msg, name string, qtype uint16, depth int) {
	m.Authoritative = true
	for range maxLinks + 1 {
		z := s.enclosing(name)
		if z == nil {
			s.nowhere(m, name)
			return
		}
		if ns := z.cut(name); len(ns) > 0 {
			m.Authoritative = m.Authoritative && len(m.Answer) > 0
			m.Ns = ns
			return
		}
		target := s.step(m, z, name, qtype, depth)
		if target == "" {
			return
		}
		name = target
	}
}

// step answers from one zone and returns where an alias leads, "" when there
// is nothing more to do.
func (s *Store) step(m *wire.Msg, z *zone, name string, qtype uint16, depth int) string {
	owner, exists := z.find(name)
	list := z.at(owner, name)
	if found := append(ofType(list, qtype), s.behind(z, owner, name, qtype, depth)...); len(found) > 0 {
		m.Answer = append(m.Answer, found...)
		return ""
	}
	if alias := ofType(list, wire.TypeCNAME); len(alias) > 0 {
		m.Answer = append(m.Answer, alias...)
		return plain(alias[0].(*wire.CNAME).Target)
	}
	if !exists {
		m.Rcode = wire.RcodeNameError
	}
	m.Ns = []wire.RR{z.soa}
	return ""
}

// nowhere answers for a name that nobody registered: the registry above it
// says so, as a resolver would pass on.
func (s *Store) nowhere(m *wire.Msg, name string) {
	apex := s.registry(name)
	m.Ns = []wire.RR{registrySOA(apex)}
	if name != apex {
		m.Rcode = wire.RcodeNameError
		return
	}
	if q := m.Question[0]; q.Qtype == wire.TypeSOA && plain(q.Name) == name {
		m.Answer, m.Ns = m.Ns, nil
	}
}
