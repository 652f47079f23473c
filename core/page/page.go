// SPDX-License-Identifier: Apache-2.0

// Package page encodes the positions of lists as opaque cursors.
package page

import (
	"encoding/base64"
	"strings"
)

// Encode returns the cursor of a position. list names the kind of list, so that a cursor of one
// list is refused by the others.
func Encode(list, position string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + ":" + position))
}

// Decode returns the position of a cursor that Encode returned for the same kind of list. ok is
// false for any other text.
func Decode(list, cursor string) (position string, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	position, ok = strings.CutPrefix(string(text), list+":")
	return position, err == nil && ok && Encode(list, position) == cursor
}
