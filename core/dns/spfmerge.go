// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

const longSPF = 450 // octets, beyond which an answer may need TCP

// sending decides on the SPF record. There may be only one, so the platform is
// merged into it.
func (l look) sending(want Record) verdict {
	if l.aliased() {
		return blocked(ReasonAliasAtDomain).seeing(l.at(l.Domain, CNAME).Values)
	}
	records := only(l.at(want.Name, TXT).Values, isSPF)
	desired, ok := parseSPF(want.Content)
	switch {
	case !ok:
		return blocked(ReasonSPFSyntax).seeing(records)
	case len(records) == 0:
		return l.counted(desired, desired, create(want.Content))
	case len(slices.Compact(slices.Clone(records))) > 1:
		return blocked(ReasonSPFMultiple).seeing(records)
	}
	v := l.merged(records[0], desired)
	if v.action == Preserve && len(records) > 1 {
		v = update(ReasonSPFDuplicates, records[:1], records[0])
	}
	return v.seeing(records)
}

// merged decides on the one record there is.
func (l look) merged(text string, desired spfRecord) verdict {
	have, ok := parseSPF(text)
	if !ok {
		return blocked(ReasonSPFSyntax)
	}
	missing, negated := absent(have, desired)
	switch {
	case negated:
		return blocked(ReasonSPFNegated)
	case len(missing) == 0:
		return l.counted(have, desired, preserve(ReasonPresent))
	case l.indirect(have, missing):
		return l.counted(have, desired, preserve(ReasonSPFIndirect))
	}
	base, why := have, ReasonSPFMerged
	if w, ours := l.wrote(Sending, text); ours {
		// What we wrote gives way to what we would write today.
		base, why = desired, ReasonOwnSuperseded
		if earlier, ok := parseSPF(w.Replaced); ok {
			base = earlier
			missing, _ = absent(base, desired)
		}
	}
	if why, ok := objection(base); !ok {
		return why
	}
	if base.text == desired.text {
		missing = nil
	}
	result, _ := parseSPF(base.with(missing))
	return l.counted(result, desired, update(why, []string{text}, result.text))
}

// objection is what speaks against adding to a record.
func objection(r spfRecord) (verdict, bool) {
	all := r.first("all")
	if all == nil {
		return verdict{}, true
	}
	mechanisms := only(r.names(), func(name string) bool { return name != "all" })
	switch {
	case all.qualifier == '+':
		return conflict(ReasonSPFPermissive), false
	case all.qualifier == '-' && len(mechanisms) == 0:
		return blocked(ReasonSPFNoMail), false
	default:
		return verdict{}, true
	}
}

func (r spfRecord) names() []string {
	var out []string
	for _, t := range r.live() {
		if !t.modifier {
			out = append(out, t.name)
		}
	}
	return out
}

// absent lists the desired terms that a record does not have where receivers
// reach them, and whether it has one that does not let mail pass.
func absent(have, desired spfRecord) (missing []string, negated bool) {
	for _, t := range desired.live() {
		if t.modifier || t.is("all") {
			continue
		}
		live := have.live()
		i := slices.IndexFunc(live, func(h spfTerm) bool { return !h.modifier && h.key() == t.key() })
		switch {
		case i < 0:
			missing = append(missing, t.name+separated(t))
		case live[i].qualifier != '+':
			negated = true
		}
	}
	return missing, negated
}

func separated(t spfTerm) string {
	if t.value == "" || t.value[0] == '/' {
		return t.value
	}
	return ":" + t.value
}

// indirect reports whether all that is missing is reached by other names.
func (l look) indirect(have spfRecord, missing []string) bool {
	return !slices.ContainsFunc(missing, func(word string) bool {
		t, ok := parseTerm(word)
		return !ok || !t.is("include") || !spfTree(l.Beyond.SPF).reaches(have, t)
	})
}

// with is the record's text with terms before its all or redirect, or at its
// end with a softfail. Every other byte stays.
func (r spfRecord) with(terms []string) string {
	if len(terms) == 0 {
		return r.text
	}
	words := strings.Join(terms, " ")
	last := r.first("all")
	if last == nil {
		last = r.first("redirect")
	}
	if last != nil {
		return r.text[:last.at] + words + " " + r.text[last.at:]
	}
	gap := " "
	if strings.HasSuffix(r.text, " ") {
		gap = ""
	}
	return r.text + gap + words + " ~all"
}

// counted holds a record that is to stand against the limits of RFC 7208. What
// could not be counted is not written, but what stands already stays.
func (l look) counted(r, desired spfRecord, v verdict) verdict {
	c := spfTree(l.Beyond.SPF).cost(r)
	foreign := c.unknown && !l.onlyUnknown(r, desired)
	switch {
	case c.lookups > maxLookups:
		return blocked(ReasonSPFLookups)
	case foreign && v.action == Update:
		return blocked(ReasonSPFUnknown)
	}
	all := r.first("all")
	return v.noting(foreign, NoteSPFUnknown).
		noting(c.lookups >= maxLookups-1, NoteSPFNearLimit).
		noting(c.void > maxVoid, NoteSPFVoid).
		noting(c.broken, NoteSPFBroken).
		noting(len(r.text) > longSPF, NoteSPFLong).
		noting(r.first("ptr") != nil, NoteSPFPtr).
		noting(all != nil && all.qualifier == '?', NoteSPFNeutral).
		noting(all != nil && all.qualifier == '+', NoteSPFPermissive)
}

// onlyUnknown reports whether nothing but what the platform itself names could
// not be counted. That costs one look-up, and no trouble of ours with its name
// is a reason to hold anything back.
func (l look) onlyUnknown(r, desired spfRecord) bool {
	tree := spfTree{}
	for name, texts := range l.Beyond.SPF {
		tree[name] = texts
	}
	for _, name := range SPFReferences(desired.text) {
		if _, known := tree[name]; !known {
			tree[name] = []string{spfTag}
		}
	}
	return !tree.cost(r).unknown
}
