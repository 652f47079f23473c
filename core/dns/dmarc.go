// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"cmp"
	"strings"
)

// isDMARC reports whether a text starts like a DMARC record: with the tag v and the value DMARC1.
func isDMARC(text string) bool {
	version, _, _ := strings.Cut(text, ";")
	name, value, _ := strings.Cut(version, "=")
	words := strings.Fields(value)
	return strings.EqualFold(strings.TrimRight(name, " \t"), "v") && len(words) > 0 && strings.EqualFold(words[0], "DMARC1")
}

// parseDMARC returns the well-formed tags of a record, and whether the whole record is valid.
// Receivers ignore the other tags. They ignore the record, and parseDMARC returns no tags, if its
// first tag is not v=DMARC1 with the value in upper case (RFC 9989).
func parseDMARC(text string) (tags map[string]string, valid bool) {
	tags, valid = map[string]string{}, true
	for i, part := range strings.Split(text, ";") {
		name, value, found := strings.Cut(part, "=")
		name, value = strings.ToLower(strings.Trim(name, " \t")), strings.Trim(value, " \t")
		_, duplicate := tags[name]
		switch {
		case i == 0 && (!strings.HasPrefix(part, "v") || name != "v" || value != "DMARC1"):
			return nil, false
		case !found && name == "": // after a final semicolon
		case !found || name == "" || duplicate:
			valid = false
		default:
			tags[name] = value
		}
	}
	return tags, valid
}

// hasPolicy reports whether the tag p of a record has one of the known values.
func hasPolicy(tags map[string]string) bool {
	return isEnforced(tags["p"]) || strings.EqualFold(tags["p"], "none")
}

// ValidDMARC reports whether a text is a valid DMARC record that has a valid policy and fits into
// one TXT string. The text must be UTF-8 without control characters.
func ValidDMARC(text string) bool {
	tags, valid := parseDMARC(text)
	return valid && hasPolicy(tags) && len(text) <= maxStringLength && EscapeText(text) == text
}

// decideDMARC decides on the DMARC record. It never changes an existing record. If the DMARC record
// of a parent domain applies, decideDMARC adds no record, because a new one could weaken the
// policy.
func (z zoneView) decideDMARC(want Record) verdict {
	alias := z.setAt(want.Name, CNAME)
	// Unlike z.setAt, z.values includes records from a wildcard. Receivers accept such records.
	records := filter(z.values(want.Name, TXT), isDMARC)
	delegation := z.setAt(want.Name, NS).Values
	inherited := z.inheritedTags()
	switch {
	case len(alias.Values) > 0 && !alias.Veiled:
		return preserve(ReasonDMARCAlias).withObserved(alias.Values)
	case len(records) > 1:
		return conflict(ReasonDMARCMultiple).withObserved(records)
	case len(records) == 1:
		return decideExistingDMARC(records[0], want).withObserved(records)
	case len(alias.Values) > 0:
		return conflict(ReasonDMARCProxied).withObserved(alias.Values)
	case len(inherited) > 0:
		return preserve(ReasonDMARCInherited).withNoteIf(isStrict(inherited), NoteDMARCStrict)
	case len(delegation) > 0:
		return conflict(ReasonDMARCDelegated).withObserved(delegation)
	default:
		return create(want.Value())
	}
}

func decideExistingDMARC(record string, want Record) verdict {
	tags, valid := parseDMARC(record)
	if !valid {
		return conflict(ReasonDMARCSyntax)
	}
	reason := ReasonDMARCPresent
	if record == want.Content {
		reason = ReasonPresent
	}
	return preserve(reason).withNoteIf(isStrict(tags), NoteDMARCStrict).withNoteIf(!hasPolicy(tags), NoteDMARCNoPolicy)
}

// isStrict reports whether a DMARC record with these tags has an enforced policy or strict
// alignment. Mail that is sent before DKIM signing starts may then fail DMARC.
func isStrict(tags map[string]string) bool {
	return isEnforced(tags["p"]) || isEnforced(tags["sp"]) || strings.EqualFold(tags["adkim"], "s") || strings.EqualFold(tags["aspf"], "s")
}

func isEnforced(policy string) bool {
	return strings.EqualFold(policy, "reject") || strings.EqualFold(policy, "quarantine")
}

// inheritedTags returns the tags of the DMARC record that the domain inherits, or nil. It takes the
// record of the nearest parent domain whose record is valid or has a policy. This is an
// approximation: receivers apply the record of the organizational domain. If the record has a
// policy for subdomains (sp), this policy is returned as p.
func (z zoneView) inheritedTags() map[string]string {
	for _, name := range ParentDMARCNames(z.Domain) {
		records := filter(z.Referenced.ParentDMARC[name], isDMARC)
		if len(records) != 1 {
			continue
		}
		if tags, valid := parseDMARC(records[0]); valid || hasPolicy(tags) {
			tags["p"] = cmp.Or(tags["sp"], tags["p"])
			return tags
		}
	}
	return nil
}

// maxWalkQueries is the maximum number of names that a receiver queries for a DMARC record (RFC
// 9989, DNS tree walk).
const maxWalkQueries = 8

// ParentDMARCNames returns the names at which a DMARC record of a parent domain can cover the
// domain, nearest first. They are the names that the tree walk of RFC 9989 queries after the
// domain's own.
func ParentDMARCNames(domain string) []string {
	labels := strings.Split(normalName(domain), ".")
	if len(labels) > maxWalkQueries {
		labels = labels[len(labels)-maxWalkQueries+1:]
	} else {
		labels = labels[1:]
	}
	names := make([]string, len(labels))
	for i := range labels {
		names[i] = "_dmarc." + strings.Join(labels[i:], ".")
	}
	return names
}
