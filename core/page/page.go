// SPDX-License-Identifier: Apache-2.0

// Package page defines the rules of lists that are read page by page: the limits, and the cursors
// with which a caller asks for the next page.
//
// Query is a request for a page, and Page is the answer. New makes a Page from the entries that a
// store returned.
package page

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// The limits of the number of entries in a page.
const (
	DefaultLimit = 50
	MaxLimit     = 100
)

// Cursor is a position in a list, such as the id of the last entry of a page. It is empty before
// the first entry.
type Cursor string

// Query asks for the page that follows a position.
type Query struct {
	After Cursor
	Limit int // 1 to MaxLimit
}

// Page is a part of a list.
type Page[T any] struct {
	Entries []T
	// Next is the position of the last entry, empty at the end of the list.
	Next Cursor
}

// New makes a page from the entries that follow the position of the query. entries must have one
// entry more than the limit, or all remaining entries if there are fewer.
func New[T any](q Query, entries []T, position func(T) Cursor) Page[T] {
	if len(entries) <= q.Limit {
		return Page[T]{Entries: entries}
	}
	entries = entries[:q.Limit]
	return Page[T]{Entries: entries, Next: position(entries[q.Limit-1])}
}

const separator = "\x00"

// Encode returns the opaque text of a cursor of the named list. It returns "" for an empty cursor.
func (c Cursor) Encode(list string) string {
	if c == "" {
		return ""
	}
	content := list + separator + string(c)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32([]byte(content), crc32.ChecksumIEEE([]byte(content))))
}

// Decode returns the cursor of the named list from its opaque text. It returns an empty cursor for
// "". It fails with invalid_request for a text that Encode did not return for this list.
//
// The checksum detects texts that are not cursors. It need not authenticate them, because a
// position selects only where a page begins, and not the account of the list.
func Decode(list, text string) (Cursor, error) {
	if text == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	content := string(raw[:max(0, len(raw)-crc32.Size)])
	c := Cursor(strings.TrimPrefix(content, list+separator))
	if err != nil || c.Encode(list) != text {
		return "", fault.InvalidRequest.With("`after` is not a cursor of this list; send a `next_cursor` unchanged")
	}
	return c, nil
}
