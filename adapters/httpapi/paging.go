// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/page"
)

// pageInput has the parameters of a list with cursors.
type pageInput struct {
	Limit string `query:"limit"`
	After string `query:"after"`
}

// query converts the parameters to a page.Query. The cursors of the list contain listName.
func (in *pageInput) query(listName string) (page.Query, error) {
	q := page.Query{Limit: page.DefaultLimit}
	var parser queryParser
	parser.integer("limit", in.Limit, 1, page.MaxLimit, &q.Limit)
	var err error
	if q.After, err = page.Decode(listName, in.After); err != nil {
		parser.refuse("after", "must be a next_cursor of this list")
	}
	return q, parser.err()
}

// nextCursor returns the cursor of the page that follows list. It returns nil if no entries follow.
func nextCursor[T any](listName string, list []T, hasMore bool, id func(T) string) *string {
	if !hasMore {
		return nil
	}
	return pointerTo(page.Cursor(id(list[len(list)-1])).Encode(listName))
}

// oldestTime and newestTime are the bounds of parseTime. All stored objects were created between
// these times.
var oldestTime, newestTime = time.Unix(0, 0).UTC(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// parseTime parses a time that selects objects by their age. It replaces a time beyond the bounds
// by the nearest bound. The bounds are needed because the zero time stands for a missing time, and
// because some databases cannot compare times beyond them.
func parseTime(raw string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, raw)
	switch {
	case err != nil:
		return time.Time{}, err
	case at.Before(oldestTime):
		return oldestTime, nil
	case at.After(newestTime):
		return newestTime, nil
	}
	return at, nil
}

// sequenceCursor returns the cursor of a sequence number in the named list.
func sequenceCursor(listName string, sequence int64) string {
	return page.Cursor(strconv.FormatInt(sequence, 10)).Encode(listName)
}

// decodeSequenceCursor returns the sequence number that sequenceCursor encoded.
func decodeSequenceCursor(listName, text string) (int64, error) {
	cursor, err := page.Decode(listName, text)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(cursor), 10, 64)
}
