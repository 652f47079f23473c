// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
)

// startSimulator returns a simulator with its state in dir.
func startSimulator(t *testing.T, dir string) http.Handler {
	t.Helper()
	handler, _, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: dir, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// callSimulator makes a request and decodes the answer. For an HTML page the decoded answer is
// empty.
func callSimulator(handler http.Handler, method, path, body string, header ...string) (int, map[string]any) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	parsed := map[string]any{}
	_ = json.Unmarshal(recorder.Body.Bytes(), &parsed)
	return recorder.Code, parsed
}

const bearer = "Bearer " + simulator.Key

func TestRefusalsHaveInstantlysEnvelope(t *testing.T) {
	handler := startSimulator(t, t.TempDir())
	for name, tc := range map[string]struct {
		method, path string
		header       []string
		status       int
		message      string
	}{
		"no key":             {"GET", "/api/v2/accounts", nil, 401, "Missing Authorization header"},
		"no bearer":          {"GET", "/api/v2/accounts", []string{"Authorization", "Basic x"}, 401, "Invalid API key"},
		"an empty JSON body": {"DELETE", "/api/v2/accounts/a@b.test", []string{"Authorization", bearer, "Content-Type", "application/json"}, 400, "Body cannot be empty"},
		"a page too large":   {"GET", "/api/v2/accounts?limit=101", []string{"Authorization", bearer}, 400, "limit must be <= 100"},
		"an invalid cursor":  {"GET", "/api/v2/accounts?starting_after=x", []string{"Authorization", bearer}, 400, "starting_after"},
		"no such account":    {"GET", "/api/v2/accounts/a@b.test", []string{"Authorization", bearer}, 404, "Account not found"},
		"no such path":       {"GET", "/api/v2/oauth/status/x", []string{"Authorization", bearer}, 404, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			status, answer := callSimulator(handler, tc.method, tc.path, "", tc.header...)
			if status != tc.status || answer["statusCode"] != float64(tc.status) || answer["error"] != http.StatusText(tc.status) || !strings.Contains(fmt.Sprint(answer["message"]), tc.message) {
				t.Errorf("the answer is %d %v, want the envelope of %d with %q", status, answer, tc.status, tc.message)
			}
		})
	}
}

func TestListsAreFilteredAndPaged(t *testing.T) {
	handler := startSimulator(t, t.TempDir())
	callSimulator(handler, "POST", "/_control/accounts", `[{"email":"a@one.test"},{"email":"b@one.test","status":-1},{"email":"c@two.test","provider_code":2}]`)
	for query, want := range map[string]int{
		"": 3, "search=ONE.test": 2, "status=-1": 1, "provider_code=2": 1, "limit=2": 2,
		"starting_after=2020-01-01T00:00:00.000Z": 3, "starting_after=2099-01-01T00:00:00.000Z": 0,
		"starting_after=" + url.QueryEscape("2020-01-01T00:00:00.000Z&a@one.test"): 3,
	} {
		status, answer := callSimulator(handler, "GET", "/api/v2/accounts?"+query, "", "Authorization", bearer)
		items, _ := answer["items"].([]any)
		if _, cursor := answer["next_starting_after"]; status != http.StatusOK || len(items) != want || cursor != (want > 0) {
			t.Errorf("%s: %d %v, want %d accounts, and a cursor unless the list is empty", query, status, answer, want)
		}
	}
}

// TestSignInPageWorksOnce submits the page with invalid values, and twice with valid values after a
// restart. Only the first valid submission succeeds.
func TestSignInPageWorksOnce(t *testing.T) {
	dir := t.TempDir()
	handler := startSimulator(t, dir)
	_, started := callSimulator(handler, "POST", "/api/v2/oauth/microsoft/init", "", "Authorization", bearer)
	_, link, _ := strings.Cut(fmt.Sprint(started["auth_url"]), "http://127.0.0.1:1")
	post := func(handler http.Handler, username, decision string) int {
		status, _ := callSimulator(handler, "POST", link, url.Values{"username": {username}, "decision": {decision}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		return status
	}
	for _, invalid := range []string{"", "no address", "A <a@b.test>"} {
		if status := post(handler, invalid, "accept"); status != http.StatusBadRequest {
			t.Errorf("the username %q: %d, want 400", invalid, status)
		}
	}
	if status := post(handler, "a@b.test", "maybe"); status != http.StatusBadRequest {
		t.Errorf("an unknown decision: %d, want 400", status)
	}
	// After a restart with the same folder the link still works, once.
	handler = startSimulator(t, dir)
	if status := post(handler, "a@b.test", "accept"); status != http.StatusOK {
		t.Errorf("the first acceptance: %d, want 200", status)
	}
	if status := post(handler, "a@b.test", "accept"); status != http.StatusGone {
		t.Errorf("the second acceptance: %d, want 410", status)
	}
	if status, _ := callSimulator(handler, "GET", "/common/oauth2/v2.0/authorize?state=guessed", ""); status != http.StatusGone {
		t.Errorf("a guessed link: %d, want 410", status)
	}
}

func TestControlCallsReportMissingObjects(t *testing.T) {
	handler := startSimulator(t, t.TempDir())
	for call, want := range map[string]int{
		"DELETE /accounts/a@b.test": http.StatusNotFound, "POST /sessions/x/complete": http.StatusBadRequest, "POST /sessions/x/deny": http.StatusNotFound,
		"POST /sessions/x/forget": http.StatusNotFound, "GET /nothing": http.StatusNotFound, "POST /behaviour": http.StatusOK, "GET /sessions": http.StatusOK,
	} {
		method, path, _ := strings.Cut(call, " ")
		if status, _ := callSimulator(handler, method, "/_control"+path, "{}"); status != want {
			t.Errorf("%s: %d, want %d", call, status, want)
		}
	}
	if status, _ := callSimulator(handler, "PUT", "/_control/keys/k", `{"scope":["a"]}`); status != http.StatusBadRequest {
		t.Errorf("an unknown member: %d, want 400", status)
	}
}
