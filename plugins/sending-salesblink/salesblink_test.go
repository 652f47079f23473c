// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestCheckOfOwnersAndMembers checks the keys of users with the role owner and with other roles.
// Only a key of an owner lists its workspaces. Any other key is valid if it can list the senders of
// the configured workspace or of its default workspace.
func TestCheckOfOwnersAndMembers(t *testing.T) {
	env := newTestEnv(t)
	ids := env.createKey("key-owner", "owner", 3)
	if reach, err := env.With(texts{"api_key": "key-owner"}).Check(t.Context()); err != nil || len(reach.Workspaces) != 3 || reach.Workspaces[1].ID != ids[1] || reach.SelectedWorkspaceOnly {
		t.Errorf("the key of an owner: %+v, %v, want three workspaces", reach, err)
	}
	ids = env.createKey("key-member", "member", 2)
	for _, workspace := range []string{"", ids[1]} {
		reach, err := env.With(texts{"api_key": "key-member", "workspace_id": workspace}).Check(t.Context())
		if err != nil || !slices.Equal(reach.Workspaces, []sdk.Workspace{{ID: workspace}}) {
			t.Errorf("the key of a member with the workspace %q: %+v, %v, want only this id", workspace, reach, err)
		}
	}
	if _, err := env.With(texts{"api_key": "key-member", "workspace_id": "another"}).Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Refused {
		t.Errorf("the key of a member with a workspace to which it has no access: %v, want refused", err)
	}
	if _, err := env.With(texts{"api_key": "Bearer"}).Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "access_denied" {
		t.Errorf("a bad key: %v, want access_denied", err)
	}
}

func TestCallsAreLimitedToTheWorkspace(t *testing.T) {
	env := newTestEnv(t)
	ids := env.createKey("key-owner", "owner", 2)
	for i, workspace := range []string{ids[0], ids[1], ""} {
		platform, address := env.With(texts{"api_key": "key-owner", "workspace_id": workspace}), fmt.Sprintf("anna%d@a.example", i)
		session, err := platform.StartSignIn(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		env.Decide(session.URL, address, "accept")
		if a, err := platform.Account(t.Context(), address); err != nil || !a.Exists() {
			t.Errorf("the account in its workspace %q: %+v, %v, want it to exist", workspace, a, err)
		}
		inOtherWorkspace := env.With(texts{"api_key": "key-owner", "workspace_id": ids[(i+1)%2]})
		if a, err := inOtherWorkspace.Account(t.Context(), address); err != nil || a.Exists() {
			t.Errorf("the account of %q in a different workspace: %+v, %v, want none", workspace, a, err)
		}
	}
}

// TestRefusalsWithASuccessStatusAreRefusals covers refusals with status 200 and refusals with an
// error status.
func TestRefusalsWithASuccessStatusAreRefusals(t *testing.T) {
	env := newTestEnv(t)
	platform := env.With(texts{"workspace_id": "5b1e0000-0000-4000-8000-00000000ffff"})
	_, accountsErr := platform.Accounts(t.Context(), "")
	_, accountErr := platform.Account(t.Context(), "anna@a.example")
	_, startErr := platform.StartSignIn(t.Context(), "anna@a.example")
	for _, err := range []error{accountsErr, accountErr, startErr} {
		if sdk.OutcomeOf(err).Kind != sdk.Refused || !strings.Contains(fmt.Sprint(err), "not_success") {
			t.Errorf("got %v, want refused with not_success", err)
		}
	}
	for status, want := range map[int]string{400: "provider_error", 402: "access_denied", 403: "access_denied", 404: "provider_error", 409: "provider_error"} {
		env.FailOnce(jsonObject{"kind": "status", "status": status})
		if _, err := env.With(nil).StartSignIn(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Code.Name != want {
			t.Errorf("status %d: %v, want %s", status, err, want)
		}
	}
	env.FailOnce(jsonObject{"kind": "html", "status": 403})
	if _, err := env.With(nil).Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("an HTML page with 403: %v, want broken", err)
	}
}

// TestKeyIsPausedAfterThrottling checks that a key is paused for one minute after a 429, or for the
// time in Retry-After if that is longer. Other keys are not paused.
func TestKeyIsPausedAfterThrottling(t *testing.T) {
	for wait, want := range map[int]time.Duration{0: time.Minute, 7: time.Minute, 90: 90 * time.Second} {
		env := newTestEnv(t)
		now := time.Now()
		env.process.waits = sdk.NewWaits(func() time.Time { return now })
		env.createKey("key-other", "owner", 1)
		env.FailOnce(jsonObject{"kind": "status", "status": 429, "retry_after": wait})
		for i := range 2 {
			_, err := env.With(nil).Check(t.Context())
			if result := sdk.OutcomeOf(err); result.Kind != sdk.Throttled || result.RetryAfter != want || env.Calls.Load() != 1 {
				t.Errorf("Retry-After %d, call %d: %v after %d requests, want throttled for %s after one", wait, i, err, env.Calls.Load(), want)
			}
		}
		if _, err := env.With(texts{"api_key": "key-other"}).Check(t.Context()); err != nil {
			t.Errorf("a different key: %v, want no error", err)
		}
		if now = now.Add(want - time.Second); sdk.OutcomeOf(errorOfCheck(t, env)).Kind != sdk.Throttled {
			t.Errorf("Retry-After %d: the pause ends more than a second early", wait)
		}
		if now = now.Add(time.Second); errorOfCheck(t, env) != nil {
			t.Errorf("Retry-After %d: the pause does not end after the wait", wait)
		}
	}
}

func errorOfCheck(t *testing.T, env *testEnv) error {
	_, err := env.With(nil).Check(t.Context())
	return err
}

func TestDescriptionHasTheBudgetsAndNoDisconnect(t *testing.T) {
	declared := description()
	if slices.Contains(declared.Capabilities, sdk.CanDisconnect) || !slices.Contains(declared.Capabilities, sdk.CanOAuth) || len(declared.Needs) != 0 {
		t.Errorf("the capabilities are %v and the needs %v, want sign-ins without needs and no disconnection", declared.Capabilities, declared.Needs)
	}
	cost := map[string]int{}
	for _, budget := range declared.Budgets {
		if budget.Key != "credential" || budget.Window != time.Minute {
			t.Errorf("the budget is %+v, want one of a credential per minute", budget)
		}
		for _, operation := range []string{"check", "account", "accounts", "start_sign_in", "sign_in", "remove"} {
			cost[fmt.Sprint(budget.Limit, " ", operation)] = budget.Cost(operation)
		}
	}
	for name, want := range map[string]int{
		"30 check": 1, "30 account": 1, "30 accounts": 1, "30 start_sign_in": 0, "15 start_sign_in": 1, "15 accounts": 0, "15 check": 0,
		"30 remove": 0, "15 remove": 0,
	} {
		if cost[name] != want {
			t.Errorf("budget and operation %q: a call costs %d, want %d", name, cost[name], want)
		}
	}
}

// TestRequestsCarryTheKeyAndTheWorkspace checks that the key is in the header Authorization and not
// in a URL or body, and that only a POST with a workspace has a body.
func TestRequestsCarryTheKeyAndTheWorkspace(t *testing.T) {
	var received []string
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		received = append(received, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Content-Type"), body))
		if r.Header.Get("Authorization") != "key-canary" {
			t.Errorf("the header Authorization is %q, want key-canary", r.Header.Get("Authorization"))
		}
		_, _ = answer.Write([]byte(`{"success": true, "data": {"auth_url": "https://login.microsoftonline.com/x", "workspaces": [], "senders": []}}`))
	}))
	t.Cleanup(server.Close)
	for workspace, want := range map[string][]string{
		"":  {"GET /workspaces map[]", "GET /senders?limit=100&skip=0 map[]", "POST /oauth/outlook map[]"},
		"w": {"GET /workspaces?workspace_id=w map[]", "GET /senders?limit=100&skip=0&workspace_id=w map[]", "POST /oauth/outlook application/jsonmap[workspace_id:w]"},
	} {
		received = nil
		platform, err := newProcessState().newPlatform(sdk.Connection{
			Settings: texts{"base_url": server.URL + "/", "workspace_id": workspace}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("key-canary")},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, checkErr := platform.Check(t.Context())
		_, accountsErr := platform.Accounts(t.Context(), "")
		_, startErr := platform.StartSignIn(t.Context(), "anna@a.example")
		if err := errors.Join(checkErr, accountsErr, startErr); err != nil || !slices.Equal(received, want) {
			t.Errorf("the requests are %q, want %q, %v", received, want, err)
		}
	}
}

func TestLinksToOtherHostsAreRefused(t *testing.T) {
	env := newTestEnv(t)
	for link, allowed := range map[string]bool{
		"https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x": true,
		"https://other.example/authorize":                                        true,
		"http://login.microsoftonline.com/":                                      false,
		"https://run.salesblink.io/oauth/outlook":                                false,
		"https://login.microsoftonline.com.evil.example/":                        false,
	} {
		env.Behave(jsonObject{"link_to": link})
		session, err := env.With(texts{"auth_hosts": "login.microsoftonline.com, other.example"}).StartSignIn(t.Context(), "anna@a.example")
		if (err == nil) != allowed || (session.URL == link) != allowed || !allowed && sdk.OutcomeOf(err).Kind != sdk.Broken {
			t.Errorf("the link %s: %v, want allowed: %v", link, err, allowed)
		}
	}
}

func TestInvalidConnectionsAreRefusedWithoutACall(t *testing.T) {
	env := newTestEnv(t)
	for _, invalid := range []texts{{"api_key": ""}, {"api_key": "Bearer key-canary"}, {"api_key": "key-canary\r\n"}, {"base_url": "salesblink"}} {
		_, err := env.process.newPlatform(env.Given(invalid))
		if sdk.OutcomeOf(err).Code.Name != "invalid_request" || strings.Contains(fmt.Sprintf("%v %+v", err, err), "canary") {
			t.Errorf("%v: %v, want invalid_request without the key", invalid, err)
		}
	}
	if calls := env.Calls.Load(); calls > 0 {
		t.Errorf("SalesBlink received %d calls, want none", calls)
	}
}
