// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// testClient calls a simulator without a network, so that a fake clock does not move during a call.
type testClient struct {
	t       *testing.T
	handler http.Handler
}

func openSimulator(t *testing.T, dir string) testClient {
	t.Helper()
	handler, _, err := New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: dir, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return testClient{t, handler}
}

// call makes a request and decodes the JSON of its answer.
func (c testClient) call(method, path string, body any) (status int, headers http.Header, doc any) {
	c.t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		c.t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	c.handler.ServeHTTP(answer, httptest.NewRequest(method, path, bytes.NewReader(encoded)))
	_ = json.NewDecoder(answer.Body).Decode(&doc)
	return answer.Code, answer.Header(), doc
}

// api makes a request to the API with the key of the sandbox.
func (c testClient) api(method, path string, body any) (int, http.Header, any) {
	c.t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	return c.call(method, prefix+path+separator+"api_key="+Key, body)
}

func TestPathsAreServedWithAndWithoutTrailingSlash(t *testing.T) {
	client := openSimulator(t, t.TempDir())
	client.call("PUT", "/_control/accounts/anna@a.example", map[string]any{})
	for _, path := range []string{"/email-accounts", "/email-accounts/"} {
		status, _, doc := client.api("GET", path, nil)
		if list, isBareList := doc.([]any); status != 200 || !isBareList || len(list) != 1 || list[0].(map[string]any)["password"] != nil {
			t.Errorf("%s: %d %v, want 200 with a bare list of one account without a password", path, status, doc)
		}
	}
	_, _, doc := client.api("GET", "/email-accounts/", nil)
	id := strconv.Itoa(int(doc.([]any)[0].(map[string]any)["id"].(float64)))
	for _, path := range []string{"/email-accounts/" + id, "/email-accounts/" + id + "/"} {
		status, _, doc := client.api("GET", path, nil)
		if account := doc.(map[string]any); status != 200 || account["user_id"] != 4001.0 || account["password"] == "" {
			t.Errorf("%s: %d %v, want 200 with the password and the user of the account", path, status, doc)
		}
	}
}

func TestListsAreFilteredAndPaged(t *testing.T) {
	client := openSimulator(t, t.TempDir())
	for _, a := range []string{"anna@a.example", "joanna@a.example", "bob@a.example"} {
		client.call("PUT", "/_control/accounts/"+a, map[string]any{})
	}
	for query, want := range map[string]int{"?username=Anna%40a": 2, "?limit=2": 2, "?limit=2&offset=2": 1, "?offset=9": 0, "?client_id=7": 0, "?esp=GMAIL": 0, "?isSmtpSuccess=true": 3} {
		if status, _, doc := client.api("GET", "/email-accounts/"+query, nil); status != 200 || len(doc.([]any)) != want {
			t.Errorf("%s: %d %v, want 200 with %d accounts", query, status, doc, want)
		}
	}
	for _, query := range []string{"?limit=101", "?limit=0", "?offset=x"} {
		if status, _, doc := client.api("GET", "/email-accounts/"+query, nil); status != 400 || doc.(map[string]any)["error"] != "Bad Request" {
			t.Errorf("%s: %d %v, want 400 Bad Request", query, status, doc)
		}
	}
}

// TestRateLimitsOfAKey checks the limits per minute and per second of a plan, and the headers of
// the limit per minute. A move of the simulated clock has no effect on them.
func TestRateLimitsOfAKey(t *testing.T) { synctest.Test(t, testRateLimits) }

func testRateLimits(t *testing.T) {
	client := openSimulator(t, t.TempDir())
	moveClock := func(duration string) { client.call("POST", "/_control/clock", map[string]string{"advance": duration}) }
	moveClock("24h")
	for i := range 60 {
		status, headers, _ := client.api("GET", "/email-accounts", nil)
		if status != 200 || headers.Get("X-RateLimit-Limit") != "60" || headers.Get("X-RateLimit-Remaining") != strconv.Itoa(59-i) {
			t.Fatalf("call %d: %d %v, want 200 with %d remaining calls of 60", i, status, headers, 59-i)
		}
		time.Sleep(200 * time.Millisecond)
	}
	moveClock("-24h")
	status, headers, doc := client.api("GET", "/email-accounts", nil)
	wait, _ := strconv.Atoi(headers.Get("Retry-After")) // the 60 calls have taken 12 s of the minute
	if status != 429 || wait != 48 || doc.(map[string]any)["error"].(map[string]any)["code"] != "RATE_LIMIT_EXCEEDED" {
		t.Fatalf("call 61: %d %v %v, want 429 with a wait of 48 s", status, headers, doc)
	}
	if reset, err := strconv.ParseInt(headers.Get("X-RateLimit-Reset"), 10, 64); err != nil || time.Until(time.Unix(reset, 0)) != 48*time.Second {
		t.Errorf("X-RateLimit-Reset is %v, %v, want the time in 48 s", reset, err)
	}
	time.Sleep(50 * time.Second)
	if status, _, _ := client.api("GET", "/email-accounts", nil); status != 200 {
		t.Errorf("a call after the wait: %d, want 200", status)
	}
	for range 10 {
		status, _, _ = client.api("GET", "/email-accounts", nil)
	}
	if status != 429 {
		t.Errorf("the last of eleven calls at once: %d, want 429", status)
	}
	if status, _, _ := client.call("PUT", "/_control/plan", map[string]string{"plan": "gold"}); status != 400 {
		t.Errorf("an unknown plan: %d, want 400", status)
	}
}

func TestKeysAreCheckedAndSeeOnlyTheirUser(t *testing.T) {
	client := openSimulator(t, t.TempDir())
	if status, _, doc := client.call("GET", prefix+"/email-accounts?api_key=x", nil); status != 401 || doc.(map[string]any)["message"] != "Invalid API Key" {
		t.Errorf("an unknown key: %d %v, want 401 with the message Invalid API Key", status, doc)
	}
	client.call("PUT", "/_control/keys/second", map[string]any{"user_id": 4002})
	client.call("PUT", "/_control/accounts/anna@a.example", map[string]any{})
	if status, _, doc := client.call("GET", prefix+"/email-accounts?api_key=second", nil); status != 200 || len(doc.([]any)) != 0 {
		t.Errorf("the key of a different user: %d %v, want 200 with no account", status, doc)
	}
	client.call("PUT", "/_control/keys/second", map[string]any{"revoked": true})
	if status, _, _ := client.call("GET", prefix+"/email-accounts?api_key=second", nil); status != 401 {
		t.Errorf("a revoked key: %d, want 401", status)
	}
}

func TestAccountsAreSuspendedAndDeleted(t *testing.T) {
	client := openSimulator(t, t.TempDir())
	client.call("PUT", "/_control/accounts/anna@a.example", map[string]any{})
	if status, _, _ := client.api("PUT", "/email-accounts/suspend/139919", nil); status != 200 {
		t.Errorf("suspending an account: %d, want 200", status)
	}
	if _, _, doc := client.api("GET", "/email-accounts/139919", nil); doc.(map[string]any)["is_suspended"] != true {
		t.Errorf("the suspended account is %v, want is_suspended true", doc)
	}
	if status, _, _ := client.api("DELETE", "/email-accounts/unsuspend/1", nil); status != 400 {
		t.Errorf("unsuspending an unknown account: %d, want 400", status)
	}
	if status, _, doc := client.api("DELETE", "/email-accounts/139919", nil); status != 200 || doc.(map[string]any)["ok"] != true {
		t.Errorf("deleting an account: %d %v, want 200 with ok true", status, doc)
	}
	if status, _, doc := client.api("DELETE", "/email-accounts/139919", nil); status != 404 || doc.(map[string]any)["errorCode"] != "ACCOUNT_NOT_FOUND" {
		t.Errorf("deleting the account again: %d %v, want 404 ACCOUNT_NOT_FOUND", status, doc)
	}
}

// TestSaveOAuthValidatesItsFields covers invalid fields, an expired token and a valid request.
func TestSaveOAuthValidatesItsFields(t *testing.T) {
	client := openSimulator(t, t.TempDir())
	valid := func() map[string]any {
		return map[string]any{
			"from_name": "Anna", "from_email": "anna@a.example", "username": "anna@a.example", "type": "OUTLOOK", "warmup_enabled": false, "use_whitelabel_credentials": true,
			"token": map[string]any{
				"scope": "https://outlook.office.com/SMTP.Send", "token_type": "Bearer", "access_token": "a", "refresh_token": "r",
				"expiry_date": time.Now().Add(time.Hour).UnixMilli(),
			},
		}
	}
	for field, want := range map[string]string{"from_name": "from_name is required", "type": "type must be one of [GMAIL, OUTLOOK]", "token": "token is required", "warmup_enabled": "warmup_enabled is required"} {
		incomplete := valid()
		delete(incomplete, field)
		if status, _, doc := client.api("POST", "/email-accounts/save-oauth", incomplete); status != 422 || doc.(map[string]any)["error"] != want {
			t.Errorf("without %s: %d %v, want 422 %s", field, status, doc, want)
		}
	}
	expired := valid()
	expired["token"].(map[string]any)["expiry_date"] = time.Now().Add(-time.Hour).UnixMilli()
	if status, _, doc := client.api("POST", "/email-accounts/save-oauth", expired); status != 400 || doc.(map[string]any)["message"] != "Invalid or expired OAuth token" {
		t.Errorf("an expired token: %d %v, want 400 with the message Invalid or expired OAuth token", status, doc)
	}
	if status, _, doc := client.api("POST", "/email-accounts/save-oauth", valid()); status != 200 || doc.(map[string]any)["data"].(map[string]any)["is_imap_success"] != true {
		t.Errorf("a valid request: %d %v, want 200 with is_imap_success true", status, doc)
	}
}
