// SPDX-License-Identifier: Apache-2.0

package integration

import "strings"

// SameAddress reports whether two mail addresses are equal, ignoring the case of ASCII letters
// only.
func SameAddress(a, b string) bool { return Fold(a) == Fold(b) }

// Fold returns an address with ASCII letters in lower case, the form for comparisons.
func Fold(address string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, address)
}
