// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-plusvibe/simulator"
)

func TestCheckReturnsTheWorkspacesOfTheKey(t *testing.T) {
	env := newTestEnv(t)
	for _, n := range []int{0, 1, 3} {
		reach, err := env.with(env.key("some", n)).Check(t.Context())
		if err != nil || len(reach.Workspaces) != n || reach.SelectedWorkspaceOnly {
			t.Errorf("%d: %+v, %v", n, reach, err)
		}
	}
	env.control(http.MethodDelete, "/keys/some", nil)
	if _, err := env.with(texts{"api_key": "some"}).Check(t.Context()); err == nil {
		t.Error("a deleted key is accepted")
	}
}

// TestSignInLinkWorksOnceForTenMinutes also checks that the account that signs in is attached.
func TestSignInLinkWorksOnceForTenMinutes(t *testing.T) {
	env := newTestEnv(t)
	start := func() string {
		s, err := env.with(nil).StartSignIn(t.Context(), "anna@a.example")
		if err != nil {
			t.Fatal(err)
		}
		return s.URL
	}
	link := start()
	if status, page := env.page(link); status != http.StatusOK || !strings.Contains(page, "PlusVibe") || strings.Contains(page, "anna@a.example") {
		t.Errorf("%d %s", status, page)
	}
	if status, _ := env.decide(link, "bob.king@a.example", "accept"); status != http.StatusOK {
		t.Errorf("accepted: %d", status)
	}
	if a, err := env.with(nil).Account(t.Context(), "bob.king@a.example"); err != nil || a.State != sdk.AccountConnected || a.Name != "Bob King" {
		t.Errorf("the account that signed in: %+v, %v", a, err)
	}
	late := start()
	env.control(http.MethodPost, "/clock", m{"advance": "10m"})
	for _, link := range []string{link, late} {
		if status, _ := env.decide(link, "carl@a.example", "accept"); status != http.StatusBadRequest {
			t.Errorf("a used or expired link: %d", status)
		}
	}
	if a, err := env.with(nil).Account(t.Context(), "carl@a.example"); err != nil || a.Exists() {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestNewAccountAppearsAfterTheListLag(t *testing.T) {
	env := newTestEnv(t)
	env.behave(m{"list_lag_ms": 60000})
	s, err := env.with(nil).StartSignIn(t.Context(), "anna@a.example")
	if err != nil {
		t.Fatal(err)
	}
	env.decide(s.URL, "anna@a.example", "accept")
	if a, err := env.with(nil).Account(t.Context(), "anna@a.example"); err != nil || a.Exists() {
		t.Errorf("at once: %+v, %v", a, err)
	}
	env.control(http.MethodPost, "/clock", m{"advance": "1m"})
	if a, err := env.with(nil).Account(t.Context(), "anna@a.example"); err != nil || !a.Exists() {
		t.Errorf("a minute later: %+v, %v", a, err)
	}
}

func TestControlCallsChangeAccounts(t *testing.T) {
	env := newTestEnv(t)
	p := env.with(nil)
	account := func() sdk.Account {
		a, err := p.Account(t.Context(), "anna@a.example")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	env.put("anna@a.example", m{})
	first := account()
	env.put("anna@a.example", m{"status": "DISCONNECTED"})
	if second := account(); first.State != sdk.AccountConnected || second.State != sdk.AccountFailed || second.Stamp == first.Stamp {
		t.Errorf("%+v, then %+v", first, second)
	}
	if held := env.held(""); len(held) != 1 || held[0]["provider"] != "MICROSOFT365" || len(held[0]["_id"].(string)) != 24 {
		t.Errorf("held: %v", held)
	}
	env.control(http.MethodDelete, "/accounts/anna@a.example", nil)
	if third := account(); third.Exists() {
		t.Errorf("got %+v", third)
	}
}

func TestInvalidControlCallsChangeNothing(t *testing.T) {
	env := newTestEnv(t)
	for call, body := range map[string]string{
		"PUT /accounts/anna@a.example":    `{"state": "ACTIVE"}`,
		"DELETE /accounts/anna@a.example": ``,
		"POST /behaviour":                 `{"bad_key": 500}`,
		"PUT /keys/k":                     `{"workspace": "w"}`,
		"POST /accounts":                  ``,
	} {
		method, path, _ := strings.Cut(call, " ")
		req, err := http.NewRequest(method, env.URL+"/_control"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", call, resp.StatusCode)
		}
	}
	if held := env.held(""); len(held) != 0 {
		t.Errorf("held: %v", held)
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		handler, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: dir, Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		method, body := http.MethodPut, `{}`
		if i == 1 {
			method, body = http.MethodDelete, ``
		}
		req, err := http.NewRequest(method, ready.URL+"/_control/accounts/anna@a.example", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		if handler.ServeHTTP(answer, req); answer.Code != http.StatusOK {
			t.Errorf("%s: %d", method, answer.Code)
		}
	}
}

func TestTestsInTheReadmeExist(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, name := range []string{"contract_test.go", "plusvibe_test.go", "refusals_test.go", "simulator_test.go"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = sources.Write(raw)
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)` \\|").FindAllStringSubmatch(string(page), -1)
	for _, n := range named {
		if !strings.Contains(sources.String(), "func "+n[1]+"(t *testing.T)") {
			t.Errorf("there is no %s", n[1])
		}
	}
	if len(named) < 10 {
		t.Errorf("only %d rows were read", len(named))
	}
}
