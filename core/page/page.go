// SPDX-License-Identifier: Apache-2.0

// Package page defines the cursors of lists: opaque texts that name a position in a list.
//
// A cursor holds the kind of its list, so that a cursor of a different list is refused. It holds no
// secret and grants nothing.
package page

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Cursor returns the cursor of a position in a list of this kind.
func Cursor(kind string, position int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + strconv.FormatInt(position, 10)))
}

// Position returns the position of a cursor. It returns false if the text is no cursor of a list of
// this kind.
func Position(kind, cursor string) (int64, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, false
	}
	number, ours := strings.CutPrefix(string(raw), kind+":")
	position, err := strconv.ParseInt(number, 10, 64)
	return position, ours && err == nil && position >= 0 && Cursor(kind, position) == cursor
}
