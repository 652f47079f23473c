// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-emailbison/simulator"
)

// instance is one at the simulator.
type instance struct {
	*conformance.Simulator
	t testing.TB
}

func newInstance(t testing.TB) instance { return instance{conformance.Simulate(t, simulator.New), t} }

func (i instance) quirks(q map[string]bool) { i.Control(i.t, http.MethodPut, "/quirks", q, nil) }

// with is the plugin with a token, for a workspace unless that is "".
func (i instance) with(token, workspace string) sdk.SendingPlatform {
	i.t.Helper()
	p, err := newHouse().platform(i.Connection(map[string]string{"instance_url": i.URL, "workspace_id": workspace}, map[string]string{"api_key": token}))
	if err != nil {
		i.t.Fatal(err)
	}
	return p
}

func (i instance) put(addresses ...string) {
	for _, a := range addresses {
		i.Control(i.t, http.MethodPut, "/accounts/"+a, map[string]string{"status": "connected "}, nil)
	}
}

// calls are what the instance was asked.
func (i instance) calls() (all []simulate.Entry) {
	i.Control(i.t, http.MethodGet, "/calls", nil, &all)
	return all
}

func outcomeOf(err error) *sdk.Outcome {
	o := &sdk.Outcome{}
	errors.As(err, &o)
	return o
}

// TestWorkspaces: a token of one workspace reaches that one, however little the
// instance says.
func TestWorkspaces(t *testing.T) {
	i := newInstance(t)
	for _, tt := range []struct {
		quirks map[string]bool
		given  string
		want   sdk.Workspace
	}{
		{map[string]bool{}, "", sdk.Workspace{ID: "1", Name: "Simulated"}},
		{map[string]bool{}, "7", sdk.Workspace{ID: "1", Name: "Simulated"}}, // the host sees that it is another
		{map[string]bool{"hide_own": true}, "", sdk.Workspace{ID: "1", Name: "Simulated"}},
		{map[string]bool{"hide_list": true}, "", sdk.Workspace{ID: "1", Name: "Simulated"}},
		{map[string]bool{"hide_list": true, "hide_own": true}, "", sdk.Workspace{}},
	} {
		i.quirks(tt.quirks)
		reach, err := i.with(simulator.Token, tt.given).Check(t.Context())
		if err != nil || reach.Roaming || len(reach.Workspaces) != 1 || reach.Workspaces[0] != tt.want {
			t.Errorf("%v %q: %+v, %v", tt.quirks, tt.given, reach, err)
		}
	}
	if _, err := i.with(simulator.Token, "1").Check(t.Context()); outcomeOf(err).Code.Name != "invalid_request" {
		t.Errorf("a workspace that nobody can look at: %v", err)
	}
}

// TestATokenThatRoams: a super-admin's acts in whichever workspace was selected
// last, by whomever, so it is told apart and every workspace is listed.
func TestATokenThatRoams(t *testing.T) {
	i := newInstance(t)
	all := []map[string]any{}
	for n := range 20 {
		all = append(all, map[string]any{"id": n + 1, "name": fmt.Sprint("W", n+1)})
	}
	i.Control(t, http.MethodPut, "/workspaces", all, nil)
	i.Control(t, http.MethodPut, "/tokens", map[string]string{"token": super, "type": "super-admin"}, nil)
	p := i.with(super, "")
	reach, err := p.Check(t.Context())
	if err != nil || !reach.Roaming || len(reach.Workspaces) != 20 || reach.Workspaces[19].Name != "W20" {
		t.Fatalf("%+v, %v", reach, err)
	}
	i.put("anna@a.example")
	if a, err := p.Account(t.Context(), "anna@a.example"); err != nil || !a.There() {
		t.Fatalf("in the selected workspace: %+v, %v", a, err)
	}
	if status := i.raw(http.MethodPost, "/workspaces/v1.1/switch-workspace", super, `{"team_id":2}`); status != http.StatusOK {
		t.Fatalf("switch: %d", status)
	}
	if a, err := p.Account(t.Context(), "anna@a.example"); err != nil || a.There() {
		t.Fatalf("after somebody selected another: %+v, %v", a, err)
	}
	switched := 0
	for _, c := range i.calls() {
		if c.Write {
			switched++
		}
	}
	if switched != 1 {
		t.Errorf("%d calls change something, one of them ours", switched)
	}
}

// raw is a call of somebody else's.
func (i instance) raw(method, path, token, body string) int {
	i.t.Helper()
	req, err := http.NewRequest(method, i.URL+"/api"+path, strings.NewReader(body))
	if err != nil {
		i.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		i.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestThePluginOnlyReadsAndDeletes: no call selects a workspace or asks for a
// mailbox's own token.
func TestThePluginOnlyReadsAndDeletes(t *testing.T) {
	i := newInstance(t)
	i.put("anna@a.example")
	p := i.with(simulator.Token, "")
	if _, err := p.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := p.Accounts(t.Context(), "")
	if err != nil || len(page.Accounts) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	a, err := p.Account(t.Context(), "anna@a.example")
	if err != nil || a != page.Accounts[0] {
		t.Fatalf("%+v, listed as %+v, %v", a, page.Accounts, err)
	}
	if err := p.Remove(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	calls := i.calls()
	for n, want := range []string{"user", "listWorkspaces", "listSenders", "listSenders", "deleteSender"} {
		if n >= len(calls) || calls[n].Operation != want {
			t.Fatalf("call %d is not %s: %+v", n, want, calls)
		}
	}
	if len(calls) != 5 {
		t.Errorf("%d calls", len(calls))
	}
}

// TestPages: whatever size they have, and whether or not search finds anything.
func TestPages(t *testing.T) {
	i := newInstance(t)
	var addresses []string
	for n := range 130 {
		addresses = append(addresses, fmt.Sprintf("user%03d@a.example", n))
	}
	i.put(addresses...)
	p := i.with(simulator.Token, "")
	for _, tt := range []struct {
		honoured bool
		calls    int64
	}{{false, 9}, {true, 2}} {
		i.quirks(map[string]bool{"honour_per_page": tt.honoured})
		before, seen, cursor := i.Calls.Load(), map[string]bool{}, ""
		for {
			page, err := p.Accounts(t.Context(), cursor)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range page.Accounts {
				seen[a.ID] = true
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if calls := i.Calls.Load() - before; calls != tt.calls || len(seen) != 130 {
			t.Errorf("per_page honoured %v: %d calls, %d accounts", tt.honoured, calls, len(seen))
		}
	}
	i.quirks(map[string]bool{"ignore_search": true})
	if a, err := p.Account(t.Context(), "USER129@a.example"); err != nil || a.Address != "user129@a.example" {
		t.Errorf("on the last page of a search that finds everybody: %+v, %v", a, err)
	}
	for n := range 30 {
		i.put(fmt.Sprintf("more%03d@a.example", n))
	}
	if _, err := p.Account(t.Context(), "nobody@a.example"); outcomeOf(err).Kind != sdk.Broken {
		t.Errorf("too many to say that somebody is not there: %v", err)
	}
}

// TestAListThatShrinks: an account that is taken out moves another one to a page
// that was read before, and that one must not pass for gone.
func TestAListThatShrinks(t *testing.T) {
	i := newInstance(t)
	for n := range 40 {
		i.put(fmt.Sprintf("user%03d@a.example", n))
	}
	p := i.with(simulator.Token, "")
	first, err := p.Accounts(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	i.put("new@a.example")
	if _, err := p.Accounts(t.Context(), first.Next); err != nil {
		t.Errorf("a new one does harm: %v", err)
	}
	for n := range 2 {
		i.Control(t, http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", n), nil, nil)
	}
	if page, err := p.Accounts(t.Context(), first.Next); outcomeOf(err).Kind != sdk.Broken {
		t.Errorf("%+v, %v", page, err)
	}
	for _, cursor := range []string{"x", "0:1", "-1:1", "2"} {
		if _, err := p.Accounts(t.Context(), cursor); outcomeOf(err).Kind != sdk.Refused {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

func TestStates(t *testing.T) {
	for status, want := range map[string]sdk.AccountState{
		"Connected": sdk.AccountConnected, " CONNECTED ": sdk.AccountConnected,
		"Not connected": sdk.AccountFailed, "not_connected": sdk.AccountFailed, "Disconnected": sdk.AccountFailed,
		"Pending deletion": sdk.AccountOther, "": sdk.AccountOther,
	} {
		a := account{ID: "1", Email: "a@b.example", Status: text(status)}.told()
		if a.State != want || a.HasError != (want == sdk.AccountFailed) || (a.Reason == "") == a.HasError {
			t.Errorf("%q: %+v", status, a)
		}
	}
}
