// SPDX-License-Identifier: Apache-2.0

package dns

import "strings"

const dmarcTag = "v=DMARC1"

// isDMARC reports whether a text means to be a DMARC record.
func isDMARC(text string) bool {
	if len(text) < len(dmarcTag) || !strings.EqualFold(text[:len(dmarcTag)], dmarcTag) {
		return false
	}
	rest := text[len(dmarcTag):]
	return rest == "" || strings.ContainsAny(rest[:1], " ;\t")
}

// parseDMARC reads the tags of a record, or reports that receivers would not
// take it. The version must be first and in capitals (RFC 9989).
func parseDMARC(text string) (map[string]string, bool) {
	tags := map[string]string{}
	for i, part := range strings.Split(text, ";") {
		name, value, found := strings.Cut(part, "=")
		name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t")
		if !found && name == "" && i > 0 {
			continue
		}
		if _, twice := tags[name]; !found || name == "" || twice || i == 0 && (name != "v" || value != "DMARC1") {
			return nil, false
		}
		tags[strings.ToLower(name)] = value
	}
	return tags, true
}

// ValidDMARC reports whether a text is a DMARC record that receivers take, with
// a policy, and may be published as one text.
func ValidDMARC(text string) bool {
	tags, ok := parseDMARC(text)
	return ok && (enforced(tags["p"]) || strings.EqualFold(tags["p"], "none")) && len(text) <= maxString && Shown(text) == text
}

// policy decides on the DMARC record. One that is there stays as it is, and one
// above the domain is not weakened by ours.
func (l look) policy(want Record) verdict {
	alias := l.at(want.Name, CNAME).Values
	// A record that a wildcard makes up counts for receivers, so it does here.
	records := only(l.values(want.Name, TXT), isDMARC)
	delegation := l.at(want.Name, NS).Values
	above := l.inherited()
	switch {
	case len(alias) > 0:
		return preserve(ReasonDMARCAlias).seeing(alias)
	case len(records) > 1:
		return conflict(ReasonDMARCMultiple).seeing(records)
	case len(records) == 1:
		return standing(records[0], want).seeing(records)
	case len(above) > 0:
		return preserve(ReasonDMARCInherited).noting(strict(above), NoteDMARCStrict)
	case len(delegation) > 0:
		return conflict(ReasonDMARCDelegated).seeing(delegation)
	default:
		return create(want.Value())
	}
}

func standing(record string, want Record) verdict {
	tags, ok := parseDMARC(record)
	if !ok {
		return conflict(ReasonDMARCSyntax)
	}
	why := ReasonDMARCPresent
	if record == want.Content {
		why = ReasonPresent
	}
	none := strings.EqualFold(tags["p"], "none")
	return preserve(why).noting(strict(tags), NoteDMARCStrict).noting(!none && !enforced(tags["p"]), NoteDMARCUnenforced)
}

// strict reports whether mail that is sent before it is signed may be refused.
func strict(tags map[string]string) bool {
	return enforced(tags["p"]) || enforced(tags["sp"]) || strings.EqualFold(tags["adkim"], "s") || strings.EqualFold(tags["aspf"], "s")
}

func enforced(policy string) bool {
	return strings.EqualFold(policy, "reject") || strings.EqualFold(policy, "quarantine")
}

// inherited are the tags of the nearest record above that covers the domain.
func (l look) inherited() map[string]string {
	for _, name := range DMARCAbove(l.Domain) {
		records := only(l.Beyond.Above[name], isDMARC)
		if len(records) != 1 {
			continue
		}
		if tags, ok := parseDMARC(records[0]); ok {
			return tags
		}
	}
	return nil
}
