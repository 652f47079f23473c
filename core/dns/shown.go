// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shown is a content as it may be shown and stored as text: bytes that are
// none, and control characters, become \DDD, as zone files write them.
func Shown(content string) string {
	if utf8.ValidString(content) && !strings.ContainsFunc(content, unicode.IsControl) {
		return content
	}
	var b strings.Builder
	for i := 0; i < len(content); {
		r, size := utf8.DecodeRuneInString(content[i:])
		if r == utf8.RuneError && size == 1 || unicode.IsControl(r) {
			for _, octet := range []byte(content[i : i+size]) {
				fmt.Fprintf(&b, `\%03d`, octet)
			}
		} else {
			b.WriteString(content[i : i+size])
		}
		i += size
	}
	return b.String()
}
