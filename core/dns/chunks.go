// SPDX-License-Identifier: Apache-2.0

package dns

import "strings"

// maxString is the maximum length of one string of a TXT record, in octets.
const maxString = 255

// Chunks splits a text into the strings of a TXT record, after a space where possible. Readers join
// the strings without a separator, so each space stays at the end of its string.
func Chunks(text string) []string {
	chunks := []string{}
	for len(text) > maxString {
		cut := strings.LastIndexByte(text[:maxString], ' ') + 1
		if cut == 0 {
			cut = maxString
		}
		chunks, text = append(chunks, text[:cut]), text[cut:]
	}
	return append(chunks, text)
}
