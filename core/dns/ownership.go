// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// ownership decides on the text that proves ownership. Those of other tenants
// may stand beside it.
func (l look) ownership(want Record) verdict {
	texts := l.at(want.Name, TXT).Values
	label, _, _ := strings.Cut(want.Content, "=")
	alike := only(texts, func(text string) bool { return text == want.Content || strings.HasPrefix(text, label+"=") })
	stale := only(alike, func(text string) bool {
		_, ours := l.wrote(Ownership, text)
		return ours
	})
	switch {
	case l.aliased():
		return blocked(ReasonAliasAtDomain).seeing(l.at(l.Domain, CNAME).Values)
	case slices.Contains(texts, want.Content):
		return preserve(ReasonPresent).seeing(alike)
	case len(stale) > 0:
		return update(ReasonOwnSuperseded, stale, want.Content).seeing(alike)
	default:
		return create(want.Content).seeing(alike)
	}
}
