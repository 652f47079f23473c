// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// dkimSelector decides on one DKIM selector, independently of the other selector.
func (l zoneView) dkimSelector(want Desired) verdict {
	targets := l.setAt(want.Name, CNAME).Values
	others := l.otherTypesAt(want.Name, CNAME)
	delegation := slices.Concat(l.setAt("_domainkey."+l.Domain, NS).Values, l.setAt(want.Name, NS).Values)
	switch {
	case len(targets) == 1 && sameName(targets[0], want.Content):
		return preserve(ReasonPresent).observing(targets)
	case len(delegation) > 0:
		return blocked(ReasonDKIMDelegated).observing(delegation)
	case len(targets) > 0:
		return l.replaceSelector(want, targets).observing(targets)
	case l.flattened(want):
		return preserve(ReasonDKIMFlattened).observing(others)
	case len(others) > 0:
		return blocked(ReasonDKIMText).observing(others)
	default:
		return create(want.Value())
	}
}

// replaceSelector decides on a selector with a different target. A domain belongs to one tenant at
// a time, so a target that was written for an earlier tenant is no longer in use.
func (l zoneView) replaceSelector(want Desired, targets []string) verdict {
	if len(targets) > 1 {
		return blocked(ReasonDKIMTaken)
	}
	if l.allManaged(want.Purpose, targets) {
		return update(ReasonOwnSuperseded, targets, want.Value())
	}
	switch signingTenant(targets[0]) {
	case "":
		return blocked(ReasonDKIMTaken)
	case signingTenant(want.Content):
		return update(ReasonDKIMMigration, targets, want.Value())
	default:
		return blocked(ReasonDKIMOtherTenant)
	}
}

// flattened reports whether the provider answers with the TXT records of the target in place of the
// CNAME.
func (l zoneView) flattened(want Desired) bool {
	texts, key := l.setAt(want.Name, TXT).Values, l.Beyond.Keys[normalName(want.Content)]
	return len(texts) > 0 && slices.Equal(slices.Sorted(slices.Values(texts)), slices.Sorted(slices.Values(key)))
}
