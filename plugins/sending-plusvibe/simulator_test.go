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

// TestWorkspacesOfAKey: none, one, many.
func TestWorkspacesOfAKey(t *testing.T) {
	w := newWorld(t)
	for _, n := range []int{0, 1, 3} {
		reach, err := w.with(w.key("some", n)).Check(t.Context())
		if err != nil || len(reach.Workspaces) != n || reach.Roaming {
			t.Errorf("%d: %+v, %v", n, reach, err)
		}
	}
	w.control(http.MethodDelete, "/keys/some", nil)
	if _, err := w.with(texts{"api_key": "some"}).Check(t.Context()); err == nil {
		t.Error("a key that is gone is taken")
	}
}

// TestSignInPage: a link works once, for ten minutes, and attaches whoever signs
// in.
func TestSignInPage(t *testing.T) {
	w := newWorld(t)
	start := func() string {
		s, err := w.with(nil).StartSignIn(t.Context(), "anna@a.example")
		if err != nil {
			t.Fatal(err)
		}
		return s.URL
	}
	link := start()
	if status, page := w.page(link); status != http.StatusOK || !strings.Contains(page, "PlusVibe") || strings.Contains(page, "anna@a.example") {
		t.Errorf("%d %s", status, page)
	}
	if status, _ := w.decide(link, "bob.king@a.example", "accept"); status != http.StatusOK {
		t.Errorf("accepted: %d", status)
	}
	if a, err := w.with(nil).Account(t.Context(), "bob.king@a.example"); err != nil || a.State != sdk.AccountConnected || a.Name != "Bob King" {
		t.Errorf("who signed in: %+v, %v", a, err)
	}
	late := start()
	w.control(http.MethodPost, "/clock", m{"advance": "10m"})
	for _, link := range []string{link, late} {
		if status, _ := w.decide(link, "carl@a.example", "accept"); status != http.StatusBadRequest {
			t.Errorf("used, or after its end: %d", status)
		}
	}
	if a, err := w.with(nil).Account(t.Context(), "carl@a.example"); err != nil || a.There() {
		t.Errorf("got %+v, %v", a, err)
	}
}

// TestListLag: an account that was signed in is out of sight for a while.
func TestListLag(t *testing.T) {
	w := newWorld(t)
	w.behave(m{"list_lag_ms": 60000})
	s, err := w.with(nil).StartSignIn(t.Context(), "anna@a.example")
	if err != nil {
		t.Fatal(err)
	}
	w.decide(s.URL, "anna@a.example", "accept")
	if a, err := w.with(nil).Account(t.Context(), "anna@a.example"); err != nil || a.There() {
		t.Errorf("at once: %+v, %v", a, err)
	}
	w.control(http.MethodPost, "/clock", m{"advance": "1m"})
	if a, err := w.with(nil).Account(t.Context(), "anna@a.example"); err != nil || !a.There() {
		t.Errorf("a minute later: %+v, %v", a, err)
	}
}

// TestAccountsByHand: what somebody does at PlusVibe itself.
func TestAccountsByHand(t *testing.T) {
	w := newWorld(t)
	p := w.with(nil)
	look := func() sdk.Account {
		a, err := p.Account(t.Context(), "anna@a.example")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	w.put("anna@a.example", m{})
	first := look()
	w.put("anna@a.example", m{"status": "DISCONNECTED"})
	if second := look(); first.State != sdk.AccountConnected || second.State != sdk.AccountFailed || second.Stamp == first.Stamp {
		t.Errorf("%+v, then %+v", first, second)
	}
	if held := w.held(""); len(held) != 1 || held[0]["provider"] != "MICROSOFT365" || len(held[0]["_id"].(string)) != 24 {
		t.Errorf("held: %v", held)
	}
	w.control(http.MethodDelete, "/accounts/anna@a.example", nil)
	if third := look(); third.There() {
		t.Errorf("got %+v", third)
	}
}

// TestControlRefuses what makes no sense, and changes nothing by it.
func TestControlRefuses(t *testing.T) {
	w := newWorld(t)
	for call, body := range map[string]string{
		"PUT /accounts/anna@a.example":    `{"state": "ACTIVE"}`,
		"DELETE /accounts/anna@a.example": ``,
		"POST /behaviour":                 `{"bad_key": 500}`,
		"PUT /keys/k":                     `{"workspace": "w"}`,
		"POST /accounts":                  ``,
	} {
		method, path, _ := strings.Cut(call, " ")
		req, err := http.NewRequest(method, w.URL+"/_control"+path, strings.NewReader(body))
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
	if held := w.held(""); len(held) != 0 {
		t.Errorf("held: %v", held)
	}
}

// TestItGoesOn from what is in its folder.
func TestItGoesOn(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		handler, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: dir, Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		method, want := http.MethodPut, `{}`
		if i == 1 {
			method, want = http.MethodDelete, ``
		}
		req, err := http.NewRequest(method, ready.URL+"/_control/accounts/anna@a.example", strings.NewReader(want))
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		if handler.ServeHTTP(answer, req); answer.Code != http.StatusOK {
			t.Errorf("%s: %d", method, answer.Code)
		}
	}
}

// TestReadmeNamesTests: each test that the README names exists.
func TestReadmeNamesTests(t *testing.T) {
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
