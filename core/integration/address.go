// SPDX-License-Identifier: Apache-2.0

package integration

import "strings"

// SameAddress reports whether two mail addresses are one: the case of ASCII
// letters makes no difference, any other character does.
func SameAddress(a, b string) bool { return Fold(a) == Fold(b) }

// Fold is an address in the form in which addresses are compared.
func Fold(address string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, address)
}
