// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

// instance is a simulated instance of EmailBison.
type instance struct {
	*conformance.SendingTest
	t conformance.T
}

func newInstance(t conformance.T) instance {
	return instance{conformance.SimulateSending(t, simulator.New, newProcessState().newPlatform), t}
}

func (env instance) setQuirks(q map[string]bool) { env.Send(http.MethodPut, "/quirks", q) }

// platformFor returns the platform for a token. workspace is the setting workspace_id, or "" for a
// connection without this setting.
func (env instance) platformFor(token, workspace string) sdk.SendingPlatform {
	return env.With(map[string]string{"instance_url": env.URL, "workspace_id": workspace, "api_key": token})
}

func (env instance) putAccounts(addresses ...string) {
	for _, a := range addresses {
		env.Put(a, map[string]any{"status": "connected "})
	}
}

// createSuperAdmin creates the token superAdminToken and a number of workspaces.
func (env instance) createSuperAdmin(workspaces int) {
	created := []map[string]any{}
	for n := range workspaces {
		created = append(created, map[string]any{"id": n + 1, "name": fmt.Sprint("W", n+1)})
	}
	env.Send(http.MethodPut, "/workspaces", created)
	env.Send(http.MethodPut, "/tokens", map[string]string{"token": superAdminToken, "type": "super-admin"})
}

// TestCheckWhenTheInstanceHidesWorkspaces covers instances that hide the list of workspaces, the
// workspace of the user, or both.
func TestCheckWhenTheInstanceHidesWorkspaces(t *testing.T) {
	env := newInstance(t)
	for _, tc := range []struct {
		quirks      map[string]bool
		workspaceID string
		want        sdk.Workspace
	}{
		{map[string]bool{}, "", sdk.Workspace{ID: "1", Name: "Simulated"}},
		{map[string]bool{}, "7", sdk.Workspace{ID: "1", Name: "Simulated"}}, // the host compares this id with workspace_id
		{map[string]bool{"hide_own": true}, "", sdk.Workspace{ID: "1", Name: "Simulated"}},
		{map[string]bool{"hide_list": true}, "", sdk.Workspace{ID: "1", Name: "Simulated"}},
		{map[string]bool{"hide_list": true, "hide_own": true}, "", sdk.Workspace{}},
	} {
		env.setQuirks(tc.quirks)
		reach, err := env.platformFor(simulator.Token, tc.workspaceID).Check(t.Context())
		if err != nil || reach.SelectedWorkspaceOnly || len(reach.Workspaces) != 1 || reach.Workspaces[0] != tc.want {
			t.Errorf("%v, workspace_id %q: %+v, %v, want only %+v", tc.quirks, tc.workspaceID, reach, err, tc.want)
		}
	}
	if _, err := env.platformFor(simulator.Token, "1").Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
		t.Errorf("while the list and the own workspace are hidden, a workspace_id: %v, want invalid_request", err)
	}
}

// TestSuperAdminTokenUsesTheSelectedWorkspace checks that Check sets SelectedWorkspaceOnly for a
// super-admin token with several workspaces, and that Check and Account do not select a workspace.
func TestSuperAdminTokenUsesTheSelectedWorkspace(t *testing.T) {
	env := newInstance(t)
	env.createSuperAdmin(20) // more than the 15 workspaces of one page
	platform := env.platformFor(superAdminToken, "")
	reach, err := platform.Check(t.Context())
	if err != nil || !reach.SelectedWorkspaceOnly || len(reach.Workspaces) != 20 || reach.Workspaces[19].Name != "W20" {
		t.Fatalf("got %+v, %v, want 20 workspaces, and SelectedWorkspaceOnly", reach, err)
	}
	env.putAccounts("anna@a.example")
	if a, err := platform.Account(t.Context(), "anna@a.example"); err != nil || !a.Exists() {
		t.Fatalf("the account in the selected workspace: %+v, %v, want it to exist", a, err)
	}
	env.selectWorkspace(2)
	if a, err := platform.Account(t.Context(), "anna@a.example"); err != nil || a.Exists() {
		t.Fatalf("after a different workspace was selected: %+v, %v, want no account", a, err)
	}
	writes := 0
	for _, request := range env.Requests() {
		if request.Write {
			writes++
		}
	}
	if writes != 1 {
		t.Errorf("%d write calls, want only the call of this test", writes)
	}
}

// selectWorkspace selects the workspace that super-admin tokens use.
func (env instance) selectWorkspace(id int) {
	env.t.Helper()
	if status := env.rawStatus(http.MethodPost, "/workspaces/v1.1/switch-workspace", superAdminToken, fmt.Sprintf(`{"team_id":%d}`, id)); status != http.StatusOK {
		env.t.Fatalf("selecting a workspace answers %d, want 200", status)
	}
}

// TestCallsInADifferentWorkspaceAreRefused checks that no call with a super-admin token reads or
// removes an account after somebody has selected a different workspace at the instance. Otherwise
// the host would conclude that every account was removed.
func TestCallsInADifferentWorkspaceAreRefused(t *testing.T) {
	env := newInstance(t)
	env.createSuperAdmin(2)
	platform := env.platformFor(superAdminToken, "1")
	env.putAccounts("anna@a.example")
	anna, err := platform.Account(t.Context(), "anna@a.example")
	if err != nil || !anna.Exists() {
		t.Fatalf("in the expected workspace: %+v, %v, want anna", anna, err)
	}
	env.selectWorkspace(2)
	_, accountErr := platform.Account(t.Context(), "anna@a.example")
	_, accountsErr := platform.Accounts(t.Context(), "")
	for call, err := range map[string]error{"account": accountErr, "accounts": accountsErr, "remove": platform.Remove(t.Context(), anna.ID)} {
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Code.Name != "access_denied" {
			t.Errorf("%s in a different workspace: %v, want refused with access_denied", call, err)
		}
	}
	env.selectWorkspace(1)
	if err := platform.Remove(t.Context(), anna.ID); err != nil || len(env.Held("")) != 0 {
		t.Errorf("removing the account in the expected workspace: %v, %d accounts are left, want none", err, len(env.Held("")))
	}
}

// TestListingFailsWhenTheWorkspaceChanges selects a different workspace with equally many accounts
// during a listing.
func TestListingFailsWhenTheWorkspaceChanges(t *testing.T) {
	env := newInstance(t)
	env.createSuperAdmin(2)
	for workspace := 1; workspace <= 2; workspace++ {
		for n := range 20 {
			env.Put(fmt.Sprintf("user%03d@w%d.example", n, workspace), map[string]any{"workspace_id": workspace})
		}
	}
	platform := env.platformFor(superAdminToken, "1")
	firstPage, err := platform.Accounts(t.Context(), "")
	if err != nil || firstPage.Next == "" {
		t.Fatalf("the first page: %+v, %v, want a page that another page follows", firstPage, err)
	}
	env.selectWorkspace(2)
	if page, err := platform.Accounts(t.Context(), firstPage.Next); sdk.OutcomeOf(err).Kind != sdk.Refused {
		t.Errorf("the last page: %+v, %v, want refused", page, err)
	}
}

// rawStatus sends a request directly to the simulator and returns the status.
func (env instance) rawStatus(method, path, token, body string) int {
	env.t.Helper()
	req, err := http.NewRequest(method, env.URL+"/api"+path, strings.NewReader(body))
	if err != nil {
		env.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		env.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestPluginCallsOnlyReadsAndDelete checks that the plugin neither selects a workspace nor requests
// the token of a mailbox.
func TestPluginCallsOnlyReadsAndDelete(t *testing.T) {
	env := newInstance(t)
	env.putAccounts("anna@a.example")
	platform := env.platformFor(simulator.Token, "")
	if _, err := platform.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := platform.Accounts(t.Context(), "")
	if err != nil || len(page.Accounts) != 1 {
		t.Fatalf("the list is %+v, %v, want one account", page, err)
	}
	found, err := platform.Account(t.Context(), "anna@a.example")
	if err != nil || found != page.Accounts[0] {
		t.Fatalf("the account is %+v, %v, want it as it is listed: %+v", found, err, page.Accounts)
	}
	if err := platform.Remove(t.Context(), found.ID); err != nil {
		t.Fatal(err)
	}
	calls := env.Requests()
	for n, want := range []string{"user", "listWorkspaces", "listSenders", "listSenders", "deleteSender"} {
		if n >= len(calls) || calls[n].Operation != want {
			t.Fatalf("call %d is not %s, the calls are %+v", n, want, calls)
		}
	}
	if len(calls) != 5 {
		t.Errorf("%d calls, want 5", len(calls))
	}
}

// TestListingAndSearchWithIgnoredParameters covers instances that ignore per_page or search.
func TestListingAndSearchWithIgnoredParameters(t *testing.T) {
	env := newInstance(t)
	var addresses []string
	for n := range 130 {
		addresses = append(addresses, fmt.Sprintf("user%03d@a.example", n))
	}
	env.putAccounts(addresses...)
	platform := env.platformFor(simulator.Token, "")
	for _, tc := range []struct {
		honored bool
		calls   int64
	}{{false, 9}, {true, 2}} { // 130 accounts on pages of 15, or on pages of 100
		env.setQuirks(map[string]bool{"honour_per_page": tc.honored})
		before, listedIDs := env.Calls.Load(), map[string]bool{}
		accounts, _, err := env.List(platform)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range accounts {
			listedIDs[a.ID] = true
		}
		if calls := env.Calls.Load() - before; calls != tc.calls || len(listedIDs) != 130 {
			t.Errorf("per_page honored %v: %d calls, want %d; %d accounts, want 130", tc.honored, calls, tc.calls, len(listedIDs))
		}
	}
	env.setQuirks(map[string]bool{"ignore_search": true})
	if a, err := platform.Account(t.Context(), "USER129@a.example"); err != nil || a.Address != "user129@a.example" {
		t.Errorf("an account on the last page, if the instance ignores the search: %+v, %v, want user129", a, err)
	}
	for n := range 30 {
		env.putAccounts(fmt.Sprintf("more%03d@a.example", n))
	}
	if _, err := platform.Account(t.Context(), "nobody@a.example"); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("an unknown address, if the instance ignores the search and has too many pages: %v, want broken", err)
	}
}

// TestBudgetCountsNoMoreRequestsThanAListingMakes lists the accounts of a workspace. A budget that
// counted more requests would slow down every listing.
func TestBudgetCountsNoMoreRequestsThanAListingMakes(t *testing.T) {
	env := newInstance(t)
	for n := range 130 {
		env.putAccounts(fmt.Sprintf("user%03d@a.example", n))
	}
	before := env.Calls.Load()
	_, pages, err := env.List(env.platformFor(simulator.Token, "1"))
	requests := int(env.Calls.Load() - before)
	cost := max(1, description().Budgets[0].Costs["accounts"])
	const workspaceChecks = 2 // after the first page and after the last page
	if err != nil || requests != pages+workspaceChecks || cost*pages > requests {
		t.Errorf("%d pages, %d requests, %v, want %d requests; the budget counts %d for a page, want no more than the requests in all", pages, requests, err, pages+workspaceChecks, cost)
	}
}

// TestPageWithLongSignaturesIsRead reads a page of 100 accounts with long signatures.
func TestPageWithLongSignaturesIsRead(t *testing.T) {
	env := newInstance(t)
	env.setQuirks(map[string]bool{"honour_per_page": true})
	for n := range 100 {
		env.Put(fmt.Sprintf("user%03d@a.example", n), map[string]any{"email_signature": strings.Repeat("<p>Kind regards</p>", 1024)})
	}
	if accounts, pages, err := env.List(env.platformFor(simulator.Token, "")); err != nil || len(accounts) != 100 || pages != 1 {
		t.Errorf("%d accounts on %d pages, %v, want 100 on one page", len(accounts), pages, err)
	}
}

// TestListingWithoutATotalIsBroken reads a list of several pages without the total number of
// accounts, so that Accounts cannot detect a removed account. A list of one page needs no total.
func TestListingWithoutATotalIsBroken(t *testing.T) {
	env := newInstance(t)
	env.setQuirks(map[string]bool{"hide_total": true})
	platform := env.platformFor(simulator.Token, "")
	env.putAccounts("anna@a.example")
	if accounts, _, err := env.List(platform); err != nil || len(accounts) != 1 {
		t.Errorf("one page: %+v, %v, want one account", accounts, err)
	}
	for n := range 15 {
		env.putAccounts(fmt.Sprintf("user%03d@a.example", n))
	}
	if page, err := platform.Accounts(t.Context(), ""); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("the first of two pages: %+v, %v, want broken", page, err)
	}
}

// TestListingFailsWhenAccountsWereRemoved removes accounts during a listing, so that a different
// account moves to a page that was already read. The listing must fail, because it would not
// contain that account.
func TestListingFailsWhenAccountsWereRemoved(t *testing.T) {
	env := newInstance(t)
	for n := range 40 {
		env.putAccounts(fmt.Sprintf("user%03d@a.example", n))
	}
	platform := env.platformFor(simulator.Token, "")
	firstPage, err := platform.Accounts(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	env.putAccounts("new@a.example")
	if _, err := platform.Accounts(t.Context(), firstPage.Next); err != nil {
		t.Errorf("after an account was added: %v, want no error", err)
	}
	for n := range 2 {
		env.Send(http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", n), nil)
	}
	if page, err := platform.Accounts(t.Context(), firstPage.Next); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("the next page after removals: %+v, %v, want broken", page, err)
	}
	for _, cursor := range []string{"x", "0:1", "-1:1", "2"} {
		if _, err := platform.Accounts(t.Context(), cursor); sdk.OutcomeOf(err).Kind != sdk.Refused {
			t.Errorf("cursor %q: %v, want refused", cursor, err)
		}
	}
}

func TestAccountStateOfEachStatus(t *testing.T) {
	for status, want := range map[string]sdk.AccountState{
		"Connected": sdk.AccountConnected, " CONNECTED ": sdk.AccountConnected,
		"Not connected": sdk.AccountFailed, "not_connected": sdk.AccountFailed, "Disconnected": sdk.AccountFailed,
		"Pending deletion": sdk.AccountOther, "": sdk.AccountOther,
	} {
		converted := account{ID: "1", Email: "a@b.example", Status: text(status)}.toAccount()
		if converted.State != want || converted.HasError != (want == sdk.AccountFailed) || (converted.Reason == "") == converted.HasError {
			t.Errorf("status %q: %+v, want %s, and a reason only if it failed", status, converted, want)
		}
	}
}
