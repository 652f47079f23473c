// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/sandbox"
)

// instantlyKey is the API key of the simulator's customer.
const instantlyKey = "simulated-instantly-key"

// callSendingAPI calls the API of a sending platform, as the plugin does.
func callSendingAPI(t *testing.T, method, url string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+instantlyKey)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	must(t, err)
	defer resp.Body.Close()
	answer := map[string]any{}
	must(t, json.NewDecoder(resp.Body).Decode(&answer))
	return resp.StatusCode, answer
}

// TestControlOfASendingPlatform checks the control calls of a sending platform, with the bundled
// plugin of Instantly.
func TestControlOfASendingPlatform(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: bundledPlugin(t, "sending", "instantly"), Seed: true})
	ready, err := env.Open(t.Context(), newService(t).services(env))
	must(t, err)
	if credentials, err := json.Marshal(ready.Sending); err != nil || string(credentials) != `{"instantly":{"api_key":"`+instantlyKey+`"}}` {
		t.Fatalf("the credentials of customers are %s, %v, want the key of instantly", credentials, err)
	}
	apiURL := env.Settings()["instantly"]["base_url"] + "/api/v2"
	_, signIn := callSendingAPI(t, "POST", apiURL+"/oauth/microsoft/init")
	statusURL := apiURL + "/oauth/session/status/" + signIn["session_id"].(string)
	for _, tc := range []struct {
		call, body string
		wantStatus int
		wantText   string
	}{
		{"PUT /sending/instantly/accounts/a%2Fb@one.test", `{"status":-1}`, http.StatusOK, `{}`},
		{"GET /sending/instantly/accounts", ``, http.StatusOK, `"email":"a/b@one.test"`},
		{"DELETE /sending/instantly/accounts/a%2Fb@one.test", ``, http.StatusOK, `{}`},
		{"DELETE /sending/instantly/accounts/a%2Fb@one.test", ``, http.StatusNotFound, `error`},
		{"PUT /sending/instantly/accounts/a@one.test", `{"state":1}`, http.StatusBadRequest, `error`},
		{"POST /sending/instantly/moon", `{}`, http.StatusNotFound, `error`},
		{"GET /sending/nobody/accounts", ``, http.StatusNotFound, `error`},
		{"GET /calls?provider=instantly", ``, http.StatusOK, `"operation":"start_sign_in"`},
		{"POST /faults", `{"provider":"instantly","operation":"sign_in","kind":"status","status":429,"retry_after":9,"times":1}`, http.StatusOK, `{}`},
	} {
		method, path, _ := strings.Cut(tc.call, " ")
		if status, body := sendRequest(t, method, ready.ControlURL+path, tc.body); status != tc.wantStatus || !strings.Contains(body, tc.wantText) {
			t.Fatalf("%s: got %d %s, want %d %s", tc.call, status, body, tc.wantStatus, tc.wantText)
		}
	}
	if code, _ := callSendingAPI(t, "GET", statusURL); code != http.StatusTooManyRequests {
		t.Errorf("a planned fault answers %d, want 429", code)
	}
	if _, signIn := callSendingAPI(t, "GET", statusURL); signIn["status"] != "pending" {
		t.Errorf("the sign-in is %v, want pending", signIn)
	}
	sendRequest(t, "POST", ready.ControlURL+"/clock", `{"advance":"10m"}`)
	if _, signIn := callSendingAPI(t, "GET", statusURL); signIn["status"] != "expired" {
		t.Errorf("after ten minutes the sign-in is %v, want expired", signIn)
	}
}

// TestControlOfASecondWorkspace checks that the control calls of a sending platform apply to the
// workspace in their query, with the bundled plugin of PlusVibe.
func TestControlOfASecondWorkspace(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: bundledPlugin(t, "sending", "plusvibe"), Seed: true})
	ready, err := env.Open(t.Context(), newService(t).services(env))
	must(t, err)
	accounts, ofSecondWorkspace := ready.ControlURL+"/sending/plusvibe/accounts", "?workspace_id=65f3a1b2c3d4e5f600000002"
	if status, body := sendRequest(t, "PUT", accounts+"/ada@one.test"+ofSecondWorkspace, `{}`); status != http.StatusOK {
		t.Fatalf("a new account in the second workspace: got %d %s, want 200", status, body)
	}
	for query, want := range map[string]bool{"": false, ofSecondWorkspace: true} {
		status, body := sendRequest(t, "GET", accounts+query, "")
		if listed := strings.Contains(body, "ada@one.test"); status != http.StatusOK || listed != want {
			t.Errorf("the accounts with the query %q: got %d %s, want the new account listed: %v", query, status, body, want)
		}
	}
}

func TestUnseededSandboxHasNoSendingCustomers(t *testing.T) {
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: bundledPlugin(t, "sending", "instantly")})
	ready, err := env.Open(t.Context(), newService(t).services(env))
	if err != nil || ready.Sending == nil || len(ready.Sending) > 0 {
		t.Fatalf("the credentials of customers are %v, %v, want an empty object", ready.Sending, err)
	}
}

// TestSimulatorsKeepTheirAddress checks that a simulator has the same address after a restart.
// Credentials and links in a browser may contain the address.
func TestSimulatorsKeepTheirAddress(t *testing.T) {
	options := sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake")}
	startedURL := func() string {
		env, err := sandbox.Start(t.Context(), options)
		must(t, err)
		defer closeEnvironment(t, env)
		return env.Settings()["fake"]["login_url"]
	}
	firstURL := startedURL()
	if restartedURL := startedURL(); restartedURL != firstURL {
		t.Fatalf("the address changed from %s to %s", firstURL, restartedURL)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", strings.TrimSuffix(strings.TrimPrefix(firstURL, "http://"), "/login"))
	must(t, err)
	defer func() { _ = listener.Close() }()
	if newURL := startedURL(); newURL == firstURL || newURL == "" {
		t.Fatalf("while the last port is in use the address is %q, want one with a different port", newURL)
	}
}
