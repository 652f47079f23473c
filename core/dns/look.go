// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// look is a sight, held against what is known of the domain.
type look struct {
	Sight
	ours    []Written
	offered []Record // ownership records that the platform offers
}

// verdict is what is decided of one purpose. Of the record set's values those
// in remove give way to those in add.
type verdict struct {
	action      Action
	reason      Reason
	blocking    bool
	notes       []Note
	observed    []string
	remove, add []string
}

func create(value string) verdict {
	return verdict{action: Create, reason: ReasonMissing, add: []string{value}}
}

func update(why Reason, remove []string, add ...string) verdict {
	return verdict{action: Update, reason: why, remove: remove, add: add}
}

func preserve(why Reason) verdict { return verdict{action: Preserve, reason: why} }

func conflict(why Reason) verdict { return verdict{action: Conflict, reason: why} }

func blocked(why Reason) verdict { return verdict{action: Conflict, reason: why, blocking: true} }

func (v verdict) seeing(values []string) verdict {
	v.observed = slices.Clone(values)
	return v
}

func (v verdict) noting(when bool, note Note) verdict {
	if when {
		v.notes = append(v.notes, note)
	}
	return v
}

// stands reports whether a set is what it seems. Below the domain, what a
// wildcard makes up gives way to a record that is created. At the domain
// itself it counts: the first record written there would end it, and
// somebody's mail with it.
func (l look) stands(s RRSet) bool {
	return len(s.Values) > 0 && (!s.Synthesised || sameName(s.Name, l.Domain))
}

// madeUp reports whether a set is a wildcard's. An apex has records of its own
// always, so there it is not, however alike the wildcard's are.
func (l look) madeUp(s RRSet) bool { return s.Synthesised && !sameName(s.Name, l.Zone) }

// at is the set that stands at a name, without values when there is none.
func (l look) at(name string, of Type) RRSet {
	for _, s := range l.Sets {
		if s.Type == of && sameName(s.Name, name) && l.stands(s) {
			return RRSet{Name: referred(name), Type: of, TTL: s.TTL, Values: s.Values, Synthesised: l.madeUp(s)}
		}
	}
	return RRSet{Name: referred(name), Type: of}
}

// beside lists what stands at a name of other types.
func (l look) beside(name string, of Type) []string {
	var out []string
	for _, s := range l.Sets {
		if s.Type != of && sameName(s.Name, name) && l.stands(s) {
			out = append(out, s.Values...)
		}
	}
	return out
}

func (l look) wildcard(name string) bool {
	return slices.ContainsFunc(l.Sets, func(s RRSet) bool { return l.madeUp(s) && sameName(s.Name, name) })
}

// aliased reports whether the domain itself is a CNAME.
func (l look) aliased() bool { return len(l.at(l.Domain, CNAME).Values) > 0 }

// wrote finds what we wrote for a purpose where the zone still holds it.
func (l look) wrote(p Purpose, value string) (Written, bool) {
	for _, w := range l.ours {
		if w.Purpose == p && w.Value == value {
			return w, true
		}
	}
	return Written{}, false
}

func (l look) allOurs(p Purpose, values []string) bool {
	return !slices.ContainsFunc(values, func(value string) bool {
		_, ours := l.wrote(p, value)
		return !ours
	})
}

// watched are the names that a plan for a domain looks at.
func watched(domain string) []string {
	keys := "_domainkey." + domain
	return []string{domain, "_dmarc." + domain, keys, "selector1." + keys, "selector2." + keys, "autodiscover." + domain}
}

// observed are the sets at the watched names, without the zone's own.
func observed(s Sight) []RRSet {
	var out []RRSet
	for _, set := range s.Sets {
		own := sameName(set.Name, s.Domain) && (set.Type == NS || set.Type == SOA)
		if !own && slices.ContainsFunc(watched(s.Domain), func(name string) bool { return sameName(name, set.Name) }) {
			out = append(out, set)
		}
	}
	return out
}

// Holding is the sight with a provider's own list of records in place of what
// its servers say: they flatten, proxy and fill in from wildcards. What a
// wildcard makes up stays where the provider holds nothing, as receivers go by
// it. Where the list itself sends the world on, it says nothing of what is there.
func (s Sight) Holding(held []RRSet) Sight {
	public := look{Sight: s}
	s.Sets = slices.DeleteFunc(slices.Clone(held), func(set RRSet) bool {
		// A CNAME at the domain that the world does not see is flattened.
		flattened := set.Type == CNAME && sameName(set.Name, s.Domain) && !public.aliased()
		return flattened || set.Type != NS && sentOn(held, s.Zone, set.Name)
	})
	for _, set := range public.Sets {
		explicit := slices.ContainsFunc(held, func(h RRSet) bool { return sameName(h.Name, set.Name) })
		if public.madeUp(set) && !explicit || set.Type != NS && sentOn(held, s.Zone, set.Name) {
			s.Sets = append(s.Sets, set)
		}
	}
	return s
}

// sentOn reports whether a zone's own records send who asks for a name to
// another place: they delegate it, or rename all that is below a name.
func sentOn(held []RRSet, zone, name string) bool {
	return slices.ContainsFunc(held, func(h RRSet) bool {
		at := sameName(name, h.Name)
		below := strings.HasSuffix(referred(name), "."+referred(h.Name))
		return h.Type == NS && !sameName(h.Name, zone) && (at || below) || h.Type == DNAME && below
	})
}
