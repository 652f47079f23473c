// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
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

// TestOddKeys: answers that say nothing of the key are no refusals of it.
func TestOddKeys(t *testing.T) {
	for _, body := range []string{`{}`, `{"status": "success"}`, `{"status": {"ok": true}, "workspaces": []}`, `{"status": "success", "workspaces": [{"name": "x"}]}`} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		p, err := newHouse().provider(sdk.Connection{Settings: texts{"base_url": server.URL}, Secrets: map[string]secret.Text{"api_key": secret.New("k")}})
		if err != nil {
			t.Fatal(err)
		}
		if reach, err := p.Check(t.Context()); outcome.Of(err) != outcome.Broken {
			t.Errorf("%s: %+v, %v", body, reach, err)
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

// TestDescription: what the host computes capabilities and budgets from.
// TestAccountsThatGo checks that accounts which are removed during a listing hide
// no other account. The overlap of the pages covers a few removals, more break the
// listing.
func TestAccountsThatGo(t *testing.T) {
	removals := []int{4, 5}
	if os.Getenv("TENANTRY_SOAK") != "" {
		removals = []int{0, 1, 4, 5, 120}
	}
	for _, went := range removals {
		w := newWorld(t)
		for i := range 320 {
			w.put(fmt.Sprintf("user%03d@a.example", i), m{})
		}
		seen, broke := map[string]int{}, false
		for at, n := "", 0; n == 0 || at != ""; n++ {
			page, err := w.with(nil).Accounts(t.Context(), at)
			if broke = err != nil; broke {
				break
			}
			for _, a := range page.Accounts {
				seen[a.Address]++
			}
			if at = page.Next; n == 1 {
				for i := range went {
					w.control(http.MethodDelete, fmt.Sprintf("/accounts/user%03d@a.example", i), nil)
				}
			}
		}
		for i := went; i < 320 && !broke; i++ {
			if n := seen[fmt.Sprintf("user%03d@a.example", i)]; n != 1 {
				t.Errorf("after %d removals account %d is listed %d times, want once", went, i, n)
			}
		}
		if broke != (went >= overlap) {
			t.Errorf("after %d removals the listing is broken: %v", went, broke)
		}
	}
}

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
	if b := d.Budgets; len(b) != 1 || b[0].Key != "credential" || b[0].Limit != 50 || b[0].Window != 10*time.Second {
		t.Errorf("got %+v", b)
	}
}
