// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Stamp is a time as JavaScript writes it, which most platforms do.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Later is the Stamp of a change, which is never that of the one before: two
// changes within a millisecond are told apart.
func Later(before string, now time.Time) string {
	if last, err := time.Parse(time.RFC3339, before); err == nil && now.Before(last.Add(time.Millisecond)) {
		now = last.Add(time.Millisecond)
	}
	return Stamp(now)
}

// NameOf is what a person is called who signs in with an address, as
// ann.lee@… is Ann Lee.
func NameOf(address string) string {
	local, _, _ := strings.Cut(address, "@")
	words := strings.FieldsFunc(strings.ToLower(local), func(r rune) bool { return strings.ContainsRune("._-+", r) })
	for i, w := range words {
		first, size := utf8.DecodeRuneInString(w)
		words[i] = string(unicode.ToUpper(first)) + w[size:]
	}
	return strings.Join(words, " ")
}
