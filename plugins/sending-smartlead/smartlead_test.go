// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-smartlead/simulator"
)

// TestContract runs the contract suite of a sending platform with the plugin's code and the
// simulator.
func TestContract(t *testing.T) {
	conformance.SendingInProcess(t, plugin(), fixtureWithQuirks(jsonObject{}))
}

// TestContractWithStringsAndEnvelopes runs the contract suite with numbers as strings and lists in
// an envelope.
func TestContractWithStringsAndEnvelopes(t *testing.T) {
	conformance.SendingInProcess(t, plugin(), fixtureWithQuirks(jsonObject{"numbers_as_strings": true, "envelope": true}))
}

// TestBinary runs the conformance suites with the plugin's release binary.
func TestBinary(t *testing.T) {
	path := testserver.Program(t, "release/plugins/sending-smartlead")
	conformance.Sending(t, conformance.Binary{Path: path}, fixtureWithQuirks(jsonObject{}))
}

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}

// TestWorkspaceIsTheUserOrTheConfiguredClient checks the workspace that Check returns. The plugin
// can read the user of the key only if there is an account.
func TestWorkspaceIsTheUserOrTheConfiguredClient(t *testing.T) {
	env := newTestEnv(t)
	requireWorkspace := func(configured, id, name string) {
		t.Helper()
		reach, err := env.platformFor(configured).Check(t.Context())
		if want := (sdk.Workspace{ID: id, Name: name}); err != nil || reach.SelectedWorkspaceOnly || len(reach.Workspaces) != 1 || reach.Workspaces[0] != want {
			t.Errorf("workspace_id %q: %+v, %v, want %+v", configured, reach, err, want)
		}
	}
	requireWorkspace("", "", "")
	requireWorkspace("user:4001", "user:4001", "")
	env.createConnected("anna@a.example")
	requireWorkspace("", "user:4001", "")
	requireWorkspace("user:4001", "user:4001", "")
	requireWorkspace("user:1", "user:4001", "")
	env.Send(http.MethodPut, "/clients", []jsonObject{{"id": 7, "name": "Ann & Co"}})
	env.Send(http.MethodPut, "/accounts/bob@a.example", jsonObject{"client_id": 7})
	requireWorkspace("7", "7", "Ann & Co")
	if _, err := env.platformFor("8").Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
		t.Errorf("an unknown client: %v, want invalid_request", err)
	}
	page, err := env.platformFor("7").Accounts(t.Context(), "")
	if err != nil || len(page.Accounts) != 1 || page.Accounts[0].Address != "bob@a.example" {
		t.Errorf("the client's accounts: %+v, %v, want only bob@a.example", page, err)
	}
	if a, err := env.platformFor("7").Account(t.Context(), "anna@a.example"); err != nil || a.Exists() {
		t.Errorf("the account of a different client: %+v, %v, want none", a, err)
	}
	if page, err := env.platformFor("user:4001").Accounts(t.Context(), ""); err != nil || len(page.Accounts) != 2 {
		t.Errorf("the accounts of the user: %+v, %v, want two", page, err)
	}
}

// TestAccountIsFoundBySenderAddressAndByUserName checks both addresses of an account, and that
// Account prefers an account that is connected through Microsoft.
func TestAccountIsFoundBySenderAddressAndByUserName(t *testing.T) {
	env := newTestEnv(t)
	env.Send(http.MethodPut, "/accounts/sales@a.example", jsonObject{"username": "anna@a.example", "type": "SMTP"})
	platform := env.platformFor("")
	for _, address := range []string{"sales@a.example", "Anna@a.example"} {
		if a, err := platform.Account(t.Context(), address); err != nil || !strings.EqualFold(a.Address, address) || a.State != sdk.AccountOther {
			t.Errorf("%s: %+v, %v, want an account in the state other", address, a, err)
		}
	}
	env.createConnected("anna@a.example")
	if a, err := platform.Account(t.Context(), "anna@a.example"); err != nil || a.State != sdk.AccountConnected {
		t.Errorf("anna@a.example: %+v, %v, want the account that is connected through Microsoft", a, err)
	}
}

// TestRemovalsDuringAListingSkipNoAccount removes accounts during a listing. With fewer removals
// than the constant overlap, the listing must skip no account. Otherwise it must fail. The listing
// must contain an account that is created during the listing.
func TestRemovalsDuringAListingSkipNoAccount(t *testing.T) {
	for removed, want := range map[int]sdk.OutcomeKind{0: 0, 3: 0, 10: sdk.Broken} {
		env := newTestEnv(t)
		var addresses []string
		for i := range 220 {
			addresses = append(addresses, fmt.Sprintf("user%03d@a.example", i))
		}
		env.createConnected(addresses...)
		platform := env.platformFor("")
		firstPage, err := platform.Accounts(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range removed {
			env.Send(http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", i), nil)
		}
		env.createConnected("new@a.example")
		listedAddresses := map[string]bool{}
		page := firstPage
		for {
			for _, a := range page.Accounts {
				listedAddresses[a.Address] = true
			}
			if page.Next == "" {
				break
			}
			if page, err = platform.Accounts(t.Context(), page.Next); err != nil {
				break
			}
		}
		if sdk.OutcomeOf(err).Kind != want || want == 0 && (err != nil || len(listedAddresses) != 221) {
			t.Errorf("after %d removals: %v and %d listed addresses, want the outcome %s, or 221 addresses for 0", removed, err, len(listedAddresses), want)
		}
	}
	for _, cursor := range []string{"x", "-1:5", "5", "5:"} {
		if _, err := newTestEnv(t).platformFor("").Accounts(t.Context(), cursor); sdk.OutcomeOf(err).Kind != sdk.Refused {
			t.Errorf("cursor %q: %v, want refused", cursor, err)
		}
	}
}

// TestListingOf3600AccountsNeedsAtMost40Calls computes the number of calls for 3,600 accounts, and
// counts the calls for a shorter list.
func TestListingOf3600AccountsNeedsAtMost40Calls(t *testing.T) {
	const accounts, maxCalls = 3600, 40
	if calls := 1 + (accounts-pageSize+pageSize-overlap-1)/(pageSize-overlap); calls > maxCalls {
		t.Errorf("3,600 accounts need %d calls, want at most %d", calls, maxCalls)
	}
	env := newTestEnv(t)
	var addresses []string
	for i := range 250 {
		addresses = append(addresses, fmt.Sprintf("user%03d@a.example", i))
	}
	env.createConnected(addresses...)
	before := env.Calls.Load()
	_, pages, err := env.List(env.With())
	if err != nil {
		t.Fatal(err)
	}
	if calls := env.Calls.Load() - before; pages != 3 || calls != 3 {
		t.Errorf("250 accounts are on %d pages in %d calls, want 3 in 3", pages, calls)
	}
}

// TestBudgetsAreBelowTheSmallestPlan compares the description with the limits of Smartlead's
// smallest plan.
func TestBudgetsAreBelowTheSmallestPlan(t *testing.T) {
	plan := map[time.Duration]int{time.Second: 10, time.Minute: 60, time.Hour: 1000}
	for _, budget := range description().Budgets {
		if budget.Key != "credential" || budget.Limit >= plan[budget.Window] {
			t.Errorf("the budget %+v is not below the limit of %d calls", budget, plan[budget.Window])
		}
		delete(plan, budget.Window)
	}
	if len(plan) > 0 {
		t.Errorf("no budget covers the limits %v (calls by window)", plan)
	}
}
