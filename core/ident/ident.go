// SPDX-License-Identifier: Apache-2.0

// Package ident makes ids and holds the form of those that callers put into
// paths.
package ident

// Zero is the UUID that nothing ever has.
const Zero = "00000000-0000-0000-0000-000000000000"

const length = len(Zero)

// Parse returns the lower-case form of a UUID in the form 8-4-4-4-12, in any case, and whether raw
// is one. The spellings with braces or urn:uuid: are not accepted.
func Parse(raw string) (string, bool) {
	if len(raw) != length {
		return "", false
	}
	canonical := make([]byte, length)
	for i := range length {
		c, ok := digit(raw[i], i)
		if !ok {
			return "", false
		}
		canonical[i] = c
	}
	return string(canonical), true
}

// Lookup returns the UUID to look up for raw. Malformed ones become Zero, so
// that they run the same queries as unknown ones and get the same answer.
func Lookup(raw string) string {
	if id, ok := Parse(raw); ok {
		return id
	}
	return Zero
}

func digit(c byte, at int) (byte, bool) {
	switch {
	case at == 8 || at == 13 || at == 18 || at == 23:
		return c, c == '-'
	case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
		return c, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 'a', true
	default:
		return 0, false
	}
}
