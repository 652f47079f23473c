// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"slices"
	"strings"
)

// ServesWorld reports whether the world sees what is written into the zone:
// its provider says nothing against it, and the servers that it lists are
// exactly those of the delegation.
func (z Zone) ServesWorld(delegation []string) bool {
	return z.Idle == "" && len(delegation) > 0 && slices.Equal(plainNames(z.NameServers), plainNames(delegation))
}

// plainNames are names in one spelling and order, each once.
func plainNames(names []string) []string {
	plain := make([]string, len(names))
	for i, name := range names {
		plain[i] = strings.ToLower(strings.TrimSuffix(name, "."))
	}
	slices.Sort(plain)
	return slices.Compact(plain)
}
