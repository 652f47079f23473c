// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-salesblink/simulator"
)

// TestRateLimitsOfAKey checks 30 reads and 15 writes per minute. The answer to a call over the
// limit has no Retry-After.
func TestRateLimitsOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(call, key, body string) *httptest.ResponseRecorder {
			method, path, _ := strings.Cut(call, " ")
			req := httptest.NewRequest(method, path, strings.NewReader(body))
			req.Header.Set("Authorization", key)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, req)
			return answer
		}
		ask("PUT "+ready.URL+"/_control/keys/key-other", "", `{"workspaces": [{"id": "w", "name": "W"}], "role": "owner"}`)
		for call, most := range map[string]int{"GET /senders": 30, "POST /oauth/outlook": 15} {
			call = strings.Replace(call, "/", ready.Settings["base_url"]+"/", 1)
			for i := range most + 1 {
				answer := ask(call, simulator.Key, "")
				if over := answer.Code == http.StatusTooManyRequests; over != (i == most) || answer.Header().Get("Retry-After") != "" {
					t.Fatalf("%s, call %d: %d", call, i+1, answer.Code)
				}
			}
			if answer := ask(call, "key-other", ""); answer.Code != http.StatusOK {
				t.Errorf("%s with a different key: %d, want 200", call, answer.Code)
			}
		}
		time.Sleep(time.Minute)
		if answer := ask("GET "+ready.Settings["base_url"]+"/senders", simulator.Key, ""); answer.Code != http.StatusOK {
			t.Errorf("a minute later: %d, want 200", answer.Code)
		}
	})
}

// raw makes a request without the plugin.
func (env *testEnv) raw(call, key string) *http.Response {
	env.t.Helper()
	method, path, _ := strings.Cut(call, " ")
	req, err := http.NewRequest(method, env.Ready.Settings["base_url"]+path, nil)
	if err != nil {
		env.t.Fatal(err)
	}
	req.Header.Set("Authorization", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		env.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

func TestKeyIsSentWithoutBearer(t *testing.T) {
	env := newTestEnv(t)
	for key, want := range map[string]int{simulator.Key: 200, "Bearer " + simulator.Key: 401, "": 401, "key-guessed": 401} {
		if resp := env.raw("GET /workspaces", key); resp.StatusCode != want {
			t.Errorf("%q: %d", key, resp.StatusCode)
		}
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
	if status, page := env.page(link); status != http.StatusOK || !strings.Contains(page, "SalesBlink") || strings.Contains(page, "anna@a.example") {
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

func TestNewSenderAppearsAfterTheListLag(t *testing.T) {
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

func TestControlCallsChangeSenders(t *testing.T) {
	env := newTestEnv(t)
	account := func() sdk.Account {
		a, err := env.with(nil).Account(t.Context(), "anna@a.example")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	env.put("anna@a.example", m{})
	first := account()
	env.put("anna@a.example", m{"error": "invalid_grant"})
	if second := account(); first.State != sdk.AccountConnected || second.State != sdk.AccountFailed || second.Stamp == first.Stamp {
		t.Errorf("%+v, then %+v", first, second)
	}
	env.control(http.MethodDelete, "/accounts/anna@a.example", nil)
	if third := account(); third.Exists() {
		t.Errorf("got %+v", third)
	}
	env.control(http.MethodDelete, "/keys/"+simulator.Key, nil)
	if resp := env.raw("GET /workspaces", simulator.Key); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a deleted key: %d", resp.StatusCode)
	}
}

func TestInvalidControlCallsChangeNothing(t *testing.T) {
	env := newTestEnv(t)
	for call, body := range map[string]string{
		"PUT /accounts/anna@a.example":    `{"state": "active"}`,
		"DELETE /accounts/anna@a.example": ``,
		"POST /behaviour":                 `{"skip": "both"}`,
		"PUT /keys/k":                     `{"workspace": "w"}`,
		"PUT /behaviour":                  `{}`,
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
	if all, err := env.listing(env.with(nil)); err != nil || len(all) != 0 {
		t.Errorf("senders: %v, %v", all, err)
	}
}

func TestStateSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	for _, call := range []string{"PUT {}", "DELETE "} {
		handler, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: dir, Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		method, body, _ := strings.Cut(call, " ")
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
	sources := ""
	for _, name := range []string{"contract_test.go", "paging_test.go", "salesblink_test.go", "simulator_test.go"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources += string(raw)
	}
	named := regexp.MustCompile("`(Test[A-Za-z]+)` \\|").FindAllStringSubmatch(string(page), -1)
	for _, n := range named {
		if !strings.Contains(sources, fmt.Sprintf("func %s(t *testing.T)", n[1])) {
			t.Errorf("there is no %s", n[1])
		}
	}
	if len(named) < 10 {
		t.Errorf("only %d rows were read", len(named))
	}
}
