// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestEverySenderIsListedOnceWithEitherMeaningOfSkip checks the senders of a listing and the
// maximum number of calls. If TENANTRY_SOAK is not set, lists of more than 200 senders are
// shortened by 200.
func TestEverySenderIsListedOnceWithEitherMeaningOfSkip(t *testing.T) {
	for _, tc := range []struct {
		senders, calls int
		behaviour      jsonObject
	}{
		{0, 1, jsonObject{"skip": "offset"}}, {0, 1, jsonObject{"skip": "page"}},
		{1, 2, jsonObject{"skip": "offset"}}, {1, 2, jsonObject{"skip": "page"}},
		{2, 2, jsonObject{"skip": "offset"}}, {99, 2, jsonObject{"skip": "offset"}}, {99, 2, jsonObject{"skip": "page"}},
		{100, 2, jsonObject{"skip": "offset"}}, {100, 2, jsonObject{"skip": "page"}},
		{101, 3, jsonObject{"skip": "offset"}}, {101, 3, jsonObject{"skip": "page"}},
		{350, 6, jsonObject{"skip": "offset"}}, {350, 5, jsonObject{"skip": "page"}},
		{50, 2, jsonObject{"skip": "page", "past_end": "repeat"}}, {250, 4, jsonObject{"skip": "page", "past_end": "repeat"}},
		{50, 2, jsonObject{"skip": "ignored"}},
	} {
		if tc.senders > 200 && !soak.Enabled() {
			tc.senders, tc.calls = tc.senders-200, tc.calls-2
		}
		env := newTestEnv(t)
		for i := range tc.senders {
			env.Put(fmt.Sprintf("user%03d@a.example", i), jsonObject{"folder": fmt.Sprint("Folder ", i%3)})
		}
		env.Behave(tc.behaviour)
		accounts, _, err := env.List(env.With(nil))
		listedIDs := map[string]bool{}
		for _, a := range accounts {
			listedIDs[a.ID] = true
		}
		if err != nil || len(accounts) != tc.senders || len(listedIDs) != tc.senders || env.Calls.Load() > int64(tc.calls) {
			t.Errorf("%d senders, %v: %d are listed with %d ids in %d calls, %v, want each once in at most %d calls", tc.senders, tc.behaviour, len(accounts), len(listedIDs), env.Calls.Load(), err, tc.calls)
		}
	}
}

// TestIgnoredSkipBreaksAListingOfSeveralPages covers a platform that ignores skip, and answers
// every request with the same full page. The platform may have more senders than this page, so a
// list of all senders fails.
func TestIgnoredSkipBreaksAListingOfSeveralPages(t *testing.T) {
	env := newTestEnv(t)
	for i := range 130 {
		env.Put(fmt.Sprintf("user%03d@a.example", i), jsonObject{})
	}
	env.Behave(jsonObject{"skip": "ignored", "search": false})
	if accounts, _, err := env.List(env.With(nil)); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("the listing returns %d senders, %v, want broken", len(accounts), err)
	}
	if a, err := env.With(nil).Account(t.Context(), "user129@a.example"); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("a sender after the first page: %+v, %v, want broken", a, err)
	}
	if a, err := env.With(nil).Account(t.Context(), "user007@a.example"); err != nil || !a.Exists() {
		t.Errorf("a sender of the first page: %+v, %v, want it to exist", a, err)
	}
}

func TestMeaningOfSkipIsFoundWhileSendersChange(t *testing.T) {
	page := func(start, end int) (accounts []sdk.Account) {
		for i := start; i < end; i++ {
			accounts = append(accounts, sdk.Account{ID: fmt.Sprint(i)})
		}
		return accounts
	}
	for name, tc := range map[string]struct {
		secondPage []sdk.Account
		means      string
	}{
		"unchanged, by offset": {page(1, 101), skipIsOffset}, "unchanged, by page": {page(100, 200), skipIsPage},
		"three removed, by offset": {page(4, 104), skipIsOffset}, "two added, by page": {page(98, 198), skipIsPage},
	} {
		firstPage, err := cursor{}.page(page(0, 100))
		if err != nil {
			t.Fatal(err)
		}
		var cursorOfSecondPage, cursorOfThirdPage cursor
		if err := json.Unmarshal([]byte(firstPage.Next), &cursorOfSecondPage); err != nil {
			t.Fatal(err)
		}
		result, err := cursorOfSecondPage.page(tc.secondPage)
		if err != nil || json.Unmarshal([]byte(result.Next), &cursorOfThirdPage) != nil || cursorOfThirdPage.SkipMeaning != tc.means {
			t.Errorf("%s: the cursor of the third page is %+v, %v, want the meaning %v", name, cursorOfThirdPage, err, tc.means)
		}
	}
}

// TestRemovalsDuringAListingSkipNoSender removes senders during a listing with skip as an offset.
// With fewer removals than the constant overlap, the listing must skip no sender. Otherwise it must
// fail.
func TestRemovalsDuringAListingSkipNoSender(t *testing.T) {
	const senders = 240
	removals := []int{4, 5}
	if soak.Enabled() {
		removals = []int{1, 4, 5, 120}
	}
	for _, removed := range removals {
		env := newTestEnv(t)
		for i := range senders {
			env.Put(fmt.Sprintf("user%03d@a.example", i), jsonObject{})
		}
		env.Behave(jsonObject{"skip": "offset", "limits": false})
		listedAddresses, broken := map[string]bool{}, false
		for cursor, pagesRead := "", 0; pagesRead == 0 || cursor != ""; pagesRead++ {
			page, err := env.With(nil).Accounts(t.Context(), cursor)
			if broken = err != nil; broken {
				break
			}
			for _, a := range page.Accounts {
				listedAddresses[a.Address] = true
			}
			if cursor = page.Next; pagesRead == 1 {
				for i := range removed {
					env.Send(http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", i), nil)
				}
			}
		}
		for i := removed; i < senders && !broken; i++ {
			if !listedAddresses[fmt.Sprintf("user%03d@a.example", i)] {
				t.Errorf("after %d removals sender %d is not listed, want every remaining sender", removed, i)
			}
		}
		if broken != (removed >= overlap) {
			t.Errorf("after %d removals the listing is broken: %v, want broken from %d removals", removed, broken, overlap)
		}
	}
}

func TestInvalidCursorsAreRefused(t *testing.T) {
	env := newTestEnv(t)
	for _, cursor := range []string{"x", "{}", `{"skip": -1}`, "null"} {
		if _, err := env.With(nil).Accounts(t.Context(), cursor); sdk.OutcomeOf(err).Kind != sdk.Refused {
			t.Errorf("cursor %q: %v, want refused", cursor, err)
		}
	}
}
