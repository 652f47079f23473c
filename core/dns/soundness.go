// SPDX-License-Identifier: Apache-2.0

package dns

// Soundness is whether what mail depends on is right in the DNS. A read may have
// been too narrow to tell, and the platform may not have said what is right.
type Soundness int

// What a read may say.
const (
	Untold Soundness = iota
	Right
	Wrong
)

func soundness(right bool) Soundness {
	if right {
		return Right
	}
	return Wrong
}

// ReadSoundness reads whether the world lets the mail platform send for a domain
// (SPF), finds its keys (DKIM) and brings it the domain's mail (MX). For SPF
// that goes by way of other names the read must know these: see Desire.
func ReadSoundness(s Sight, o Offer) (spf, dkim, mx Soundness) {
	l := look{Sight: s, offered: o.Verification}
	if want, named := o.exchange(s.Domain); named {
		x := l.sortExchanges(l.at(s.Domain, MX).Values, want)
		mx = soundness(len(x.desired)+len(x.stale) > 0)
	}
	if o.Signing.Selector1.Content != "" && o.Signing.Selector2.Content != "" {
		selector1, selector2 := ReadSelectors(s, o.Signing)
		dkim = soundness(selector1 == SelectorPropagated && selector2 == SelectorPropagated)
	}
	if want, named := o.service(TXT, s.Domain, isSPF); named {
		spf = l.sendingSound(want)
	}
	return spf, dkim, mx
}

// sendingSound takes a record for right that receivers can read and that lets
// the platform pass, itself or by names that it refers to.
func (l look) sendingSound(want Record) Soundness {
	records := only(l.at(want.Name, TXT).Values, isSPF)
	desired, ok := parseSPF(want.Content)
	switch {
	case !ok:
		return Untold
	case len(records) != 1:
		return Wrong
	}
	have, ok := parseSPF(records[0])
	if !ok {
		return Wrong
	}
	missing, negated := absent(have, desired)
	switch {
	case negated:
		return Wrong
	case len(missing) == 0 || l.indirect(have, missing):
		return Right
	case spfTree(l.Beyond.SPF).cost(have).unknown:
		return Untold
	default:
		return Wrong
	}
}

// Silent reports whether nobody answered at all: then the trouble may well be on
// our side.
func (s Sight) Silent() bool {
	return !s.Complete && s.Reason != ReasonNotDelegated && s.servers(func(n Server) bool { return n.State == ServerOK }) == 0
}

// ReasonNotDelegated is why a sight is not reliable whose domain nobody serves:
// the zone above it says so.
const ReasonNotDelegated = "not_delegated"
