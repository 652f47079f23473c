// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestSkip checks that both meanings of skip list every sender once, in few calls.
// The longest lists are read only when TENANTRY_SOAK is set.
func TestSkip(t *testing.T) {
	for _, tt := range []struct {
		senders, calls int
		knobs          m
	}{
		{0, 1, m{"skip": "offset"}}, {0, 1, m{"skip": "page"}},
		{1, 2, m{"skip": "offset"}}, {1, 2, m{"skip": "page"}},
		{2, 2, m{"skip": "offset"}}, {99, 2, m{"skip": "offset"}}, {99, 2, m{"skip": "page"}},
		{100, 2, m{"skip": "offset"}}, {100, 2, m{"skip": "page"}},
		{101, 3, m{"skip": "offset"}}, {101, 3, m{"skip": "page"}},
		{350, 6, m{"skip": "offset"}}, {350, 5, m{"skip": "page"}},
		{50, 2, m{"skip": "page", "past_end": "repeat"}}, {250, 4, m{"skip": "page", "past_end": "repeat"}},
		{50, 2, m{"skip": "ignored"}},
	} {
		if tt.senders > 200 && os.Getenv("TENANTRY_SOAK") == "" {
			tt.senders, tt.calls = tt.senders-200, tt.calls-2
		}
		w := newWorld(t)
		for i := range tt.senders {
			w.put(fmt.Sprintf("user%03d@a.example", i), m{"folder": fmt.Sprint("Folder ", i%3)})
		}
		w.behave(tt.knobs)
		all, err := w.listing(w.with(nil))
		ids := map[string]bool{}
		for _, a := range all {
			ids[a.ID] = true
		}
		if err != nil || len(all) != tt.senders || len(ids) != tt.senders || w.Calls.Load() > int64(tt.calls) {
			t.Errorf("%d senders, %v: %d of %d in %d calls, %v", tt.senders, tt.knobs, len(ids), len(all), w.Calls.Load(), err)
		}
	}
}

// TestSkipThatIsIgnored: a full page that comes again is not all that there is.
func TestSkipThatIsIgnored(t *testing.T) {
	w := newWorld(t)
	for i := range 130 {
		w.put(fmt.Sprintf("user%03d@a.example", i), m{})
	}
	w.behave(m{"skip": "ignored", "search": false})
	if all, err := w.listing(w.with(nil)); outcome.Of(err) != outcome.Broken {
		t.Errorf("%d senders, %v", len(all), err)
	}
	if a, err := w.with(nil).Account(t.Context(), "user129@a.example"); outcome.Of(err) != outcome.Broken {
		t.Errorf("one of them: %+v, %v", a, err)
	}
	if a, err := w.with(nil).Account(t.Context(), "user007@a.example"); err != nil || !a.There() {
		t.Errorf("one of the first page: %+v, %v", a, err)
	}
}

// TestSendersThatMove between two pages do not change what skip means.
func TestSendersThatMove(t *testing.T) {
	page := func(from, to int) (all []sdk.Account) {
		for i := from; i < to; i++ {
			all = append(all, sdk.Account{ID: fmt.Sprint(i)})
		}
		return all
	}
	for name, tt := range map[string]struct {
		second []sdk.Account
		means  string
	}{
		"as it was, by offset": {page(1, 101), offset}, "as it was, by page": {page(100, 200), number},
		"three went, by offset": {page(4, 104), offset}, "two came, by page": {page(98, 198), number},
	} {
		first, err := cursor{}.page(page(0, 100))
		if err != nil {
			t.Fatal(err)
		}
		var here, next cursor
		if err := json.Unmarshal([]byte(first.Next), &here); err != nil {
			t.Fatal(err)
		}
		second, err := here.page(tt.second)
		if err != nil || json.Unmarshal([]byte(second.Next), &next) != nil || next.Means != tt.means {
			t.Errorf("%s: %+v, %v", name, next, err)
		}
	}
}

// TestSendersThatGo checks that senders which are removed during a listing by
// offset hide no other sender. The overlap covers a few removals, more break the
// listing.
func TestSendersThatGo(t *testing.T) {
	const senders = 240
	removals := []int{4, 5}
	if os.Getenv("TENANTRY_SOAK") != "" {
		removals = []int{1, 4, 5, 120}
	}
	for _, went := range removals {
		w := newWorld(t)
		for i := range senders {
			w.put(fmt.Sprintf("user%03d@a.example", i), m{})
		}
		w.behave(m{"skip": "offset", "limits": false})
		ids, broke := map[string]bool{}, false
		for at, n := "", 0; n == 0 || at != ""; n++ {
			page, err := w.with(nil).Accounts(t.Context(), at)
			if broke = err != nil; broke {
				break
			}
			for _, a := range page.Accounts {
				ids[a.Address] = true
			}
			if at = page.Next; n == 1 {
				for i := range went {
					w.control(http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", i), nil)
				}
			}
		}
		for i := went; i < senders && !broke; i++ {
			if !ids[fmt.Sprintf("user%03d@a.example", i)] {
				t.Errorf("after %d removals sender %d is not listed", went, i)
			}
		}
		if broke != (went >= overlap) {
			t.Errorf("after %d removals the listing is broken: %v", went, broke)
		}
	}
}

// TestCursors: one that no page gave is refused.
func TestCursors(t *testing.T) {
	w := newWorld(t)
	for _, at := range []string{"x", "{}", `{"skip": -1}`, "null"} {
		if _, err := w.with(nil).Accounts(t.Context(), at); outcome.Of(err) != outcome.Refused {
			t.Errorf("%q: %v", at, err)
		}
	}
}
