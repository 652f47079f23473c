// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
)

func TestCheckReturnsTheWorkspaceOfTheKey(t *testing.T) {
	env := newTestEnv(t)
	reach, err := env.With().Check(t.Context())
	if err != nil || len(reach.Workspaces) != 1 || reach.Workspaces[0].Name != "Example Outreach" || reach.SelectedWorkspaceOnly {
		t.Fatalf("got %+v, %v, want the workspace Example Outreach", reach, err)
	}
	workspace := reach.Workspaces[0].ID
	// For a key without workspaces:read, the plugin takes the workspace from an account.
	env.Send(http.MethodPut, "/keys/narrow", jsonObject{"workspace": workspace, "scopes": []string{"accounts:all"}})
	if reach, err = env.With(texts{"api_key": "narrow"}).Check(t.Context()); err != nil || len(reach.Workspaces) != 1 || reach.Workspaces[0].ID != "" {
		t.Fatalf("with a narrow key and no account: %+v, %v, want a workspace without an id", reach, err)
	}
	env.Put("ann@one.test", jsonObject{})
	if reach, err = env.With(texts{"api_key": "narrow"}).Check(t.Context()); err != nil || reach.Workspaces[0].ID != workspace {
		t.Fatalf("with a narrow key and one account: %+v, %v, want the workspace %s", reach, err, workspace)
	}
}

// TestCheckRefusesAWorkspaceThatItCannotVerify uses a key that cannot read its workspace and has no
// account.
func TestCheckRefusesAWorkspaceThatItCannotVerify(t *testing.T) {
	env := newTestEnv(t)
	env.Send(http.MethodPut, "/keys/narrow", jsonObject{"scopes": []string{"accounts:read"}})
	if _, err := env.With(texts{"api_key": "narrow", "workspace_id": "asked-for"}).Check(t.Context()); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
		t.Errorf("Check: %v, want invalid_request", err)
	}
}

func TestKeysWithoutPermissionOrPlanAreRefused(t *testing.T) {
	env := newTestEnv(t)
	env.Send(http.MethodPut, "/keys/reader", jsonObject{"scopes": []string{"accounts:read"}})
	env.Send(http.MethodPut, "/keys/other", jsonObject{"scopes": []string{"campaigns:all"}})
	env.Send(http.MethodPut, "/keys/revoked", jsonObject{"revoked": true})
	env.Send(http.MethodPut, "/workspaces/unpaid", jsonObject{"inactive": true})
	env.Send(http.MethodPut, "/keys/unpaid", jsonObject{"workspace": "unpaid"})
	check := func(p sdk.SendingPlatform) error { _, err := p.Check(t.Context()); return err }
	for _, tc := range []struct {
		name, key, cause string
		call             func(sdk.SendingPlatform) error
	}{
		{"unknown key", "guessed", "instantly 401", check},
		{"revoked", "revoked", "instantly 401", check},
		{"no needed scope", "other", "instantly 403", check},
		{"no plan", "unpaid", "plan_inactive", check},
		{"may not start a sign-in", "reader", "instantly 403", func(p sdk.SendingPlatform) error { _, err := p.StartSignIn(t.Context(), "a@b.test"); return err }},
		{"may not delete an account", "reader", "instantly 403", func(p sdk.SendingPlatform) error { return p.Remove(t.Context(), "a@b.test") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.call(env.With(texts{"api_key": tc.key}))
			if result := sdk.OutcomeOf(err); result.Kind != sdk.Refused || result.Code.Name != "access_denied" || result.Cause != tc.cause {
				t.Errorf("got %v, want access_denied with the cause %s", err, tc.cause)
			}
		})
	}
}

// TestAccountStateOfEachStatus covers the first table of the README's section "States".
func TestAccountStateOfEachStatus(t *testing.T) {
	env := newTestEnv(t)
	for _, tc := range []struct {
		name   string
		fields jsonObject
		want   sdk.Account
	}{
		{"active", jsonObject{"status": 1}, sdk.Account{State: sdk.AccountConnected}},
		{"paused", jsonObject{"status": 2}, sdk.Account{State: sdk.AccountConnected, Paused: true}},
		{"maintenance", jsonObject{"status": 3}, sdk.Account{State: sdk.AccountConnected}},
		{"being set up", jsonObject{"status": 1, "setup_pending": true}, sdk.Account{State: sdk.AccountPending}},
		{"connection lost", jsonObject{"status": -1, "setup_pending": false, "autofix_failed": true}, sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}},
		{"connection lost, reconnecting", jsonObject{"status": -1, "reconnecting": true}, sdk.Account{State: sdk.AccountOther, HasError: true, Reason: "reconnecting"}},
		{"soft bounces", jsonObject{"status": -2}, sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "soft_bounce_error"}},
		{"cannot send", jsonObject{"status": -3}, sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "sending_error"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env.Put("ann.lee@one.test", tc.fields)
			got, err := env.With().Account(t.Context(), "ann.lee@one.test")
			tc.want.ID, tc.want.Address, tc.want.Name, tc.want.Stamp = "ann.lee@one.test", "ann.lee@one.test", "Ann Lee", got.Stamp
			if err != nil || got != tc.want || got.Stamp == "" {
				t.Errorf("got %+v, %v, want %+v with a stamp", got, err, tc.want)
			}
		})
	}
	unknownStatus := 17.0
	if got := (accountDoc{Email: "a@b.test", Status: &unknownStatus}).account(); got.State != sdk.AccountOther {
		t.Errorf("an unknown status: %+v, want the state other", got)
	}
	if got := (accountDoc{Email: "a@b.test"}).account(); got.State != sdk.AccountOther {
		t.Errorf("no status: %+v, want the state other", got)
	}
}

// TestListingEndsWithAndWithoutALastCursor covers a last page with and without a cursor, and
// cursors that contain an ampersand.
func TestListingEndsWithAndWithoutALastCursor(t *testing.T) {
	for _, noCursor := range []bool{false, true} {
		t.Run(fmt.Sprint("no cursor at the end: ", noCursor), func(t *testing.T) {
			env := newTestEnv(t)
			env.Send(http.MethodPost, "/behaviour", jsonObject{"no_cursor": noCursor})
			var accounts []jsonObject
			for i := range 250 {
				accounts = append(accounts, jsonObject{"email": fmt.Sprintf("box+%03d@one.test", i)})
			}
			env.Send(http.MethodPost, "/accounts", accounts)
			listed, pages, err := env.List(env.With())
			listedAddresses := map[string]bool{}
			for _, a := range listed {
				listedAddresses[a.Address] = true
			}
			if err != nil || len(listedAddresses) != 250 || pages > 4 {
				t.Errorf("%d accounts on %d pages, %v, want 250 on at most 4", len(listedAddresses), pages, err)
			}
		})
	}
}

func TestAddressesAreEscapedAndComparedWithoutCase(t *testing.T) {
	env := newTestEnv(t)
	for _, address := range []string{"a/b@one.test", "per%cent@one.test", "plus+tag@one.test", "who?@one.test", "Mixed.Case@one.test"} {
		env.Put(address, jsonObject{})
		for _, spelling := range []string{address, strings.ToLower(address), strings.ToUpper(address)} {
			if got, err := env.With().Account(t.Context(), spelling); err != nil || got.Address != address {
				t.Errorf("%s: got %+v, %v, want the account %s", spelling, got, err, address)
			}
		}
		if err := env.With().Remove(t.Context(), address); err != nil {
			t.Error(err)
		}
		if got, err := env.With().Account(t.Context(), address); err != nil || got.Exists() {
			t.Errorf("%s after its removal: %+v, %v, want no account", address, got, err)
		}
		if err := env.With().Remove(t.Context(), address); err != nil {
			t.Errorf("removing %s again: %v, want no error", address, err)
		}
	}
	for _, pathSegment := range []string{"", "..", "."} {
		if got, err := env.With().Account(t.Context(), pathSegment); err != nil || got.Exists() {
			t.Errorf("the address %q finds %+v, %v, want no account", pathSegment, got, err)
		}
		if err := env.With().Remove(t.Context(), pathSegment); err != nil {
			t.Errorf("removing the address %q: %v, want no error", pathSegment, err)
		}
	}
	// An account whose address only contains the searched address is a different account.
	env.Put("joann@one.test", jsonObject{})
	if got, err := env.With().Account(t.Context(), "ann@one.test"); err != nil || got.Exists() {
		t.Errorf("ann@one.test finds %+v, %v, want no account", got, err)
	}
}

func (env *testEnv) startSignIn(address string) sdk.SignInSession {
	env.t.Helper()
	session, err := env.With().StartSignIn(env.t.Context(), address)
	if err != nil {
		env.t.Fatal(err)
	}
	return session
}

func (env *testEnv) signInProgress(session sdk.SignInSession) sdk.Progress {
	env.t.Helper()
	progress, err := env.With().SignIn(env.t.Context(), session.ID)
	if err != nil {
		env.t.Fatal(err)
	}
	return progress
}

func TestSignInAttachesTheAccount(t *testing.T) {
	env := newTestEnv(t)
	began := time.Now()
	session := env.startSignIn("ann.lee@one.test")
	if lasts := session.ExpiresAt.Sub(began); lasts < 10*time.Minute-time.Second || lasts > 10*time.Minute+time.Since(began) {
		t.Errorf("the session lasts %s, want 10 minutes", lasts)
	}
	if progress := env.signInProgress(session); progress != (sdk.Progress{State: sdk.SignInPending}) {
		t.Errorf("the progress at first is %+v, want pending", progress)
	}
	if _, page := env.OpenLink(session.URL); !strings.Contains(page, `name="username" type="text" value="ann.lee@one.test"`) {
		t.Errorf("the sign-in page is %s, want the address filled in", page)
	}
	if status, _ := env.Decide(session.URL, "ann.lee@one.test", "accept"); status != http.StatusOK {
		t.Fatalf("the page answers %d, want 200", status)
	}
	if progress := env.signInProgress(session); progress != (sdk.Progress{State: sdk.SignInSucceeded, Address: "ann.lee@one.test", Name: "Ann Lee"}) {
		t.Errorf("the progress after the sign-in is %+v, want succeeded", progress)
	}
	afterFirstSignIn, err := env.With().Account(t.Context(), "ann.lee@one.test")
	if err != nil || afterFirstSignIn.State != sdk.AccountConnected {
		t.Fatalf("the account is %+v, %v, want connected", afterFirstSignIn, err)
	}
	if status, _ := env.Decide(session.URL, "bob@one.test", "accept"); status != http.StatusGone {
		t.Errorf("a used link answers %d, want 410", status)
	}
	// A second sign-in changes Account.Stamp, by which the host notices a new sign-in.
	env.Send(http.MethodPost, "/clock", jsonObject{"advance": "1s"})
	env.Decide(env.startSignIn("ann.lee@one.test").URL, "ann.lee@one.test", "accept")
	if afterSecondSignIn, err := env.With().Account(t.Context(), "ann.lee@one.test"); err != nil || afterSecondSignIn.Stamp == afterFirstSignIn.Stamp {
		t.Errorf("after the second sign-in: %+v, %v, want a different stamp than %s", afterSecondSignIn, err, afterFirstSignIn.Stamp)
	}
}

func TestDeniedExpiredAndUnknownSessionsAreNotConnected(t *testing.T) {
	env := newTestEnv(t)
	denied, expired, forgotten := env.startSignIn("a@one.test"), env.startSignIn("b@one.test"), env.startSignIn("c@one.test")
	env.Decide(denied.URL, "a@one.test", "deny")
	if progress := env.signInProgress(denied); progress != (sdk.Progress{State: sdk.SignInFailed, Reason: "access_denied"}) {
		t.Errorf("a denied session: %+v, want failed with access_denied", progress)
	}
	env.Send(http.MethodPost, "/sessions/"+forgotten.ID+"/forget", jsonObject{})
	if progress := env.signInProgress(forgotten); progress.State != sdk.SignInExpired {
		t.Errorf("an unknown session: %+v, want expired", progress)
	}
	env.Send(http.MethodPost, "/clock", jsonObject{"advance": "10m"})
	if progress := env.signInProgress(expired); progress.State != sdk.SignInExpired {
		t.Errorf("an expired session: %+v, want expired", progress)
	}
	if status, _ := env.Decide(expired.URL, "b@one.test", "accept"); status != http.StatusGone {
		t.Errorf("the page of an expired session answers %d, want 410", status)
	}
	if progress, err := env.With().SignIn(t.Context(), ".."); err != nil || progress.State != sdk.SignInExpired {
		t.Errorf("an id that is a path: %+v, %v, want expired", progress, err)
	}
	// The key of a different workspace does not see the session.
	env.Send(http.MethodPut, "/keys/other", jsonObject{"workspace": "another"})
	if progress, err := env.With(texts{"api_key": "other"}).SignIn(t.Context(), denied.ID); err != nil || progress.State != sdk.SignInExpired {
		t.Errorf("a session of a different workspace: %+v, %v, want expired", progress, err)
	}
}

func TestNewAccountAppearsAfterTheListLag(t *testing.T) {
	env := newTestEnv(t)
	env.Send(http.MethodPost, "/behaviour", jsonObject{"list_lag_ms": 300_000})
	env.Decide(env.startSignIn("ann@one.test").URL, "ann@one.test", "accept")
	if got, err := env.With().Account(t.Context(), "ann@one.test"); err != nil || got.Exists() {
		t.Errorf("before the lag: %+v, %v, want no account", got, err)
	}
	env.Send(http.MethodPost, "/clock", jsonObject{"advance": "5m"})
	if got, err := env.With().Account(t.Context(), "ann@one.test"); err != nil || !got.Exists() {
		t.Errorf("after the lag: %+v, %v, want an account", got, err)
	}
}

// handlerTransport calls a handler without a network, so that a fake clock does not move during a
// call.
type handlerTransport struct{ handler http.Handler }

func (h handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	h.handler.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// TestSignInStartsAreThrottled checks the limits per minute: 75 starts of a workspace and 150 of an
// IP address. A start that the limit of a workspace refuses also counts for the address.
func TestSignInStartsAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: handlerTransport{handler}}
		platformFor := func(key string) sdk.SendingPlatform {
			platform, err := (&processState{http: client, now: time.Now}).newPlatform(sdk.Connection{Settings: ready.Settings, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret(key)}})
			if err != nil {
				t.Fatal(err)
			}
			return platform
		}
		for range 75 {
			if _, err := platformFor(simulator.Key).StartSignIn(t.Context(), "a@one.test"); err != nil {
				t.Fatal(err)
			}
		}
		_, err = platformFor(simulator.Key).StartSignIn(t.Context(), "a@one.test")
		if result := sdk.OutcomeOf(err); result.Kind != sdk.Throttled || result.RetryAfter != time.Minute {
			t.Errorf("start 76 of the workspace: %v, want throttled for a minute", err)
		}
		keyOfOtherWorkspace := strings.NewReader(`{"workspace": "019ffad2-5cac-7fb9-a336-000000000002"}`)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, ready.URL+"/_control/keys/other", keyOfOtherWorkspace))
		for i := range 75 {
			_, err := platformFor("other").StartSignIn(t.Context(), "a@one.test")
			if throttled := sdk.OutcomeOf(err).Kind == sdk.Throttled; throttled != (i >= 74) {
				t.Fatalf("start %d of the IP address: %v, want throttled: %v", 76+i+1, err, i >= 74)
			}
		}
	})
}

func TestLinksToOtherHostsAreRefused(t *testing.T) {
	env := newTestEnv(t)
	if session, err := env.With(texts{"auth_hosts": "login.microsoftonline.com"}).StartSignIn(t.Context(), "a@one.test"); err == nil || sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("a link to a host that auth_hosts does not name: %+v, %v, want broken", session, err)
	}
	env.Send(http.MethodPost, "/behaviour", jsonObject{"auth_host": "login.microsoftonline.com.evil.test"})
	if session, err := env.With().StartSignIn(t.Context(), "a@one.test"); err == nil || sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("a link to a host that begins with an allowed name: %+v, %v, want broken", session, err)
	}
}

func TestRepeatedPageBreaksTheListing(t *testing.T) {
	env := newTestEnv(t)
	var accounts []jsonObject
	for i := range 120 {
		accounts = append(accounts, jsonObject{"email": fmt.Sprintf("box%03d@one.test", i)})
	}
	env.Send(http.MethodPost, "/accounts", accounts)
	env.Send(http.MethodPost, "/behaviour", jsonObject{"repeat_page": true})
	firstPage, err := env.With().Accounts(t.Context(), "")
	if err != nil || firstPage.Next == "" {
		t.Fatalf("the first page has %d accounts, %v, want a next page", len(firstPage.Accounts), err)
	}
	if _, err := env.With().Accounts(t.Context(), firstPage.Next); sdk.OutcomeOf(err).Kind != sdk.Broken {
		t.Errorf("a repeated page: %v, want broken", err)
	}
}

// TestThrottledStartHasARetryAfter covers the answer 503, which Instantly sends when Microsoft
// throttles Instantly.
func TestThrottledStartHasARetryAfter(t *testing.T) {
	env := newTestEnv(t)
	env.Fail(t, conformance.IsDown)
	_, err := env.With().StartSignIn(t.Context(), "a@one.test")
	if result := sdk.OutcomeOf(err); result.Kind != sdk.Down || result.RetryAfter != upstreamRetryAfter {
		t.Errorf("got %v, want down for %s", err, upstreamRetryAfter)
	}
}

// TestLimitOfStartsHoldsBackOnlyStarts checks which calls wait after Instantly has refused the
// start of a sign-in. Other calls do not count towards this limit. The window of a workspace's
// limit is a minute, so a longer Retry-After comes from the limit of the IP address, and all keys
// wait.
func TestLimitOfStartsHoldsBackOnlyStarts(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		status, retryAfter     int
		holdsBackDifferentKeys bool
	}{
		{"limit of the workspace", http.StatusTooManyRequests, 60, false},
		{"limit of the address", http.StatusTooManyRequests, 1800, true},
		{"Microsoft throttles Instantly", http.StatusServiceUnavailable, 1800, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env := newTestEnv(t)
			env.Send(http.MethodPut, "/keys/other", jsonObject{"workspace": "019ffad2-5cac-7fb9-a336-000000000002"})
			env.Put("a@one.test", jsonObject{"status": 1})
			env.FailOnce(jsonObject{"kind": "status", "status": tc.status, "retry_after": tc.retryAfter, "operation": "start_sign_in"})
			began := time.Now()
			for call := range 2 {
				_, err := env.With().StartSignIn(t.Context(), "a@one.test")
				wait := time.Duration(tc.retryAfter) * time.Second
				if result := sdk.OutcomeOf(err); result.RetryAfter > wait || result.RetryAfter < wait-time.Since(began)-time.Second {
					t.Errorf("start %d: %v, want a wait of %s", call+1, err, wait)
				}
			}
			if a, err := env.With().Account(t.Context(), "a@one.test"); err != nil || !a.Exists() {
				t.Errorf("a read with the same key: %+v, %v, want the account", a, err)
			}
			if err := env.With().Remove(t.Context(), "a@one.test"); err != nil {
				t.Errorf("a removal with the same key: %v, want no error", err)
			}
			_, err := env.With(texts{"api_key": "other"}).StartSignIn(t.Context(), "b@one.test")
			if throttled := sdk.OutcomeOf(err).Kind == sdk.Throttled; throttled != tc.holdsBackDifferentKeys || !throttled && err != nil {
				t.Errorf("a start with a different key: %v, want throttled: %v", err, tc.holdsBackDifferentKeys)
			}
			for _, r := range env.Requests() {
				if r.Violation != "" {
					t.Errorf("%s %s arrived too early: %s", r.Method, r.Path, r.Violation)
				}
			}
		})
	}
}

// TestStartsWaitForTheKey checks that a Retry-After in an answer to a different call also holds
// back starts.
func TestStartsWaitForTheKey(t *testing.T) {
	env := newTestEnv(t)
	env.FailOnce(jsonObject{"kind": "status", "status": http.StatusTooManyRequests, "retry_after": 300, "operation": "check"})
	if _, err := env.With().Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Throttled {
		t.Fatalf("the planned fault of Check: %v, want throttled", err)
	}
	if _, err := env.With().StartSignIn(t.Context(), "a@one.test"); sdk.OutcomeOf(err).Cause != sdk.CauseHeldBack {
		t.Errorf("a start during the pause of the key: %v, want held back", err)
	}
}

func TestProxyPagesAreBroken(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired, http.StatusNotFound, http.StatusFound} {
		env := newTestEnv(t)
		env.unchecked = true
		env.Send(http.MethodPost, "/faults", jsonObject{"kind": "html", "status": status, "times": 3})
		platform := env.With()
		_, err := platform.Check(t.Context())
		_, accountErr := platform.Account(t.Context(), "a@one.test")
		for operation, err := range map[string]error{"check": err, "account": accountErr, "remove": platform.Remove(t.Context(), "a@one.test")} {
			if sdk.OutcomeOf(err).Kind != sdk.Broken {
				t.Errorf("%s with status %d: %v, want broken", operation, status, err)
			}
		}
	}
}

func TestLoginHintIsAddedUnlessPresent(t *testing.T) {
	for authURL, want := range map[string]string{
		"https://login.test/a?state=x%20y":        "https://login.test/a?state=x%20y&login_hint=a%2Bb%40one.test",
		"https://login.test/a":                    "https://login.test/a?login_hint=a%2Bb%40one.test",
		"https://login.test/a?login_hint=present": "https://login.test/a?login_hint=present",
		"https://login.test/a?state=1&scope=a+b/": "https://login.test/a?state=1&scope=a+b/&login_hint=a%2Bb%40one.test",
	} {
		if got := withLoginHint(authURL, "a+b@one.test"); got != want {
			t.Errorf("%s became %s, want %s", authURL, got, want)
		}
	}
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*sdk.Connection){
		"no key":               func(connection *sdk.Connection) { delete(connection.Secrets, "api_key") },
		"a key of two words":   func(connection *sdk.Connection) { connection.Secrets["api_key"] = sdk.NewSecret("a b") },
		"a key with a newline": func(connection *sdk.Connection) { connection.Secrets["api_key"] = sdk.NewSecret("a\nb") },
		"not a URL":            func(connection *sdk.Connection) { connection.Settings["base_url"] = "instantly" },
		"a different scheme":   func(connection *sdk.Connection) { connection.Settings["base_url"] = "file:///etc" },
	} {
		connection := sdk.Connection{Settings: map[string]string{}, Secrets: map[string]sdk.Secret{"api_key": sdk.NewSecret("k")}}
		change(&connection)
		if _, err := newProcessState().newPlatform(connection); sdk.OutcomeOf(err).Code.Name != "invalid_request" {
			t.Errorf("%s: %v, want invalid_request", name, err)
		}
	}
}
