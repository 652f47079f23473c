// SPDX-License-Identifier: Apache-2.0

package dns

import "slices"

// autodiscover never blocks: only some mail programs use it.
func (l look) autodiscover(want Record) verdict {
	targets := l.at(want.Name, CNAME).Values
	all := slices.Concat(targets, l.beside(want.Name, CNAME))
	switch {
	case len(targets) == 1 && sameName(targets[0], want.Content):
		return preserve(ReasonPresent).seeing(targets)
	case len(all) == 0:
		return create(want.Value())
	case l.allOurs(Autodiscover, all):
		return update(ReasonOwnSuperseded, targets, want.Value()).seeing(all)
	default:
		return conflict(ReasonAutodiscoverTaken).seeing(all)
	}
}
