// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// Missing is the status of a record that is not published, and of DKIM without a correct selector.
const Missing = "missing"

// The values of Status.DKIM.
const (
	DKIMHealthy = "healthy"
	DKIMPartial = "partial"
)

// Status is the status of a domain's mail records. MX is the preferred host, and SPF and DMARC are
// the texts of the records. Each of these three fields is Missing if the zone lacks the record.
type Status struct {
	MX    string
	SPF   string
	DMARC string
	// DKIM is DKIMHealthy if both selectors are correct, DKIMPartial if one is, otherwise Missing.
	DKIM string
	// VerificationSeen is true when an ownership record is published.
	VerificationSeen bool
}

// ReadStatus returns the status of a domain's mail records. verification holds the ownership
// records that the platform offers. signing holds the platform's DKIM targets.
func ReadStatus(read ZoneRead, verification []Record, signing Signing) Status {
	return Status{
		MX:               preferredMX(read.values(read.Domain, MX)),
		SPF:              EscapeText(firstMatch(read.values(read.Domain, TXT), isSPF)),
		DMARC:            EscapeText(firstMatch(read.values("_dmarc."+read.Domain, TXT), isDMARC)),
		DKIM:             dkimStatus(SelectorStates(read, signing)),
		VerificationSeen: slices.ContainsFunc(verification, read.publishes),
	}
}

func dkimStatus(selector1, selector2 SelectorState) string {
	first, second := selector1 == SelectorPropagated, selector2 == SelectorPropagated
	switch {
	case first && second:
		return DKIMHealthy
	case first || second:
		return DKIMPartial
	default:
		return Missing
	}
}

func (read ZoneRead) publishes(want Record) bool {
	return slices.ContainsFunc(read.values(want.Name, want.Type), func(value string) bool {
		if want.Type == TXT {
			return value == want.Content
		}
		if want.Type == MX {
			_, value, _ = strings.Cut(value, " ")
		}
		return sameName(value, want.Content)
	})
}

// preferredMX returns the host with the lowest preference, with a final dot, or Missing. Among
// equal preferences the first value in sort order wins, because servers rotate the order.
func preferredMX(values []string) string {
	best, lowest := Missing, -1
	for _, value := range slices.Sorted(slices.Values(values)) {
		preference, host, ok := parseMX(value)
		if ok && (lowest < 0 || preference < lowest) {
			best, lowest = host+".", preference
		}
	}
	return best
}

// firstMatch returns the first matching text in sort order, or Missing. Sorting makes the result
// independent of the order in which servers return the texts.
func firstMatch(texts []string, matches func(string) bool) string {
	if found := slices.Sorted(slices.Values(filter(texts, matches))); len(found) > 0 {
		return found[0]
	}
	return Missing
}

// MergeStatus returns a domain's status after a read. An incomplete read may show the answer of a
// single server. MergeStatus therefore takes from an incomplete read only the values that were
// missing before.
func MergeStatus(earlier, seen Status, complete bool) Status {
	if complete {
		return seen
	}
	return Status{
		MX:               firstKnown(earlier.MX, seen.MX),
		SPF:              firstKnown(earlier.SPF, seen.SPF),
		DMARC:            firstKnown(earlier.DMARC, seen.DMARC),
		DKIM:             firstKnown(earlier.DKIM, seen.DKIM),
		VerificationSeen: seen.VerificationSeen || earlier.VerificationSeen,
	}
}

func firstKnown(earlier, seen string) string {
	if earlier == "" || earlier == Missing {
		return seen
	}
	return earlier
}

// Soundness says whether the published records of one kind are correct. SoundnessUnknown means that
// the platform has not specified a valid record, or that the read lacks a referenced name.
type Soundness int

// The values of Soundness.
const (
	SoundnessUnknown Soundness = iota
	SoundnessRight
	SoundnessWrong
)

func soundnessOf(right bool) Soundness {
	if right {
		return SoundnessRight
	}
	return SoundnessWrong
}

// ReadSoundness returns whether the published records are correct. SPF must let the mail platform
// send, DKIM must publish the platform's keys, and an MX record must name a host of the platform.
// The read must include the names that an SPF record references; see ZoneRead.Needs.
func ReadSoundness(read ZoneRead, o Offer) (spf, dkim, mx Soundness) {
	z := zoneView{ZoneRead: read, offered: o.Verification, hosts: o.Hosts}
	if want, specified := o.mxRecord(read.Domain); specified {
		groups := z.groupMX(z.setAt(read.Domain, MX).Values, want)
		mx = soundnessOf(len(groups.desired)+len(groups.stale) > 0)
	}
	if o.Signing.Selector1.Content != "" && o.Signing.Selector2.Content != "" {
		selector1, selector2 := SelectorStates(read, o.Signing)
		dkim = soundnessOf(selector1 == SelectorPropagated && selector2 == SelectorPropagated)
	}
	if want, specified := o.serviceRecord(TXT, read.Domain, isSPF); specified {
		spf = z.spfSoundness(want)
	}
	return spf, dkim, mx
}

// spfSoundness returns SoundnessRight for a valid SPF record that lets the platform send, directly
// or through names that the record references.
func (z zoneView) spfSoundness(want Record) Soundness {
	records := filter(z.setAt(want.Name, TXT).Values, isSPF)
	desired, ok := parseSPF(want.Content)
	switch {
	case !ok:
		return SoundnessUnknown
	case len(records) != 1:
		return SoundnessWrong
	}
	existing, ok := parseSPF(records[0])
	if !ok {
		return SoundnessWrong
	}
	missing, negated := missingTerms(existing, desired)
	switch {
	case negated:
		return SoundnessWrong
	case len(missing) == 0 || z.coveredIndirectly(existing, missing):
		return SoundnessRight
	case spfTree(z.Referenced.SPF).cost(existing).unknown:
		return SoundnessUnknown
	default:
		return SoundnessWrong
	}
}
