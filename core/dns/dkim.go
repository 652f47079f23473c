// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// SelectorState is the state of one DKIM selector.
type SelectorState string

// The states of a selector.
const (
	SelectorPropagated SelectorState = "propagated"
	SelectorMissing    SelectorState = "missing"
	SelectorMismatch   SelectorState = "mismatch"
)

// decideSelector decides on one DKIM selector. The decision does not depend on the other selector.
func (z zoneView) decideSelector(want Desired) verdict {
	alias := z.setAt(want.Name, CNAME)
	targets, others := alias.Values, z.nonCNAMEValues(want.Name)
	delegation := slices.Concat(z.setAt("_domainkey."+z.Domain, NS).Values, z.setAt(want.Name, NS).Values)
	switch {
	case len(targets) == 1 && sameName(targets[0], want.Content) && alias.Veiled:
		return update(ReasonDKIMProxied, nil).withObserved(targets) // the change only ends the proxying or flattening
	case len(targets) == 1 && sameName(targets[0], want.Content):
		return preserve(ReasonPresent).withObserved(targets)
	case len(delegation) > 0:
		return blockingConflict(ReasonDKIMDelegated).withObserved(delegation)
	case len(targets) > 0:
		return z.replaceSelector(want, targets).withObserved(targets)
	case z.isFlattened(want):
		return preserve(ReasonDKIMFlattened).withObserved(others)
	case len(others) > 0:
		return blockingConflict(ReasonDKIMText).withObserved(others)
	default:
		return create(want.Value())
	}
}

// replaceSelector decides on a selector whose CNAME does not have the desired target. Several
// targets are a conflict. A single target is replaced if tenantry wrote it, even for an earlier
// tenant: that tenant no longer uses the target, because a domain belongs to one tenant at a time.
// A single target is also replaced if it contains the name of the same tenant as the desired
// target. Any other target is a conflict.
func (z zoneView) replaceSelector(want Desired, targets []string) verdict {
	if len(targets) > 1 {
		return blockingConflict(ReasonDKIMTaken)
	}
	if z.allManaged(want.Purpose, targets) {
		return update(ReasonOwnSuperseded, targets, want.Value())
	}
	switch z.hosts.signingTenant(targets[0]) {
	case "":
		return blockingConflict(ReasonDKIMTaken)
	case z.hosts.signingTenant(want.Content):
		return update(ReasonDKIMMigration, targets, want.Value())
	default:
		return blockingConflict(ReasonDKIMOtherTenant)
	}
}

// earlySelectors returns the records of the DKIM selectors whose targets the platform has not
// specified yet. These records have no content.
func earlySelectors(domain string, signing Signing) (selectors []Desired) {
	for _, d := range []Desired{
		{Selector1, Record{Type: CNAME, Name: "selector1._domainkey." + domain, Content: signing.Selector1.Content}},
		{Selector2, Record{Type: CNAME, Name: "selector2._domainkey." + domain, Content: signing.Selector2.Content}},
	} {
		if d.Content == "" {
			selectors = append(selectors, d)
		}
	}
	return selectors
}

// decideEarlySelector decides on one DKIM selector while its target is not known. It returns a
// conflict only if the conflict would remain with any target. Otherwise it returns the zero
// verdict. Records of other types are a conflict only in the provider's own list of records,
// because a name server may answer with a TXT record in place of a CNAME. A delegation is not a
// conflict yet, because the right CNAME may be published in the delegated zone later.
func (z zoneView) decideEarlySelector(want Desired) verdict {
	targets, others := z.setAt(want.Name, CNAME).Values, z.nonCNAMEValues(want.Name)
	foreign := func(target string) bool { return z.hosts.signingTenant(target) == "" }
	switch {
	case len(targets) > 1, slices.ContainsFunc(targets, foreign) && !z.allManaged(want.Purpose, targets):
		return blockingConflict(ReasonDKIMTaken).withObserved(targets)
	case len(targets) == 0 && len(others) > 0 && z.FromProvider && len(z.setAt(want.Name, NS).Values) == 0:
		return blockingConflict(ReasonDKIMText).withObserved(others)
	default:
		return verdict{}
	}
}

// isFlattened reports whether the provider answers with the TXT records of the target in place of
// the CNAME.
func (z zoneView) isFlattened(want Desired) bool {
	texts, key := z.setAt(want.Name, TXT).Values, z.Referenced.Keys[normalName(want.Content)]
	return len(texts) > 0 && slices.Equal(slices.Sorted(slices.Values(texts)), slices.Sorted(slices.Values(key)))
}

// SelectorStates returns the states of the two DKIM selectors. Until the platform has specified the
// targets, published records count as a mismatch.
func SelectorStates(read ZoneRead, signing Signing) (SelectorState, SelectorState) {
	return read.selectorState(Selector1, "selector1", signing.Selector1), read.selectorState(Selector2, "selector2", signing.Selector2)
}

// selectorState returns the state of one DKIM selector: SelectorPropagated if a plan would preserve
// the published record.
func (read ZoneRead) selectorState(purpose Purpose, label string, want Record) SelectorState {
	want.Type, want.Name = CNAME, label+"._domainkey."+read.Domain
	z := zoneView{ZoneRead: read}
	switch {
	case z.decideSelector(Desired{purpose, want}).action == Preserve:
		return SelectorPropagated
	case len(z.setAt(want.Name, CNAME).Values) > 0 || len(z.nonCNAMEValues(want.Name)) > 0:
		return SelectorMismatch
	default:
		return SelectorMissing
	}
}
