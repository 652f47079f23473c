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

// TestLimits checks the limits of a key: 30 reads and 15 writes a minute. The
// answer to a call over the limit has no Retry-After.
func TestLimits(t *testing.T) {
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
				t.Errorf("%s with another key: %d, want 200", call, answer.Code)
			}
		}
		time.Sleep(time.Minute)
		if answer := ask("GET "+ready.Settings["base_url"]+"/senders", simulator.Key, ""); answer.Code != http.StatusOK {
			t.Errorf("a minute later: %d, want 200", answer.Code)
		}
	})
}

func (w *world) raw(call, key string) *http.Response {
	w.t.Helper()
	method, path, _ := strings.Cut(call, " ")
	req, err := http.NewRequest(method, w.Ready.Settings["base_url"]+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// TestNoBearer: the key comes raw.
func TestNoBearer(t *testing.T) {
	w := newWorld(t)
	for key, want := range map[string]int{simulator.Key: 200, "Bearer " + simulator.Key: 401, "": 401, "key-guessed": 401} {
		if resp := w.raw("GET /workspaces", key); resp.StatusCode != want {
			t.Errorf("%q: %d", key, resp.StatusCode)
		}
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
	if status, page := w.page(link); status != http.StatusOK || !strings.Contains(page, "SalesBlink") || strings.Contains(page, "anna@a.example") {
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

// TestListLag: a sender that was signed in is out of sight for a while.
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

// TestSendersByHand: what somebody does at SalesBlink itself.
func TestSendersByHand(t *testing.T) {
	w := newWorld(t)
	look := func() sdk.Account {
		a, err := w.with(nil).Account(t.Context(), "anna@a.example")
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	w.put("anna@a.example", m{})
	first := look()
	w.put("anna@a.example", m{"error": "invalid_grant"})
	if second := look(); first.State != sdk.AccountConnected || second.State != sdk.AccountFailed || second.Stamp == first.Stamp {
		t.Errorf("%+v, then %+v", first, second)
	}
	w.control(http.MethodDelete, "/accounts/anna@a.example", nil)
	if third := look(); third.There() {
		t.Errorf("got %+v", third)
	}
	w.control(http.MethodDelete, "/keys/"+simulator.Key, nil)
	if resp := w.raw("GET /workspaces", simulator.Key); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a key that is gone: %d", resp.StatusCode)
	}
}

// TestControlRefuses what makes no sense, and changes nothing by it.
func TestControlRefuses(t *testing.T) {
	w := newWorld(t)
	for call, body := range map[string]string{
		"PUT /accounts/anna@a.example":    `{"state": "active"}`,
		"DELETE /accounts/anna@a.example": ``,
		"POST /behaviour":                 `{"skip": "both"}`,
		"PUT /keys/k":                     `{"workspace": "w"}`,
		"PUT /behaviour":                  `{}`,
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
	if all, err := w.listing(w.with(nil)); err != nil || len(all) != 0 {
		t.Errorf("there are %v, %v", all, err)
	}
}

// TestItGoesOn from what is in its folder.
func TestItGoesOn(t *testing.T) {
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

// TestReadmeNamesTests: each test that the README names exists.
func TestReadmeNamesTests(t *testing.T) {
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
