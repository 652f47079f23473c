// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"maps"
	"slices"
	"strings"
)

// longSPF is the length, in octets, above which an answer with the record may need TCP.
const longSPF = 450

// decideSPF decides on the SPF record. A domain may have only one SPF record, so decideSPF adds the
// platform's terms to an existing SPF record.
func (z zoneView) decideSPF(want Record) verdict {
	if z.domainIsCNAME() {
		return blockingConflict(ReasonAliasAtDomain).withObserved(z.setAt(z.Domain, CNAME).Values)
	}
	records := filter(z.setAt(want.Name, TXT).Values, isSPF)
	desired, ok := parseSPF(want.Content)
	switch {
	case !ok:
		return blockingConflict(ReasonSPFSyntax).withObserved(records)
	case len(records) == 0:
		return z.checkLimits(desired, desired, create(want.Content))
	case len(slices.Compact(slices.Clone(records))) > 1:
		return blockingConflict(ReasonSPFMultiple).withObserved(records)
	}
	v := z.decideExistingSPF(records[0], desired)
	if v.action == Preserve && len(records) > 1 {
		v = update(ReasonSPFDuplicates, records[:1], records[0])
	}
	return v.withObserved(records)
}

// decideEarlySPF decides on the existing SPF records while the platform's record is not known. It
// returns a conflict only if the conflict would remain whatever the platform's SPF record is.
// Otherwise it returns the zero verdict.
func (z zoneView) decideEarlySPF() verdict {
	records := filter(z.setAt(z.Domain, TXT).Values, isSPF)
	distinct := slices.Compact(slices.Clone(records))
	switch {
	case z.domainIsCNAME(), len(distinct) == 0: // decideMX reports a CNAME at the domain
		return verdict{}
	case len(distinct) > 1:
		return blockingConflict(ReasonSPFMultiple).withObserved(records)
	}
	existing, ok := parseSPF(distinct[0])
	if !ok {
		return blockingConflict(ReasonSPFSyntax).withObserved(records)
	}
	if _, managed := z.findWritten(Sending, distinct[0]); managed {
		return verdict{} // tenantry can replace a record that it wrote
	}
	if v, ok := mergeConflict(existing); !ok && v.blocking {
		return v.withObserved(records)
	}
	// The platform's terms never reduce the number of lookups.
	if v := z.checkLimits(existing, existing, preserve(ReasonPresent)); v.blocking {
		return v.withObserved(records)
	}
	return verdict{}
}

func (z zoneView) decideExistingSPF(text string, desired spfRecord) verdict {
	existing, ok := parseSPF(text)
	if !ok {
		return blockingConflict(ReasonSPFSyntax)
	}
	missing, negated := missingTerms(existing, desired)
	switch {
	case negated:
		return blockingConflict(ReasonSPFNegated)
	case len(missing) == 0:
		return z.checkLimits(existing, desired, preserve(ReasonPresent))
	case z.coveredIndirectly(existing, missing):
		return z.checkLimits(existing, desired, preserve(ReasonSPFIndirect))
	}
	base, reason := existing, ReasonSPFMerged
	if w, managed := z.findWritten(Sending, text); managed {
		// tenantry wrote this record, so the record can be replaced. If the customer had an SPF
		// record before that write, the new record is the customer's record with the missing terms.
		// Otherwise the new record is the platform's record.
		base, reason = desired, ReasonOwnSuperseded
		if earlier, ok := parseSPF(z.replacedSPF(w)); ok {
			base = earlier
			missing, _ = missingTerms(base, desired)
		}
	}
	if v, ok := mergeConflict(base); !ok {
		return v
	}
	if base.text == desired.text {
		missing = nil
	}
	result, _ := parseSPF(base.withTerms(missing))
	return z.checkLimits(result, desired, update(reason, []string{text}, result.text))
}

// replacedSPF returns the customer's SPF record that a record of tenantry replaced, or "" if there
// was none. The replaced record can be an earlier record of tenantry, so replacedSPF follows the
// writes back. The store keeps only the last write of a value, so the writes can form a loop. The
// customer's record is then unknown, and replacedSPF returns a record of tenantry, which contains
// the customer's terms.
func (z zoneView) replacedSPF(w Written) string {
	text, seen := w.Replaced, []string{w.Value}
	for !slices.Contains(seen, text) {
		earlier, managed := z.findWritten(Sending, text)
		if !managed {
			break
		}
		seen, text = append(seen, text), earlier.Replaced
	}
	return text
}

// mergeConflict returns a conflict and false if terms must not be added to the record, otherwise
// true.
func mergeConflict(r spfRecord) (verdict, bool) {
	allTerm := r.first("all")
	if allTerm == nil {
		return verdict{}, true
	}
	hasMechanism := slices.ContainsFunc(r.reachableTerms(), func(t spfTerm) bool { return !t.isModifier && t.name != "all" })
	switch {
	case allTerm.qualifier == '+':
		return conflict(ReasonSPFPermissive), false
	case allTerm.qualifier == '-' && !hasMechanism:
		return blockingConflict(ReasonSPFNoMail), false
	default:
		return verdict{}, true
	}
}

// missingTerms returns the desired mechanisms, except "all", that are missing from the reachable
// terms of a record. negated is true if the record has a desired mechanism with a qualifier other
// than "+", so that the platform's mail does not pass.
func missingTerms(existing, desired spfRecord) (missing []string, negated bool) {
	for _, t := range desired.reachableTerms() {
		if t.isModifier || t.is("all") {
			continue
		}
		reachableTerms := existing.reachableTerms()
		i := slices.IndexFunc(reachableTerms, func(present spfTerm) bool { return !present.isModifier && present.key() == t.key() })
		switch {
		case i < 0:
			missing = append(missing, t.name+termArgument(t))
		case reachableTerms[i].qualifier != '+':
			negated = true
		}
	}
	return missing, negated
}

func termArgument(t spfTerm) string {
	if t.value == "" || t.value[0] == '/' {
		return t.value
	}
	return ":" + t.value
}

// coveredIndirectly reports whether the names that a record references cover all missing terms.
// Only include terms can be covered.
func (z zoneView) coveredIndirectly(existing spfRecord, missing []string) bool {
	return !slices.ContainsFunc(missing, func(word string) bool {
		t, ok := parseTerm(word)
		return !ok || !t.is("include") || !spfTree(z.Referenced.SPF).reaches(existing, t)
	})
}

// withTerms returns the record's text with terms inserted before "all" or the redirect. A record
// that has neither gets the terms and "~all" at its end. All other bytes are unchanged.
func (r spfRecord) withTerms(terms []string) string {
	if len(terms) == 0 {
		return r.text
	}
	words := strings.Join(terms, " ")
	last := r.first("all")
	if last == nil {
		last = r.first("redirect")
	}
	if last != nil {
		return r.text[:last.offset] + words + " " + r.text[last.offset:]
	}
	separator := " "
	if strings.HasSuffix(r.text, " ") {
		separator = ""
	}
	return r.text + separator + words + " ~all"
}

// checkLimits returns the verdict with notes about the record r. If r needs more lookups than RFC
// 7208 allows, checkLimits returns a conflict instead. An update is a conflict too if the lookups
// of a name outside the platform's record cannot be counted.
func (z zoneView) checkLimits(r, desired spfRecord, v verdict) verdict {
	cost := spfTree(z.Referenced.SPF).cost(r)
	foreignUnknown := cost.unknown && !z.onlyPlatformUnknown(r, desired)
	switch {
	case cost.lookups > maxLookups:
		return blockingConflict(ReasonSPFLookups)
	case foreignUnknown && v.action == Update:
		return blockingConflict(ReasonSPFUnknown)
	}
	allTerm := r.first("all")
	return v.withNoteIf(foreignUnknown, NoteSPFUnknown).
		withNoteIf(cost.lookups >= maxLookups-1, NoteSPFNearLimit).
		withNoteIf(cost.voidLookups > maxVoidLookups, NoteSPFVoid).
		withNoteIf(cost.broken, NoteSPFBroken).
		withNoteIf(len(r.text) > longSPF, NoteSPFLong).
		withNoteIf(r.first("ptr") != nil, NoteSPFPtr).
		withNoteIf(allTerm != nil && allTerm.qualifier == '?', NoteSPFNeutral).
		withNoteIf(allTerm != nil && allTerm.qualifier == '+', NoteSPFPermissive)
}

// onlyPlatformUnknown reports whether all names that could not be read are referenced by the
// platform's own record. Such a name counts as one lookup, and checkLimits allows the write.
func (z zoneView) onlyPlatformUnknown(r, desired spfRecord) bool {
	tree := spfTree{}
	maps.Copy(tree, z.Referenced.SPF)
	for _, name := range SPFReferences(desired.text) {
		if _, known := tree[name]; !known {
			tree[name] = []string{spfTag}
		}
	}
	return !tree.cost(r).unknown
}
