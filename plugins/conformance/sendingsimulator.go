// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// SendingSimulator checks the simulator of a sending platform whose sign-in links expire after ten
// minutes. It checks the links, the control calls, and the state after a restart. The simulator
// must be a simulate.Platform with the control calls DELETE /keys/{key} and POST /behaviour with
// `list_lag_ms`. The plugin must report an account with the `status` ERROR as failed. invalid is a
// body with a value that POST /behaviour does not allow.
func SendingSimulator[R contract.Runner[R]](t R, open opener, p sdk.Plugin, invalid string) {
	startSimulator := func(t R) (*SendingTest, func(address string) sdk.Account, func() string) {
		env := SimulateSending(t, open, p.Sending)
		if workspaces := env.Ready.Sending.Workspaces; len(workspaces) > 0 {
			env.Ready.Settings["workspace_id"] = workspaces[0].ID
		}
		account := func(address string) sdk.Account {
			t.Helper()
			a, err := env.With().Account(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		return env, account, func() string {
			t.Helper()
			signIn, err := env.With().StartSignIn(t.Context(), "anna@a.example")
			if err != nil {
				t.Fatal(err)
			}
			return signIn.URL
		}
	}
	t.Run("a sign-in link works once, and only for ten minutes", func(t R) {
		env, account, newLink := startSimulator(t)
		usedLink := newLink()
		if status, page := env.OpenLink(usedLink); status != http.StatusOK || !strings.Contains(page, p.Describe.Title) || strings.Contains(page, "anna@a.example") {
			t.Errorf("the page of an unused link: %d %s, want 200 and a page with the title and without the address", status, page)
		}
		if status, _ := env.Decide(usedLink, "bob.king@a.example", "accept"); status != http.StatusOK {
			t.Errorf("accepting a sign-in: %d, want 200", status)
		}
		if a := account("bob.king@a.example"); a.State != sdk.AccountConnected || a.Name != "Bob King" {
			t.Errorf("the account that signed in is %+v, want it connected and named Bob King", a)
		}
		if status, _ := env.Decide(usedLink, "carl@a.example", "accept"); status != http.StatusBadRequest {
			t.Errorf("accepting on a used link: %d, want 400", status)
		}
		expiredLink := newLink()
		env.Send(http.MethodPost, "/clock", map[string]string{"advance": "10m"})
		if status, _ := env.Decide(expiredLink, "carl@a.example", "accept"); status != http.StatusBadRequest {
			t.Errorf("accepting on an expired link: %d, want 400", status)
		}
		if a := account("carl@a.example"); a.Exists() {
			t.Errorf("a used or expired link connected %+v", a)
		}
	})
	t.Run("a new account appears after the list lag", func(t R) {
		env, account, newLink := startSimulator(t)
		env.Behave(map[string]any{"list_lag_ms": 60000})
		env.Decide(newLink(), "anna@a.example", "accept")
		if a := account("anna@a.example"); a.Exists() {
			t.Errorf("the account is visible before the list lag has passed: %+v", a)
		}
		env.Send(http.MethodPost, "/clock", map[string]string{"advance": "1m"})
		if a := account("anna@a.example"); !a.Exists() {
			t.Error("the account is not visible after the list lag has passed")
		}
	})
	t.Run("control calls change accounts", func(t R) {
		env, account, _ := startSimulator(t)
		env.Put("anna@a.example", map[string]any{})
		first := account("anna@a.example")
		env.Put("anna@a.example", map[string]any{"status": "ERROR"})
		if second := account("anna@a.example"); first.State != sdk.AccountConnected || second.State != sdk.AccountFailed || second.Stamp == first.Stamp {
			t.Errorf("the account is %+v, then %+v, want it connected, then failed with a different stamp", first, second)
		}
		env.Send(http.MethodDelete, "/accounts/anna@a.example", nil)
		if third := account("anna@a.example"); third.Exists() {
			t.Errorf("the deleted account still exists: %+v", third)
		}
		env.Send(http.MethodDelete, "/keys/"+env.Ready.Secrets["api_key"], nil)
		if _, err := env.With().Check(t.Context()); !errors.Is(err, fault.AccessDenied) {
			t.Errorf("Check with a deleted key returned %v, want access_denied", err)
		}
	})
	t.Run("invalid control calls are refused and create no account", func(t R) {
		env, _, _ := startSimulator(t)
		for call, body := range map[string]string{
			"PUT /accounts/anna@a.example": `{"state": "active"}`, "DELETE /accounts/anna@a.example": ``, "PUT /keys/k": `{"workspace": "w"}`,
			"POST /behaviour": invalid, "PUT /behaviour": `{}`, "POST /accounts": ``,
		} {
			method, path, _ := strings.Cut(call, " ")
			status, _ := env.request(method, env.URL+"/_control"+path, "application/json", body)
			if status != http.StatusBadRequest && status != http.StatusNotFound {
				t.Errorf("%s: %d, want 400 or 404", call, status)
			}
		}
		if accounts := env.Held(""); len(accounts) != 0 {
			t.Errorf("invalid control calls created accounts: %v", accounts)
		}
	})
	t.Run("the state survives a restart", func(t R) {
		dir := t.TempDir()
		for _, call := range []string{"PUT {}", "DELETE "} {
			handler, ready, err := open(simulate.Options{URL: "http://127.0.0.1:1", DataDir: dir, Log: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			method, body, _ := strings.Cut(call, " ")
			request, err := http.NewRequestWithContext(t.Context(), method, ready.URL+"/_control/accounts/anna@a.example", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer := newResponseBuffer()
			if handler.ServeHTTP(answer, request); answer.status != http.StatusOK {
				t.Errorf("%s: %d, want 200", method, answer.status)
			}
		}
	})
}

// ReadmeNamesTests checks the table rows of README.md that end with the name of a test. There must
// be at least `least` such rows, and the tests must exist in the folder.
func ReadmeNamesTests(t T, least int) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sources.Write(raw)
	}
	testNames := regexp.MustCompile("`(Test[A-Za-z]+)` \\|").FindAllStringSubmatch(string(page), -1)
	for _, match := range testNames {
		if !strings.Contains(sources.String(), "func "+match[1]+"(t *testing.T)") {
			t.Errorf("README.md names the test %s, which does not exist", match[1])
		}
	}
	if len(testNames) < least {
		t.Errorf("README.md has %d rows that end with the name of a test, want at least %d", len(testNames), least)
	}
}
