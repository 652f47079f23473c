// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestBadKeys: how PlusVibe turns a bad key away is not published, so each way
// is one, and a page of its edge is not.
func TestBadKeys(t *testing.T) {
	w := newWorld(t)
	bad := w.with(texts{"api_key": "guessed"})
	for _, status := range []int{401, 403, 200} {
		w.behave(m{"bad_key": status})
		if _, err := bad.Check(t.Context()); !errors.Is(err, fault.AccessDenied) {
			t.Errorf("by %d: %v", status, err)
		}
	}
	w.fault(m{"kind": "html", "status": 403})
	if _, err := w.with(nil).Check(t.Context()); outcome.Of(err) != outcome.Down || errors.Is(err, fault.AccessDenied) {
		t.Errorf("a page of the edge: %v", err)
	}
	w.fault(m{"kind": "status", "status": 402})
	var o *outcome.Error
	if _, err := w.with(nil).Check(t.Context()); !errors.As(err, &o) || o.Cause != "plan_inactive" {
		t.Errorf("without a plan: %v", err)
	}
}

// TestThrottledWithoutRetryAfter: nobody says that PlusVibe sends one.
func TestThrottledWithoutRetryAfter(t *testing.T) {
	w := newWorld(t)
	w.fault(m{"kind": "status", "status": 429})
	var f *fault.Error
	if _, err := w.with(nil).Check(t.Context()); outcome.Of(err) != outcome.Throttled || !errors.As(err, &f) || f.RetryAfter <= 0 {
		t.Errorf("got %v", err)
	}
}

// TestPartnerLogin: it is tried with the credential, and only where it may be
// used.
func TestPartnerLogin(t *testing.T) {
	w := newWorld(t)
	wrong := texts{"partner_password": "guessed-password"}
	if _, err := w.with(wrong).Check(t.Context()); !errors.Is(err, fault.AccessDenied) {
		t.Errorf("a wrong password: %v", err)
	}
	if _, err := w.with(wrong).StartSignIn(t.Context(), "anna@a.example"); !errors.Is(err, fault.AccessDenied) {
		t.Errorf("a start with a wrong password: %v", err)
	}
	for _, off := range []string{"false", ""} {
		w.control(http.MethodDelete, "/calls", nil)
		p := w.with(merged(wrong, texts{"allow_password_credentials": off}))
		if _, err := p.Check(t.Context()); err != nil {
			t.Errorf("a login that may not be used: %v", err)
		}
		if _, err := p.StartSignIn(t.Context(), "anna@a.example"); !errors.Is(err, fault.CapabilityMissing) {
			t.Errorf("a start that may not be: %v", err)
		}
		if calls := w.asked(); !slices.Equal(calls, []string{"GET /authenticate"}) {
			t.Errorf("the password left: %v", calls)
		}
	}
}

// TestLinks: a link is taken from wherever it may be, and only to where links
// may lead.
func TestLinks(t *testing.T) {
	w := newWorld(t)
	for _, at := range []string{"data.url", "data.auth_url", "url", "auth_url", "oauth_url"} {
		w.behave(m{"link_at": at})
		if s, err := w.with(nil).StartSignIn(t.Context(), "anna@a.example"); err != nil || !strings.Contains(s.URL, "state=") || s.ID != "" || !s.ExpiresAt.IsZero() {
			t.Errorf("at %s: %+v, %v", at, s, err)
		}
	}
	w.behave(m{"link_at": "elsewhere"})
	if _, err := w.with(nil).StartSignIn(t.Context(), "anna@a.example"); outcome.Of(err) != outcome.Broken {
		t.Errorf("a link somewhere else: %v", err)
	}
	w.behave(m{"link_at": "url"})
	for to, taken := range map[string]bool{
		"https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x": true,
		"http://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=x":  false,
		"https://login.microsoftonline.com@evil.example/":                        false,
		"https://app.plusvibe.ai/login":                                          false,
		"javascript:alert(1)":                                                    false,
	} {
		w.behave(m{"link_to": to})
		s, err := w.with(texts{"auth_hosts": " login.microsoftonline.com , other.example"}).StartSignIn(t.Context(), "anna@a.example")
		if (err == nil) != taken || (s.URL == to) != taken || !taken && outcome.Of(err) != outcome.Broken {
			t.Errorf("%s: %v", to, err)
		}
	}
}

// TestStatuses: the table, and what is not in it.
func TestStatuses(t *testing.T) {
	for status, want := range map[string]standing{
		"ACTIVE": {sdk.AccountConnected, false}, "active": {sdk.AccountConnected, false}, "INACTIVE": {sdk.AccountConnected, true},
		"PAUSED": {sdk.AccountConnected, true}, "ERROR": {sdk.AccountFailed, false}, "DISCONNECTED": {sdk.AccountFailed, false},
		"FAILED": {sdk.AccountFailed, false}, "IMAP_ERROR": {sdk.AccountFailed, false}, "PENDING": {sdk.AccountPending, false},
		"CONNECTING": {sdk.AccountPending, false}, "": {sdk.AccountOther, false}, "7": {sdk.AccountOther, false}, "ERRORLESS": {sdk.AccountOther, false},
	} {
		got, known := standingOf(status)
		if got != want || known != (want.state != sdk.AccountOther) {
			t.Errorf("%q: %+v, %v", status, got, known)
		}
	}
}

// TestStamps: the time of the last change and the status make a stamp.
func TestStamps(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range []accountDoc{{Updated: "1", Status: "ACTIVE"}, {Updated: "2", Status: "ACTIVE"}, {Updated: "2", Status: "ERROR"}, {Status: "ERROR"}} {
		seen[d.account().Stamp] = true
	}
	if len(seen) != 4 {
		t.Errorf("got %v", seen)
	}
}

// TestAnotherWorkspace: accounts of one workspace are not in another one, and a
// workspace is asked for.
func TestAnotherWorkspace(t *testing.T) {
	w := newWorld(t)
	w.put("anna@a.example", m{})
	if a, err := w.with(nil).Account(t.Context(), "anna@a.example"); err != nil || !a.There() {
		t.Errorf("in its workspace: %+v, %v", a, err)
	}
	other := w.with(texts{"workspace_id": w.Ready.Sending.Workspaces[1].ID})
	if a, err := other.Account(t.Context(), "anna@a.example"); err != nil || a.There() {
		t.Errorf("in another: %+v, %v", a, err)
	}
	if _, err := w.with(texts{"workspace_id": "65f3a1b2c3d4e5f6ffffffff"}).Accounts(t.Context(), ""); outcome.Of(err) != outcome.Refused {
		t.Errorf("in one that the key does not reach: %v", err)
	}
	none := w.with(texts{"workspace_id": ""})
	if reach, err := none.Check(t.Context()); err != nil || len(reach.Workspaces) != 2 {
		t.Errorf("a check names none: %+v, %v", reach, err)
	}
	_, accounts := none.Accounts(t.Context(), "")
	_, start := none.StartSignIn(t.Context(), "anna@a.example")
	for _, err := range []error{accounts, start, none.Remove(t.Context(), "anna@a.example")} {
		if !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("without one: %v", err)
		}
	}
}

// TestRemovalWhereThePathIsWrong: when the guess is wrong, an account that is
// still there is not taken for removed, and one that is not there is.
func TestRemovalWhereThePathIsWrong(t *testing.T) {
	w := newWorld(t)
	w.put("anna@a.example", m{})
	w.behave(m{"delete_path": ""})
	if err := w.with(nil).Remove(t.Context(), "anna@a.example"); !errors.Is(err, fault.CapabilityMissing) {
		t.Errorf("an account that is there: %v", err)
	}
	if err := w.with(nil).Remove(t.Context(), "bob@a.example"); err != nil {
		t.Errorf("one that is not: %v", err)
	}
	w.behave(m{"delete_path": deletePath})
	w.fault(m{"kind": "status", "status": 400, "operation": "remove"})
	if err := w.with(nil).Remove(t.Context(), "anna@a.example"); outcome.Of(err) != outcome.Refused || errors.Is(err, fault.CapabilityMissing) {
		t.Errorf("a refused call: %v", err)
	}
	w.fault(m{"kind": "status", "status": 400, "operation": "remove"})
	w.fault(m{"kind": "status", "status": 503, "operation": "account"})
	if err := w.with(nil).Remove(t.Context(), "anna@a.example"); outcome.Of(err) != outcome.Unknown {
		t.Errorf("a refused call that nobody can look into: %v", err)
	}
}

// TestWhatIsNeverCalled: the listing that wants a password in the address, and
// the reconnection that makes things worse.
func TestWhatIsNeverCalled(t *testing.T) {
	w := newWorld(t)
	p := w.with(nil)
	w.put("anna@a.example", m{"status": "ERROR"})
	_, check := p.Check(t.Context())
	_, accounts := p.Accounts(t.Context(), "")
	_, account := p.Account(t.Context(), "anna@a.example")
	_, start := p.StartSignIn(t.Context(), "anna@a.example")
	for _, err := range []error{check, accounts, account, start, p.Remove(t.Context(), "anna@a.example")} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{"GET /authenticate", "POST /webhook/partner-list-workspace", "GET /account/list", "GET /account/list",
		"POST /webhook/partner-microsoft-oauth-url", "POST /account/delete"}
	if got := w.asked(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestWhatLeaves: keys in a header, passwords in bodies, nothing of both in
// addresses, and the name that the operator chose.
func TestWhatLeaves(t *testing.T) {
	var addresses, agents []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addresses, agents = append(addresses, r.URL.String()), append(agents, r.Header.Get("User-Agent"))
		if partner := strings.Contains(r.URL.Path, "partner"); partner == (r.Header.Get("X-Api-Key") != "") {
			t.Errorf("%s with the key %q", r.URL.Path, r.Header.Get("X-Api-Key"))
		}
		_, _ = w.Write([]byte(`{"status": "success", "workspaces": [], "accounts": [], "code": "1", "url": "https://login.microsoftonline.com/x"}`))
	}))
	t.Cleanup(server.Close)
	p, err := newHouse().provider(sdk.Connection{
		Settings: texts{"base_url": server.URL + "/", "workspace_id": "65f3a1b2c3d4e5f600000001", "user_agent": "Mozilla/5.0 (X11)", "allow_password_credentials": "true"},
		Secrets:  map[string]secret.Text{"api_key": secret.New("canary-key"), "partner_username": secret.New("canary@user"), "partner_password": secret.New("canary-password")},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, check := p.Check(t.Context())
	_, accounts := p.Accounts(t.Context(), "")
	_, start := p.StartSignIn(t.Context(), "anna@a.example")
	if err := errors.Join(check, accounts, start, p.Remove(t.Context(), "anna@a.example")); err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if strings.Contains(address, "canary") || strings.Contains(address, "anna") {
			t.Errorf("in an address: %s", address)
		}
	}
	if len(agents) != 5 || slices.ContainsFunc(agents, func(a string) bool { return a != "Mozilla/5.0 (X11)" }) {
		t.Errorf("called as %q", agents)
	}
}

// TestOddAnswers are those that hold no accounts, or not what makes one.
func TestOddAnswers(t *testing.T) {
	for body, want := range map[string]outcome.Kind{
		`{"accounts": [{"_id": 7, "email": "anna@a.example", "status": 3, "timestamp_updated": 1700000000000, "payload": {"name": {}}}]}`: 0,
		`{"accounts": [{"email": "anna@a.example", "status": null}]}`:                                                                     0,
		`{"accounts": [{"_id": "x", "status": "ACTIVE"}]}`:                                                                                outcome.Broken,
		`{"accounts": null}`:                             outcome.Broken,
		`{"status": "error", "message": "no workspace"}`: outcome.Broken,
		`[]`: outcome.Broken,
		`{"accounts": "` + strings.Repeat("x", 9<<20) + `"}`: outcome.Broken,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		p, err := newHouse().provider(sdk.Connection{
			Settings: texts{"base_url": server.URL, "workspace_id": "w"}, Secrets: map[string]secret.Text{"api_key": secret.New("k")},
		})
		if err != nil {
			t.Fatal(err)
		}
		page, err := p.Accounts(t.Context(), "")
		if outcome.Of(err) != want || (want == 0) != (len(page.Accounts) == 1) {
			t.Errorf("%.60s: %+v, %v", body, page, err)
		}
		server.Close()
	}
}

// TestCursors: one that no page gave is refused.
func TestCursors(t *testing.T) {
	w := newWorld(t)
	for _, cursor := range []string{"100", "-1 abc", "x y", "0 abc"} {
		if _, err := w.with(nil).Accounts(t.Context(), cursor); outcome.Of(err) != outcome.Refused {
			t.Errorf("%q: %v", cursor, err)
		}
	}
}

// TestConnectionsThatMakeNoSense are refused before anybody is asked.
func TestConnectionsThatMakeNoSense(t *testing.T) {
	w := newWorld(t)
	for name, value := range map[string]string{
		"api_key": "two words", "base_url": "plusvibe", "user_agent": "a\nb", "partner_password": "",
	} {
		_, err := newHouse().provider(w.connection(texts{name: value}))
		var o *outcome.Error
		if !errors.Is(err, fault.InvalidRequest) || !errors.As(err, &o) || o.Cause != outcome.CauseSetting+name {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(fmt.Sprintf("%v %+v", err, o), "two words") {
			t.Errorf("%s is quoted", name)
		}
	}
	for _, key := range []string{"", "k\r\nX: y", "schlüssel"} {
		if _, err := newHouse().provider(w.connection(texts{"api_key": key})); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("the key %q: %v", key, err)
		}
	}
}

// TestDescription: what the host computes capabilities and budgets from.
func TestDescription(t *testing.T) {
	d := description()
	if needs := d.Needs[integration.CanOAuth]; !slices.Equal(needs, []string{"partner_username", "partner_password", "allow_password_credentials"}) {
		t.Errorf("signing in needs %v", needs)
	}
	for _, f := range d.Fields {
		if f.Name == "allow_password_credentials" && (f.Default != "false" || f.Account) {
			t.Errorf("passwords are allowed by default, or by accounts: %+v", f)
		}
		if strings.HasPrefix(f.Name, "partner_") && (!f.Secret || !f.Account) {
			t.Errorf("%+v is no secret of an account", f)
		}
	}
	if b := d.Budgets; len(b) != 1 || b[0].Key != "credential" || b[0].Limit != 5 || b[0].Window != time.Second {
		t.Errorf("got %+v", b)
	}
}
