// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"strconv"

	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
	"github.com/tenantry/tenantry/core/page"
)

// pageInput has the parameters of a list that is read by cursor. The limit is text, like in
// runsInput.
type pageInput struct {
	Limit string `query:"limit"`
	After string `query:"after"`
}

// query returns the page that the request asks for. list is the name of the list in its cursors.
func (in *pageInput) query(list string) (page.Query, error) {
	q := page.Query{Limit: page.DefaultLimit}
	if in.Limit != "" && !parsePlainInt(in.Limit, 1, page.MaxLimit, &q.Limit) {
		return q, refusal.Invalid("a query parameter is not valid", refusal.ProblemField{Location: "query.limit", Message: "must be an integer from 1 to 100"})
	}
	var err error
	q.After, err = page.Decode(list, in.After)
	return q, err
}

// sequenceCursor returns the cursor of a sequence number in the named list.
func sequenceCursor(list string, sequence int64) string {
	return page.Cursor(strconv.FormatInt(sequence, 10)).Encode(list)
}

// sequenceOf returns the sequence number that sequenceCursor encoded.
func sequenceOf(list, text string) (int64, error) {
	c, err := page.Decode(list, text)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(c), 10, 64)
}
