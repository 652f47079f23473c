// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// ServesWorld reports whether the records of the zone are published. The provider must not mark the
// zone as idle, and its name servers must equal those of the delegation.
func (z Zone) ServesWorld(delegation []string) bool {
	return z.Idle == "" && len(delegation) > 0 && slices.Equal(plainNames(z.NameServers), plainNames(delegation))
}

// plainNames returns the names in lower case without a final dot, sorted and without duplicates.
func plainNames(names []string) []string {
	plain := make([]string, len(names))
	for i, name := range names {
		plain[i] = strings.ToLower(strings.TrimSuffix(name, "."))
	}
	slices.Sort(plain)
	return slices.Compact(plain)
}
