// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	faults "github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestInProcess runs the port's promises over the code and the simulator.
func TestInProcess(t *testing.T) { conformance.SendingInProcess(t, plugin(), newSuite) }

// TestOnADayLikeThis: the same where numbers are strings and lists come in an
// envelope.
func TestOnADayLikeThis(t *testing.T) {
	conformance.SendingInProcess(t, plugin(), func(t testing.TB, platform func(sdk.Connection) sdk.SendingPlatform) contract.SendingWorld {
		w := newWorld(t)
		w.Control(t, http.MethodPut, "/quirks", map[string]bool{"numbers_as_strings": true, "envelope": true}, nil)
		return w.suite(t, platform)
	})
}

// TestBinary runs every suite over the plugin as it is built.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-smartlead")
	conformance.Sending(t, conformance.Binary{Path: path}, newSuite)
}

// TestWorkspaces: without one the key's user stands for it, once an account tells
// who that is; a client of an agency can be chosen.
func TestWorkspaces(t *testing.T) {
	w := newWorld(t)
	check := func(given, id, name string) {
		t.Helper()
		reach, err := w.at(given).Check(t.Context())
		if want := (sdk.Workspace{ID: id, Name: name}); err != nil || reach.Roaming || len(reach.Workspaces) != 1 || reach.Workspaces[0] != want {
			t.Errorf("%q: %+v, %v", given, reach, err)
		}
	}
	check("", "", "")
	check("user:4001", "user:4001", "")
	w.put(t, connected("anna@a.example"))
	check("", "user:4001", "")
	check("user:4001", "user:4001", "")
	check("user:1", "user:4001", "")
	w.Control(t, http.MethodPut, "/clients", []map[string]any{{"id": 7, "name": "Ann & Co"}}, nil)
	w.Control(t, http.MethodPut, "/accounts/bob@a.example", map[string]any{"client_id": 7}, nil)
	check("7", "7", "Ann & Co")
	if _, err := w.at("8").Check(t.Context()); !errors.Is(err, faults.InvalidRequest) {
		t.Errorf("a client that is not there: %v", err)
	}
	page, err := w.at("7").Accounts(t.Context(), "")
	if err != nil || len(page.Accounts) != 1 || page.Accounts[0].Address != "bob@a.example" {
		t.Errorf("the client's accounts: %+v, %v", page, err)
	}
	if a, err := w.at("7").Account(t.Context(), "anna@a.example"); err != nil || a.There() {
		t.Errorf("another's account: %+v, %v", a, err)
	}
	if page, err := w.at("user:4001").Accounts(t.Context(), ""); err != nil || len(page.Accounts) != 2 {
		t.Errorf("all accounts: %+v, %v", page, err)
	}
}

// TestAnAccountHasTwoNames: what it sends from and what it signs in by.
func TestAnAccountHasTwoNames(t *testing.T) {
	w := newWorld(t)
	w.Control(t, http.MethodPut, "/accounts/sales@a.example", map[string]any{"username": "anna@a.example", "type": "SMTP"}, nil)
	p := w.at("")
	for _, address := range []string{"sales@a.example", "Anna@a.example"} {
		if a, err := p.Account(t.Context(), address); err != nil || !strings.EqualFold(a.Address, address) || a.State != sdk.AccountOther {
			t.Errorf("%s: %+v, %v", address, a, err)
		}
	}
	w.put(t, connected("anna@a.example"))
	if a, err := p.Account(t.Context(), "anna@a.example"); err != nil || a.State != sdk.AccountConnected {
		t.Errorf("Microsoft's is not preferred: %+v, %v", a, err)
	}
}

// TestAListThatMoves: an account that is taken out while the pages are read never
// makes another one slip by. New ones do no harm.
func TestAListThatMoves(t *testing.T) {
	for gone, want := range map[int]outcome.Kind{0: 0, 3: 0, 10: outcome.Broken} {
		w := newWorld(t)
		var all []sdk.Account
		for i := range 220 {
			all = append(all, connected(fmt.Sprintf("user%03d@a.example", i)))
		}
		w.put(t, all...)
		p := w.at("")
		first, err := p.Accounts(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range gone {
			w.Control(t, http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", i), nil, nil)
		}
		w.put(t, connected("new@a.example"))
		seen := map[string]bool{}
		page := first
		for {
			for _, a := range page.Accounts {
				seen[a.Address] = true
			}
			if page.Next == "" {
				break
			}
			if page, err = p.Accounts(t.Context(), page.Next); err != nil {
				break
			}
		}
		if outcome.Of(err) != want || want == 0 && (err != nil || len(seen) != 221) {
			t.Errorf("%d were taken out: %v, %d seen", gone, err, len(seen))
		}
	}
	for _, cursor := range []string{"x", "-1:5", "5", "5:"} {
		if _, err := newWorld(t).at("").Accounts(t.Context(), cursor); outcome.Of(err) != outcome.Refused {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// TestCallsOfAListing: 3,600 accounts are read in at most 40 calls.
func TestCallsOfAListing(t *testing.T) {
	const accounts, most = 3600, 40
	if calls := 1 + (accounts-pageSize+pageSize-overlap-1)/(pageSize-overlap); calls > most {
		t.Errorf("%d calls", calls)
	}
	w := newWorld(t)
	var all []sdk.Account
	for i := range 250 {
		all = append(all, connected(fmt.Sprintf("user%03d@a.example", i)))
	}
	w.put(t, all...)
	before, cursor, n := w.Calls.Load(), "", int64(0)
	for {
		page, err := w.at("").Accounts(t.Context(), cursor)
		if err != nil {
			t.Fatal(err)
		}
		if n++; page.Next == "" {
			break
		}
		cursor = page.Next
	}
	if calls := w.Calls.Load() - before; n != 3 || calls != 3 {
		t.Errorf("%d pages in %d calls", n, calls)
	}
}

// TestBudgetsAreWithinThePlan: what we allow ourselves the smallest plan allows.
func TestBudgetsAreWithinThePlan(t *testing.T) {
	plan := map[time.Duration]int{time.Second: 10, time.Minute: 60, time.Hour: 1000}
	for _, b := range description().Budgets {
		if b.Key != "credential" || b.Limit >= plan[b.Window] {
			t.Errorf("%+v", b)
		}
		delete(plan, b.Window)
	}
	if len(plan) > 0 {
		t.Errorf("nothing counts in %v", plan)
	}
}
