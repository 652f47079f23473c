// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Shown returns the content as text that is safe to show and store. Invalid UTF-8 and control
// characters become \DDD, as in zone files.
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
