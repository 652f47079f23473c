// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http/httptest"
	"slices"
	"testing"
)

func TestPageSelectsTheItemsOfThePage(t *testing.T) {
	for query, want := range map[string][]int{
		"":                            {1, 2},
		"?page=2":                     {3},
		"?page=3":                     {},
		"?per_page=3":                 {1, 2, 3},
		"?page=9223372036854775807":   {}, // the highest number of an int
		"?page=9223372036854775808":   nil,
		"?page=0":                     nil,
		"?per_page=4":                 nil, // above the maximum
		"?page=2&per_page=1":          {2},
		"?per_page=2&page=notanumber": nil,
	} {
		got, info, ok := page(httptest.NewRequest("GET", "/zones"+query, nil), []int{1, 2, 3}, 2, 3)
		if ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%q: got %v, %v, want %v", query, got, ok, want)
		}
		if ok && (info.TotalCount != 3 || info.Count != len(want)) {
			t.Errorf("%q: got %+v, want 3 items in all and %d on the page", query, *info, len(want))
		}
	}
}
