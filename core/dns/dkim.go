// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// selectorAt decides on one DKIM selector, whatever the other's state.
func (l look) selectorAt(want Desired) verdict {
	targets := l.at(want.Name, CNAME).Values
	others := l.beside(want.Name, CNAME)
	delegation := slices.Concat(l.at("_domainkey."+l.Domain, NS).Values, l.at(want.Name, NS).Values)
	switch {
	case len(targets) == 1 && sameName(targets[0], want.Content):
		return preserve(ReasonPresent).seeing(targets)
	case len(delegation) > 0:
		return blocked(ReasonDKIMDelegated).seeing(delegation)
	case len(targets) > 0:
		return l.selectorTaken(want, targets).seeing(targets)
	case l.flattened(want):
		return preserve(ReasonDKIMFlattened).seeing(others)
	case len(others) > 0:
		return blocked(ReasonDKIMText).seeing(others)
	default:
		return create(want.Value())
	}
}

// selectorTaken decides on a selector that points elsewhere. A domain has one
// tenant at a time, so what we wrote for an earlier one signs nothing any more.
func (l look) selectorTaken(want Desired, targets []string) verdict {
	if len(targets) > 1 {
		return blocked(ReasonDKIMTaken)
	}
	if l.allOurs(want.Purpose, targets) {
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

// flattened reports whether the provider answers with the target's key in the
// place of the CNAME that it holds.
func (l look) flattened(want Desired) bool {
	texts, key := l.at(want.Name, TXT).Values, l.Beyond.Keys[referred(want.Content)]
	return len(texts) > 0 && slices.Equal(slices.Sorted(slices.Values(texts)), slices.Sorted(slices.Values(key)))
}
