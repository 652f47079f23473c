// SPDX-License-Identifier: Apache-2.0

package dns

// Soundness says whether the DNS records that mail depends on are right. It is Untold when the read
// or the platform's records do not suffice to decide.
type Soundness int

// The values of Soundness.
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

// ReadSoundness returns whether the published records let the mail platform send for a domain
// (SPF), publish its keys (DKIM) and deliver the domain's mail to it (MX). The read must include
// the names that an SPF record references; see Sight.Needs.
func ReadSoundness(s Sight, o Offer) (spf, dkim, mx Soundness) {
	l := zoneView{Sight: s, offered: o.Verification}
	if want, named := o.exchange(s.Domain); named {
		x := l.sortExchanges(l.setAt(s.Domain, MX).Values, want)
		mx = soundness(len(x.desired)+len(x.stale) > 0)
	}
	if o.Signing.Selector1.Content != "" && o.Signing.Selector2.Content != "" {
		selector1, selector2 := ReadSelectors(s, o.Signing)
		dkim = soundness(selector1 == SelectorPropagated && selector2 == SelectorPropagated)
	}
	if want, named := o.service(TXT, s.Domain, isSPF); named {
		spf = l.spfSoundness(want)
	}
	return spf, dkim, mx
}

// spfSoundness returns Right for a valid SPF record that passes the platform, directly or through
// names that it references.
func (l zoneView) spfSoundness(want Record) Soundness {
	records := filter(l.setAt(want.Name, TXT).Values, isSPF)
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
	missing, negated := missingTerms(have, desired)
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

// Silent reports whether no server answered at all, so that the cause may be the service's own
// network.
func (s Sight) Silent() bool {
	return !s.Complete && s.Reason != ReasonNotDelegated && s.servers(func(n Server) bool { return n.State == ServerOK }) == 0
}

// ReasonNotDelegated is Sight.Reason when the parent zone does not delegate the domain.
const ReasonNotDelegated = "not_delegated"
