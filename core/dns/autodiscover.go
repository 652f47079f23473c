// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// autodiscover decides on the autodiscover CNAME. Its conflicts never block, because only some mail
// clients use it.
func (l zoneView) autodiscover(want Record) verdict {
	targets := l.setAt(want.Name, CNAME).Values
	all := slices.Concat(targets, l.otherTypesAt(want.Name, CNAME))
	switch {
	case len(targets) == 1 && sameName(targets[0], want.Content):
		return preserve(ReasonPresent).observing(targets)
	case len(all) == 0:
		return create(want.Value())
	case l.allManaged(Autodiscover, all):
		return update(ReasonOwnSuperseded, targets, want.Value()).observing(all)
	default:
		return conflict(ReasonAutodiscoverTaken).observing(all)
	}
}
