// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// ownership decides on the TXT record that proves ownership. Ownership records of other tenants are
// preserved.
func (l zoneView) ownership(want Record) verdict {
	texts := l.setAt(want.Name, TXT).Values
	label, _, _ := strings.Cut(want.Content, "=")
	alike := filter(texts, func(text string) bool { return text == want.Content || strings.HasPrefix(text, label+"=") })
	stale := filter(alike, func(text string) bool {
		_, managed := l.findWritten(Ownership, text)
		return managed
	})
	switch {
	case l.aliased():
		return blocked(ReasonAliasAtDomain).observing(l.setAt(l.Domain, CNAME).Values)
	case slices.Contains(texts, want.Content):
		return preserve(ReasonPresent).observing(alike)
	case len(stale) > 0:
		return update(ReasonOwnSuperseded, stale, want.Content).observing(alike)
	default:
		return create(want.Content).observing(alike)
	}
}
