// SPDX-License-Identifier: Apache-2.0

// Package page holds the rules of lists that are read in pages: the size of a page, and the cursors
// that callers send to get the next one.
package page

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// The size of a page.
const (
	DefaultLimit = 50
	MaxLimit     = 100
)

// Cursor returns the text of a position in a list. Callers must not read it. list is the name of the
// list, so that a cursor of another list is not accepted.
func Cursor(list string, position int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + ":" + strconv.FormatInt(position, 10)))
}

// Position returns the position of a cursor. It fails with invalid_request for a text that Cursor
// did not return for this list.
func Position(list, cursor string) (int64, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	digits, ours := strings.CutPrefix(string(text), list+":")
	position, numberErr := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ours || numberErr != nil || position < 0 || Cursor(list, position) != cursor {
		return 0, fault.InvalidRequest.With("`after` is not a cursor of this list")
	}
	return position, nil
}
