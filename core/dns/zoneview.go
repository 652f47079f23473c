// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// zoneView is a ZoneRead with the other facts that a plan needs. Its methods decide on each
// purpose.
type zoneView struct {
	ZoneRead
	managed []Written // values that tenantry wrote
	offered []Record  // ownership records that the platform offers
	hosts   PlatformHosts
}

// verdict is the decision on one purpose. The values in add replace the values in remove in the
// record set.
type verdict struct {
	action      Action
	reason      Reason
	blocking    bool
	optional    bool // as Item.Optional
	notes       []Note
	observed    []string
	remove, add []string
}

func create(value string) verdict {
	return verdict{action: Create, reason: ReasonMissing, add: []string{value}}
}

func update(reason Reason, remove []string, add ...string) verdict {
	return verdict{action: Update, reason: reason, remove: remove, add: add}
}

func preserve(reason Reason) verdict { return verdict{action: Preserve, reason: reason} }

func conflict(reason Reason) verdict { return verdict{action: Conflict, reason: reason} }

func blockingConflict(reason Reason) verdict {
	return verdict{action: Conflict, reason: reason, blocking: true}
}

func (v verdict) withObserved(values []string) verdict {
	v.observed = slices.Clone(values)
	return v
}

func (v verdict) withNoteIf(condition bool, note Note) verdict {
	if condition {
		v.notes = append(v.notes, note)
	}
	return v
}

// exists reports whether a set counts as existing. Below the domain, a set that a wildcard produced
// does not count, because a record that is written at its name overrides the wildcard. At the
// domain itself, such a set counts: the first record written there would override the wildcard and
// could break existing mail.
func (z zoneView) exists(s RRSet) bool {
	return len(s.Values) > 0 && (!s.Synthesised || sameName(s.Name, z.Domain))
}

// fromWildcard reports whether a wildcard synthesised the set. It ignores the field Synthesised of
// a set at the apex, because the apex of a zone always has its own records.
func (z zoneView) fromWildcard(s RRSet) bool { return s.Synthesised && !sameName(s.Name, z.Zone) }

// setAt returns the existing set of a name and type. If no such set exists, the result has no
// values.
func (z zoneView) setAt(name string, recordType Type) RRSet {
	for _, s := range z.Sets {
		if s.Type == recordType && sameName(s.Name, name) && z.exists(s) {
			return RRSet{Name: normalName(name), Type: recordType, TTL: s.TTL, Values: s.Values, Synthesised: z.fromWildcard(s), Veiled: s.Veiled}
		}
	}
	return RRSet{Name: normalName(name), Type: recordType}
}

// nonCNAMEValues returns the values of all existing sets of a name, except its CNAME.
func (z zoneView) nonCNAMEValues(name string) []string {
	var values []string
	for _, s := range z.Sets {
		if s.Type != CNAME && sameName(s.Name, name) && z.exists(s) {
			values = append(values, s.Values...)
		}
	}
	return values
}

func (z zoneView) hasWildcardAnswer(name string) bool {
	return slices.ContainsFunc(z.Sets, func(s RRSet) bool { return z.fromWildcard(s) && sameName(s.Name, name) })
}

func (z zoneView) domainIsCNAME() bool { return len(z.setAt(z.Domain, CNAME).Values) > 0 }

func (z zoneView) findWritten(p Purpose, value string) (Written, bool) {
	for _, w := range z.managed {
		if w.Purpose == p && w.Value == value {
			return w, true
		}
	}
	return Written{}, false
}

func (z zoneView) allManaged(p Purpose, values []string) bool {
	return !slices.ContainsFunc(values, func(value string) bool {
		_, managed := z.findWritten(p, value)
		return !managed
	})
}

// planNames returns the names that a plan for a domain inspects.
func planNames(domain string) []string {
	dkimDomain := "_domainkey." + domain
	return []string{domain, "_dmarc." + domain, dkimDomain, "selector1." + dkimDomain, "selector2." + dkimDomain, "autodiscover." + domain}
}

// observedSets returns the sets of the planNames, without the NS and SOA of the domain itself.
func observedSets(read ZoneRead) []RRSet {
	var sets []RRSet
	names := planNames(read.Domain)
	for _, set := range read.Sets {
		zoneRecord := sameName(set.Name, read.Domain) && (set.Type == NS || set.Type == SOA)
		if !zoneRecord && slices.ContainsFunc(names, func(name string) bool { return sameName(name, set.Name) }) {
			sets = append(sets, set)
		}
	}
	return sets
}

// WithProviderRecords returns the read with the provider's own list of records in place of the
// servers' answers. The answers can differ from the list, because servers can flatten CNAMEs, proxy
// addresses and expand wildcards. WithProviderRecords keeps the answers of wildcards for names
// without records at the provider, because receivers use these answers. It keeps answers for names
// that the list delegates or redirects, because the list does not contain the records of these
// names. It also keeps the answers at the name of a veiled CNAME below the apex. The CNAME is the
// only stored record of this name.
//
// A plan for the wanted records can depend on other names, such as the names in an SPF record. If
// the stored records depend on names on which the servers' answers did not depend, these names were
// not read. The result is then not complete, with ReasonProviderAhead. This happens while the
// provider's list differs from the answers.
func (read ZoneRead) WithProviderRecords(stored []RRSet, wanted ...Desired) ZoneRead {
	public, redirects := zoneView{ZoneRead: read}, newRedirects(stored, read.Zone)
	atApex := sameName(read.Domain, read.Zone)
	read.FromProvider = true
	read.Sets = slices.DeleteFunc(slices.Clone(stored), func(set RRSet) bool {
		// The provider flattens a CNAME at the apex if the public DNS does not show it. Below the
		// apex, a flattened CNAME still prevents all other records of its name.
		flattened := set.Type == CNAME && atApex && sameName(set.Name, read.Domain) && !public.domainIsCNAME()
		return flattened || set.Type != NS && redirects.cover(set.Name)
	})
	for _, set := range public.Sets {
		explicit := slices.ContainsFunc(stored, func(s RRSet) bool { return sameName(s.Name, set.Name) })
		veiled := set.Type != CNAME && !sameName(set.Name, read.Zone) &&
			slices.ContainsFunc(stored, func(s RRSet) bool { return s.Type == CNAME && s.Veiled && sameName(s.Name, set.Name) })
		if public.fromWildcard(set) && !explicit || veiled || set.Type != NS && redirects.cover(set.Name) {
			read.Sets = append(read.Sets, set)
		}
	}
	if read.Complete && !public.Needs(wanted).contains(read.Needs(wanted)) {
		read.Complete, read.Reason = false, ReasonProviderAhead
	}
	return read
}

// redirects holds the names of the delegations and DNAMEs in a zone, as normalName returns them. A
// delegation redirects the queries for its name and for all names below it. A DNAME redirects only
// the queries for the names below it.
type redirects struct{ delegations, dnames map[string]bool }

func newRedirects(stored []RRSet, zone string) redirects {
	r := redirects{map[string]bool{}, map[string]bool{}}
	for _, set := range stored {
		switch {
		case set.Type == NS && !sameName(set.Name, zone):
			r.delegations[normalName(set.Name)] = true
		case set.Type == DNAME:
			r.dnames[normalName(set.Name)] = true
		}
	}
	return r
}

// cover reports whether queries for a name are redirected. It looks up the name and its parents in
// the maps. Comparing the name with each delegation would take too long in a large zone.
func (r redirects) cover(name string) bool {
	name = normalName(name)
	for parent, found := name, true; found; _, parent, found = strings.Cut(parent, ".") {
		if r.delegations[parent] || r.dnames[parent] && parent != name {
			return true
		}
	}
	return false
}

func filter(texts []string, matches func(string) bool) []string {
	var matching []string
	for _, text := range texts {
		if matches(text) {
			matching = append(matching, text)
		}
	}
	return matching
}
