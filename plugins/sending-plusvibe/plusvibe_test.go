// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/plugins/sdk"
)

func TestAccountStateOfEachStatus(t *testing.T) {
	for status, want := range map[string]classification{
		"ACTIVE": {sdk.AccountConnected, false}, "active": {sdk.AccountConnected, false}, "INACTIVE": {sdk.AccountConnected, true},
		"PAUSED": {sdk.AccountConnected, true}, "ERROR": {sdk.AccountFailed, false}, "DISCONNECTED": {sdk.AccountFailed, false},
		"FAILED": {sdk.AccountFailed, false}, "IMAP_ERROR": {sdk.AccountFailed, false}, "PENDING": {sdk.AccountPending, false},
		"CONNECTING": {sdk.AccountPending, false}, "": {sdk.AccountOther, false}, "7": {sdk.AccountOther, false}, "ERRORLESS": {sdk.AccountOther, false},
	} {
		got, known := classify(status)
		if got != want || known != (want.state != sdk.AccountOther) {
			t.Errorf("status %q: %+v, known: %v, want %+v", status, got, known, want)
		}
	}
}

func TestStampChangesWithTheUpdateTimeAndTheStatus(t *testing.T) {
	stamps := map[string]bool{}
	for _, doc := range []accountDoc{{Updated: "1", Status: "ACTIVE"}, {Updated: "2", Status: "ACTIVE"}, {Updated: "2", Status: "ERROR"}, {Status: "ERROR"}} {
		stamps[doc.account().Stamp] = true
	}
	if len(stamps) != 4 {
		t.Errorf("the stamps are %v, want four different stamps", stamps)
	}
}

// TestCallsAreLimitedToTheWorkspace checks that Account does not find an account of a different
// workspace. A list, the start of a sign-in and a removal require a workspace.
func TestCallsAreLimitedToTheWorkspace(t *testing.T) {
	env := newTestEnv(t)
	env.Put("anna@a.example", jsonObject{})
	if a, err := env.With(nil).Account(t.Context(), "anna@a.example"); err != nil || !a.Exists() {
		t.Errorf("the account in its workspace: %+v, %v, want it to exist", a, err)
	}
	platformOfOtherWorkspace := env.With(texts{"workspace_id": env.Ready.Sending.Workspaces[1].ID})
	if a, err := platformOfOtherWorkspace.Account(t.Context(), "anna@a.example"); err != nil || a.Exists() {
		t.Errorf("the account in a different workspace: %+v, %v, want none", a, err)
	}
	if _, err := env.With(texts{"workspace_id": "65f3a1b2c3d4e5f6ffffffff"}).Accounts(t.Context(), ""); sdk.OutcomeOf(err).Kind != sdk.Refused {
		t.Errorf("a workspace that the key does not reach: %v, want refused", err)
	}
	withoutWorkspace := env.With(texts{"workspace_id": ""})
	if access, err := withoutWorkspace.Check(t.Context()); err != nil || len(access.Workspaces) != 2 {
		t.Errorf("Check without a workspace: %+v, %v, want two workspaces", access, err)
	}
	_, listErr := withoutWorkspace.Accounts(t.Context(), "")
	_, signInErr := withoutWorkspace.StartSignIn(t.Context(), "anna@a.example")
	for _, err := range []error{listErr, signInErr, withoutWorkspace.Remove(t.Context(), "anna@a.example")} {
		if sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("a call without a workspace: %v, want invalid_request", err)
		}
	}
}

// TestRemoveChecksTheAccountWhenTheCallFails checks that Remove reports success only for an account
// that does not exist.
func TestRemoveChecksTheAccountWhenTheCallFails(t *testing.T) {
	env := newTestEnv(t)
	env.Put("anna@a.example", jsonObject{})
	env.Behave(jsonObject{"delete_path": ""})
	if err := env.With(nil).Remove(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Code.Name != "capability_not_supported" {
		t.Errorf("an account that exists: %v, want capability_not_supported", err)
	}
	if err := env.With(nil).Remove(t.Context(), "bob@a.example"); err != nil {
		t.Errorf("an account that does not exist: %v, want no error", err)
	}
	env.Behave(jsonObject{"delete_path": deletePath})
	env.FailOnce(jsonObject{"kind": "status", "status": 400, "operation": "remove"})
	if err := env.With(nil).Remove(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Kind != sdk.Refused || sdk.OutcomeOf(err).Code.Name == "capability_not_supported" {
		t.Errorf("a refused call: %v, want refused, and not capability_not_supported", err)
	}
	env.FailOnce(jsonObject{"kind": "status", "status": 400, "operation": "remove"})
	env.FailOnce(jsonObject{"kind": "status", "status": 503, "operation": "account"})
	if err := env.With(nil).Remove(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Kind != sdk.Unknown {
		t.Errorf("a refused call and a failed lookup: %v, want unknown", err)
	}
}

// TestPluginMakesOnlyTheExpectedCalls checks the calls that the plugin makes. The plugin must not
// call the partner's list of accounts, which needs a password in the URL. The plugin must also not
// call the endpoint that reconnects an account, which does not work for Microsoft accounts.
func TestPluginMakesOnlyTheExpectedCalls(t *testing.T) {
	env := newTestEnv(t)
	platform := env.With(nil)
	env.Put("anna@a.example", jsonObject{"status": "ERROR"})
	_, checkErr := platform.Check(t.Context())
	_, listErr := platform.Accounts(t.Context(), "")
	_, accountErr := platform.Account(t.Context(), "anna@a.example")
	_, signInErr := platform.StartSignIn(t.Context(), "anna@a.example")
	for _, err := range []error{checkErr, listErr, accountErr, signInErr, platform.Remove(t.Context(), "anna@a.example")} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{"GET /authenticate", "POST /webhook/partner-list-workspace", "GET /account/list", "GET /account/list",
		"POST /webhook/partner-microsoft-oauth-url", "POST /account/delete"}
	if got := env.receivedRequests(); !slices.Equal(got, want) {
		t.Errorf("the requests are %v, want %v", got, want)
	}
}

// TestSecretsStayOutOfURLs checks that the URLs of Check, Accounts, StartSignIn and Remove contain
// no secret and no address. It also checks which of these calls have the key in their header, and
// that all have the User-Agent that the operator sets.
func TestSecretsStayOutOfURLs(t *testing.T) {
	var urls, agents []string
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		urls, agents = append(urls, r.URL.String()), append(agents, r.Header.Get("User-Agent"))
		if isPartnerCall := strings.Contains(r.URL.Path, "partner"); isPartnerCall == (r.Header.Get("X-Api-Key") != "") {
			t.Errorf("%s has the key %q in its header, want a key unless it is a partner call", r.URL.Path, r.Header.Get("X-Api-Key"))
		}
		_, _ = answer.Write([]byte(`{"status": "success", "workspaces": [], "accounts": [], "code": "1", "url": "https://login.microsoftonline.com/x"}`))
	}))
	t.Cleanup(server.Close)
	platform, err := newProcessState().newPlatform(sdk.Connection{
		Settings: texts{"base_url": server.URL + "/", "workspace_id": "65f3a1b2c3d4e5f600000001", "user_agent": "Mozilla/5.0 (X11)", "allow_password_credentials": "true"},
		Secrets:  map[string]sdk.Secret{"api_key": sdk.NewSecret("canary-key"), "partner_username": sdk.NewSecret("canary@user"), "partner_password": sdk.NewSecret("canary-password")},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, checkErr := platform.Check(t.Context())
	_, listErr := platform.Accounts(t.Context(), "")
	_, signInErr := platform.StartSignIn(t.Context(), "anna@a.example")
	if err := errors.Join(checkErr, listErr, signInErr, platform.Remove(t.Context(), "anna@a.example")); err != nil {
		t.Fatal(err)
	}
	for _, requested := range urls {
		if strings.Contains(requested, "canary") || strings.Contains(requested, "anna") {
			t.Errorf("the URL contains a secret or an address: %s", requested)
		}
	}
	if len(agents) != 5 || slices.ContainsFunc(agents, func(a string) bool { return a != "Mozilla/5.0 (X11)" }) {
		t.Errorf("the User-Agents are %q, want five times the setting", agents)
	}
}

// platformAnswering returns the platform of a connection with these settings, a key and a partner's
// login that the operator allows. Its server answers every request with body.
func platformAnswering(t *testing.T, body string, settings texts) sdk.SendingPlatform {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	t.Cleanup(server.Close)
	allSettings := texts{"base_url": server.URL, "allow_password_credentials": "true"}
	maps.Copy(allSettings, settings)
	platform, err := newProcessState().newPlatform(sdk.Connection{Settings: allSettings, Secrets: map[string]sdk.Secret{
		"api_key": sdk.NewSecret("k"), "partner_username": sdk.NewSecret("ann"), "partner_password": sdk.NewSecret("p"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return platform
}

// TestMalformedListsAreBroken covers malformed lists. It also checks that numbers and null are
// accepted instead of strings.
func TestMalformedListsAreBroken(t *testing.T) {
	for body, want := range map[string]sdk.OutcomeKind{
		`{"accounts": [{"_id": 7, "email": "anna@a.example", "status": 3, "timestamp_updated": 1700000000000, "payload": {"name": {}}}]}`: 0,
		`{"accounts": [{"email": "anna@a.example", "status": null}]}`:                                                                     0,
		`{"accounts": [{"_id": "x", "status": "ACTIVE"}]}`:                                                                                sdk.Broken,
		`{"accounts": null}`:                             sdk.Broken,
		`{"status": "error", "message": "no workspace"}`: sdk.Broken,
		`[]`: sdk.Broken,
		`{"accounts": "` + strings.Repeat("x", 9<<20) + `"}`: sdk.Broken,
	} {
		page, err := platformAnswering(t, body, texts{"workspace_id": "w"}).Accounts(t.Context(), "")
		if sdk.OutcomeOf(err).Kind != want || (want == 0) != (len(page.Accounts) == 1) {
			t.Errorf("%.60s: %+v, %v, want the outcome %s, and one account only if the outcome is done", body, page, err, want)
		}
	}
}

// TestMalformedCheckAnswersAreBroken checks that the plugin does not take a malformed answer for a
// refused key.
func TestMalformedCheckAnswersAreBroken(t *testing.T) {
	for _, body := range []string{`{}`, `{"status": "success"}`, `{"status": {"ok": true}, "workspaces": []}`, `{"status": "success", "workspaces": [{"name": "x"}]}`} {
		if access, err := platformAnswering(t, body, nil).Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Broken {
			t.Errorf("%s: %+v, %v, want broken", body, access, err)
		}
	}
}

// TestRefusedPartnerLoginReturnsNoLink answers the start of a sign-in with a link and with a code
// other than 1, which means a failure.
func TestRefusedPartnerLoginReturnsNoLink(t *testing.T) {
	platform := platformAnswering(t, `{"code": 0, "url": "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x"}`,
		texts{"workspace_id": "w", "auth_hosts": "login.microsoftonline.com"})
	if session, err := platform.StartSignIn(t.Context(), "anna@a.example"); sdk.OutcomeOf(err).Code.Name != "access_denied" {
		t.Errorf("got %+v, %v, want access_denied", session, err)
	}
}

func TestInvalidCursorsAreRefused(t *testing.T) {
	env := newTestEnv(t)
	for _, cursor := range []string{"100", "x y", "-1 abc -", "0 abc -"} {
		if _, err := env.With(nil).Accounts(t.Context(), cursor); sdk.OutcomeOf(err).Kind != sdk.Refused {
			t.Errorf("cursor %q: %v, want refused", cursor, err)
		}
	}
}

// TestRemovalsDuringAListingSkipNoAccount removes accounts during a listing. Pages overlap: the
// plugin requests the last accounts of each page again with the next page. overlap is the number of
// these accounts. If fewer accounts than overlap are removed, each remaining account is listed
// once. Otherwise the listing must fail, because it could skip an account.
func TestRemovalsDuringAListingSkipNoAccount(t *testing.T) {
	removals := []int{4, 5}
	if soak.Enabled() {
		removals = []int{0, 1, 4, 5, 120}
	}
	for _, removed := range removals {
		env := newTestEnv(t)
		for i := range 320 {
			env.Put(fmt.Sprintf("user%03d@a.example", i), jsonObject{})
		}
		timesListed, broken := map[string]int{}, false
		for cursor, pagesRead := "", 0; pagesRead == 0 || cursor != ""; pagesRead++ {
			page, err := env.With(nil).Accounts(t.Context(), cursor)
			if broken = err != nil; broken {
				break
			}
			for _, a := range page.Accounts {
				timesListed[a.Address]++
			}
			if cursor = page.Next; pagesRead == 1 {
				for i := range removed {
					env.Send(http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", i), nil)
				}
			}
		}
		for i := removed; i < 320 && !broken; i++ {
			if n := timesListed[fmt.Sprintf("user%03d@a.example", i)]; n != 1 {
				t.Errorf("after %d removals account %d is listed %d times, want once", removed, i, n)
			}
		}
		if broken != (removed >= overlap) {
			t.Errorf("after %d removals the listing is broken: %v, want broken from %d removals", removed, broken, overlap)
		}
	}
}

// TestDescriptionRequiresThePartnerLoginForSignIns checks Needs, the fields of the login, and the
// budget.
func TestDescriptionRequiresThePartnerLoginForSignIns(t *testing.T) {
	declared := description()
	if needs := declared.Needs[sdk.CanOAuth]; !slices.Equal(needs, []string{"partner_username", "partner_password", "allow_password_credentials"}) {
		t.Errorf("signing in needs %v, want the partner login and its permission", needs)
	}
	for _, field := range declared.Fields {
		if field.Name == "allow_password_credentials" && (field.Default != "false" || field.Account) {
			t.Errorf("the field is %+v, want the default false, and no field of the account", field)
		}
		if strings.HasPrefix(field.Name, "partner_") && (!field.Secret || !field.Account) {
			t.Errorf("the field is %+v, want a secret of the account", field)
		}
	}
	if budgets := declared.Budgets; len(budgets) != 1 || budgets[0].Key != "credential" || budgets[0].Limit != 50 || budgets[0].Window != 10*time.Second {
		t.Errorf("the budgets are %+v, want 50 calls of a credential in 10 s", budgets)
	}
}
