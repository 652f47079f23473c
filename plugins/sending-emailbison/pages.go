// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// perPage is asked for. An instance may have its own mind, as 15.
const perPage = 100

// pageOf is one page as Laravel pages.
type pageOf[T any] struct {
	Data  *[]T `json:"data"`
	Links loose[struct {
		Next text `json:"next"`
	}] `json:"links"`
	Meta struct {
		Current text `json:"current_page"`
		Last    text `json:"last_page"`
		Total   text `json:"total"`
	} `json:"meta"`
}

// read gets one page of a list. One without its number, or with another, cannot
// be told from the whole list, so it is nonsense: who is not on it would pass for
// gone.
func read[T any](ctx context.Context, p *platform, path string, number int, search string) (found []T, more bool, total int, err error) {
	query := url.Values{"page": {strconv.Itoa(number)}, "per_page": {strconv.Itoa(perPage)}}
	if search != "" {
		query.Set("search", search)
	}
	var page pageOf[T]
	if err := p.call(ctx, http.MethodGet, path+"?"+query.Encode(), &page); err != nil {
		return nil, false, 0, err
	}
	if page.Data == nil || page.Meta.Current.number() != number {
		return nil, false, 0, sdk.BrokenBy("nonsense")
	}
	more = page.Links.it.Next != ""
	if last := page.Meta.Last.number(); last > 0 {
		more = number < last
	}
	return *page.Data, more, page.Meta.Total.number(), nil
}
