// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// client calls a simulator that runs on loopback.
type client struct {
	t         *testing.T
	url       string
	token     string
	asBrowser bool // do not send "Accept: application/json"
}

func openSimulator(t *testing.T, dir string) client {
	t.Helper()
	var simulator http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { simulator.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	var err error
	if simulator, _, err = New(simulate.Options{URL: server.URL, DataDir: dir, Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	return client{t: t, url: server.URL, token: Token}
}

var httpClient = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// call makes a request and decodes the JSON of its answer.
func (c client) call(method, path string, body any) (status int, headers http.Header, doc map[string]any) {
	c.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequest(method, c.url+path, bytes.NewReader(encoded))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if !c.asBrowser {
		req.Header.Set("Accept", "application/json")
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_ = json.NewDecoder(resp.Body).Decode(&doc)
	return resp.StatusCode, resp.Header, doc
}

func (c client) control(method, path string, body any) {
	c.t.Helper()
	if status, _, doc := c.call(method, "/_control"+path, body); status != http.StatusOK {
		c.t.Fatalf("%s %s: %d %v, want 200", method, path, status, doc)
	}
}

func TestInvalidTokensAreRefused(t *testing.T) {
	sim := openSimulator(t, t.TempDir())
	if status, _, doc := sim.call("GET", "/api/users", nil); status != 200 || doc["data"].(map[string]any)["workspace"].(map[string]any)["name"] != "Simulated" {
		t.Errorf("the owner of a valid token: %d %v, want 200 and the workspace Simulated", status, doc)
	}
	withGuessedToken := sim
	withGuessedToken.token = "9|guessed"
	if status, _, doc := withGuessedToken.call("GET", "/api/users", nil); status != 401 || doc["message"] != "Unauthenticated." {
		t.Errorf("a guessed token: %d %v, want 401", status, doc)
	}
	withGuessedToken.asBrowser = true
	if status, h, _ := withGuessedToken.call("GET", "/api/users", nil); status != 302 || h.Get("Location") != "/login" {
		t.Errorf("a guessed token of a browser: %d %v, want 302 to /login", status, h)
	}
	sim.control("PUT", "/tokens", map[string]any{"token": Token, "revoked": true})
	if status, _, _ := sim.call("GET", "/api/users", nil); status != 401 {
		t.Errorf("a revoked token: %d, want 401", status)
	}
}

func TestSuperAdminsShareTheSelectedWorkspace(t *testing.T) {
	sim := openSimulator(t, t.TempDir())
	sim.control("PUT", "/workspaces", []workspace{{1, "One"}, {2, "Two"}})
	sim.control("PUT", "/accounts/anna@a.example", map[string]any{})
	sim.control("PUT", "/tokens", map[string]any{"token": "1|a", "type": "super-admin"})
	sim.control("PUT", "/tokens", map[string]any{"token": "2|b", "type": "super-admin"})
	selectingAdmin, otherAdmin := sim, sim
	selectingAdmin.token, otherAdmin.token = "1|a", "2|b"
	count := func(sender client, path string) int {
		_, _, doc := sender.call("GET", path, nil)
		return len(doc["data"].([]any))
	}
	if count(sim, "/api/workspaces/v1.1") != 1 || count(selectingAdmin, "/api/workspaces/v1.1") != 2 || count(otherAdmin, "/api/sender-emails") != 1 {
		t.Error("want one workspace for the api-user, both workspaces for the super-admin, and one account in the selected workspace")
	}
	if status, _, _ := sim.call("POST", "/api/workspaces/v1.1/switch-workspace", map[string]int{"team_id": 2}); status != 403 {
		t.Errorf("an api-user selects a workspace: %d, want 403", status)
	}
	for _, body := range []map[string]int{{}, {"team_id": 9}} {
		if status, _, doc := selectingAdmin.call("POST", "/api/workspaces/v1.1/switch-workspace", body); status != 422 || doc["errors"].(map[string]any)["team_id"] == nil {
			t.Errorf("selecting the workspace %v: %d %v, want 422", body, status, doc)
		}
	}
	if status, _, _ := selectingAdmin.call("POST", "/api/workspaces/v1.1/switch-workspace", map[string]int{"team_id": 2}); status != 200 {
		t.Errorf("a super-admin selects a workspace: %d, want 200", status)
	}
	if count(otherAdmin, "/api/sender-emails") != 0 || count(sim, "/api/sender-emails") != 1 {
		t.Error("after the selection, want no account for the second super-admin, and still one account for the api-user")
	}
	if status, _, _ := sim.call("GET", "/api/workspaces/v1.1/2", nil); status != 404 {
		t.Errorf("the workspace of a different token: %d, want 404", status)
	}
}

func TestSendersAreCreatedChangedAndDeleted(t *testing.T) {
	sim := openSimulator(t, t.TempDir())
	validBody := map[string]any{"name": "Anna", "email": "anna@a.example", "password": "p", "imap_server": "i", "imap_port": 993, "smtp_server": "s", "smtp_port": 587}
	if status, _, doc := sim.call("POST", "/api/sender-emails/imap-smtp", map[string]any{"name": "Anna"}); status != 422 || doc["errors"].(map[string]any)["email"] == nil {
		t.Errorf("missing fields: %d %v, want 422", status, doc)
	}
	status, _, doc := sim.call("POST", "/api/sender-emails/imap-smtp", validBody)
	if status != 200 || doc["data"].(map[string]any)["type"] != "Inbox" {
		t.Fatalf("creating a mailbox: %d %v, want 200 and the type Inbox", status, doc)
	}
	if status, _, _ := sim.call("POST", "/api/sender-emails/imap-smtp", validBody); status != 422 {
		t.Errorf("creating the mailbox again: %d, want 422", status)
	}
	for _, id := range []string{strconv.Itoa(int(doc["data"].(map[string]any)["id"].(float64))), "anna@a.example"} {
		if status, _, _ := sim.call("PATCH", "/api/sender-emails/"+id, map[string]any{"daily_limit": 9}); status != 200 {
			t.Errorf("changing %s: %d, want 200", id, status)
		}
		if _, _, doc := sim.call("GET", "/api/sender-emails/"+id, nil); doc["data"].(map[string]any)["daily_limit"] != 9.0 {
			t.Errorf("%s is %v, want a daily_limit of 9", id, doc)
		}
	}
	if status, _, doc := sim.call("GET", "/api/sender-emails/1/oauth-access-token", nil); status != 200 || doc["data"].(map[string]any)["access_token"] == "" {
		t.Errorf("the token of the mailbox: %d %v, want 200 and a token", status, doc)
	}
	if status, _, _ := sim.call("DELETE", "/api/sender-emails/1", nil); status != 200 {
		t.Errorf("deleting the mailbox: %d, want 200", status)
	}
	if status, _, doc := sim.call("DELETE", "/api/sender-emails/1", nil); status != 404 || doc["data"].(map[string]any)["success"] != false {
		t.Errorf("deleting the mailbox again: %d %v, want 404", status, doc)
	}
}

func TestListsHavePagesOfFifteen(t *testing.T) {
	sim := openSimulator(t, t.TempDir())
	for i := range 16 {
		sim.control("PUT", "/accounts/user"+strconv.Itoa(i)+"@a.example", map[string]any{"status": "Not connected"})
	}
	for query, want := range map[string]int{"": 15, "?page=2": 1, "?page=3": 0, "?page=9223372036854775807": 0, "?per_page=100": 15, "?search=USER1": 7, "?page=x": 15} {
		_, h, doc := sim.call("GET", "/api/sender-emails"+query, nil)
		meta := doc["meta"].(map[string]any)
		if len(doc["data"].([]any)) != want || meta["per_page"] != 15.0 || h.Get("X-RateLimit-Limit") != "3000" {
			t.Errorf("%s: %v rows, want %d; meta %v", query, len(doc["data"].([]any)), want, meta)
		}
		if hasMore := doc["links"].(map[string]any)["next"] != nil; hasMore != (meta["current_page"].(float64) < meta["last_page"].(float64)) {
			t.Errorf("%s: a link to a next page is present: %v, want it only before the last page; meta is %v", query, hasMore, meta)
		}
	}
	sim.control("PUT", "/quirks", map[string]any{"honour_per_page": true, "ignore_search": true})
	if _, _, doc := sim.call("GET", "/api/sender-emails?per_page=100&search=x", nil); len(doc["data"].([]any)) != 16 {
		t.Errorf("with the quirks: %v, want all 16 accounts on one page", doc["data"])
	}
}

// TestCallsPerMinuteAreLimited checks that the limit of calls holds for a minute, although the
// simulated clock moves back.
func TestCallsPerMinuteAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, _, err := New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		call := func() *httptest.ResponseRecorder {
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/api/users", nil))
			return recorder
		}
		moveClock := func(duration string) {
			body := strings.NewReader(`{"advance":"` + duration + `"}`)
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/_control/clock", body))
		}
		moveClock("24h")
		for range rate.Calls {
			if call().Code == 429 {
				t.Fatalf("a call within the limit of %d is throttled", rate.Calls)
			}
		}
		if answer := call(); answer.Code != 429 || answer.Header().Get("Retry-After") != "60" || answer.Header().Get("X-RateLimit-Remaining") != "0" {
			t.Errorf("a call beyond the limit: %d %v, want 429 for 60 s", answer.Code, answer.Header())
		}
		moveClock("-24h")
		time.Sleep(time.Minute)
		if answer := call(); answer.Code == 429 || answer.Header().Get("X-RateLimit-Remaining") != "2999" {
			t.Errorf("a call in the next window: %d %v, want 2999 remaining calls", answer.Code, answer.Header())
		}
	})
}

// TestUploaderConnectsMailboxes connects mailboxes on the page of the uploader, and checks that
// accounts survive a restart.
func TestUploaderConnectsMailboxes(t *testing.T) {
	dir := t.TempDir()
	sim := openSimulator(t, dir)
	sim.control("PUT", "/accounts/bob@a.example", map[string]any{"status": "Not connected"})
	for _, address := range []string{"bob@a.example", "carl@a.example"} {
		resp, err := http.PostForm(sim.url+connectPath, url.Values{"username": {address}, "decision": {"accept"}})
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != 200 {
			t.Errorf("the form answers %d, want 200", resp.StatusCode)
		}
	}
	sim = openSimulator(t, dir)
	_, _, doc := sim.call("GET", "/api/sender-emails?search=@a.example", nil)
	list := doc["data"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["status"] != "Connected" || list[1].(map[string]any)["email"] != "carl@a.example" {
		t.Errorf("after a restart: %v, want bob connected, and carl", list)
	}
	sim.control("DELETE", "/accounts/carl@a.example", nil)
	if status, _, _ := sim.call("DELETE", "/_control/accounts/carl@a.example", nil); status != 404 {
		t.Errorf("the second removal: %d, want 404", status)
	}
}
