// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// book is an account of the library, which is a platform that does not exist.
type book struct {
	Library int      `json:"library"`
	Title   string   `json:"title"`
	Tags    []string `json:"tags"`
	Changes int      `json:"changes"`
}

type libraryRequest = simulate.Request[bool, book, int]

func newLibrary(rates ...simulate.Rate) simulate.Platform[bool, book, int] {
	titles := func(q *libraryRequest) simulate.Answer {
		titles := []string{}
		for _, b := range q.Visible("1") {
			titles = append(titles, b.Title)
		}
		return simulate.OK(titles)
	}
	return simulate.Platform[bool, book, int]{
		Name: "library", Prefix: "/v1", TrailingSlash: true, Workspace: "1",
		Fresh: func(time.Time) simulate.State[bool, book, int] {
			return simulate.State[bool, book, int]{Keys: map[string]bool{"reader": true}}
		},
		Ready: func(string, string) simulate.Ready { return simulate.Ready{} },
		Admit: func(q *libraryRequest) simulate.Answer {
			if q.Key = q.State.Keys[q.Query("key")]; !q.Key {
				return simulate.Answer{Status: http.StatusUnauthorized}
			}
			if usage := q.Count("all", time.Now(), rates...); usage.Wait > 0 {
				q.RetryAfter(usage.Wait)
				return simulate.Answer{Status: http.StatusTooManyRequests}
			}
			return simulate.Answer{}
		},
		Routes: []simulate.Route[bool, book, int]{
			{On: "GET /books?title", Name: "find", Serve: titles},
			{On: "GET /books", Name: "list", Serve: titles},
			{On: "POST /books/search", Name: "search", ReadOnly: true, Serve: titles},
			{On: "DELETE /books/{address}", Name: "remove", Serve: func(q *libraryRequest) simulate.Answer {
				return simulate.OK(q.State.Remove("1", q.Path("address")))
			}},
		},
		NotFound:     func(*libraryRequest) simulate.Answer { return simulate.Answer{Status: http.StatusNotFound} },
		PlannedFault: func(status, wait int) simulate.Answer { return simulate.Answer{Status: status, Body: wait} },
		NewAccount: func(_ *libraryRequest, workspace, address string) book {
			number, _ := strconv.Atoi(workspace)
			return book{Library: number, Title: strings.ToUpper(address)}
		},
		Touch:       func(b *book, _ time.Time) { b.Changes++ },
		WorkspaceOf: func(b *book) int { return b.Library },
	}
}

// openLibrary returns a function that makes a call and returns the status, the body and the header
// of the answer.
func openLibrary(t *testing.T, dir string, rates ...simulate.Rate) func(call, body string) (int, string, http.Header) {
	t.Helper()
	handler, _, err := newLibrary(rates...).Open(simulate.Options{DataDir: dir, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return func(call, body string) (int, string, http.Header) {
		method, path, _ := strings.Cut(call, " ")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
		return answer.Code, strings.TrimSpace(answer.Body.String()), answer.Header()
	}
}

// TestRoutesAreAdmittedNamedAndServed checks the answers of routes, the journal, a planned fault,
// and the state after a restart.
func TestRoutesAreAdmittedNamedAndServed(t *testing.T) {
	dir := t.TempDir()
	call := openLibrary(t, dir)
	call("PUT /_control/accounts/a", `{}`)
	for _, tc := range []struct {
		call, answer, operation string
		status                  int
		write                   bool
	}{
		{"GET /v1/books?key=guessed", "", "list", 401, false},
		{"GET /v1/books?key=reader", `["A"]`, "list", 200, false},
		{"GET /v1/books/?key=reader&title", `["A"]`, "find", 200, false},
		{"POST /v1/books/search?key=reader", `["A"]`, "search", 200, false},
		{"POST /v1/books?key=reader", "", "", 404, true},
		{"DELETE /v1/books/A?key=reader", "true", "remove", 200, true},
	} {
		call("DELETE /_control/calls", "")
		status, answer, _ := call(tc.call, "")
		_, journal, _ := call("GET /_control/calls", "")
		if status != tc.status || answer != tc.answer || !strings.Contains(journal, `"operation":"`+tc.operation+`"`) || strings.Contains(journal, `"write":true`) != tc.write {
			t.Errorf("%s: %d %s, want %d %s; the journal is %s, want operation %q and write %v", tc.call, status, answer, tc.status, tc.answer, journal, tc.operation, tc.write)
		}
	}
	call("POST /_control/faults", `{"kind":"status","status":429,"retry_after":7,"times":1,"operation":"list"}`)
	if status, answer, header := call("GET /v1/books?key=reader", ""); status != 429 || answer != "7" || header.Get("Retry-After") != "7" {
		t.Errorf("a planned fault: %d %s %v, want 429 with the body 7 and a Retry-After of 7 s", status, answer, header)
	}
	if _, answer, _ := openLibrary(t, dir)("GET /v1/books?key=reader", ""); answer != "[]" {
		t.Errorf("after a restart the list is %s, want []", answer)
	}
}

// TestControlCallsKeepOmittedMembers checks that members which a call omits stay unchanged. It also
// checks that an invalid call changes nothing. It covers a missing account, an account that names
// its workspace, and a failing disk.
func TestControlCallsKeepOmittedMembers(t *testing.T) {
	dir := t.TempDir()
	call := openLibrary(t, dir)
	for _, tc := range []struct {
		call, body string
		status     int
		accounts   string
	}{
		{"PUT /_control/accounts/a", `{"tags":["x"]}`, 200, `[{"library":1,"title":"A","tags":["x"],"changes":0}]`},
		{"PUT /_control/accounts/A", `{"title":"One"}`, 200, `[{"library":1,"title":"One","tags":["x"],"changes":1}]`},
		{"PUT /_control/accounts/a", `{"title":"Two","tags":["y"],"pages":7}`, 400, `[{"library":1,"title":"One","tags":["x"],"changes":1}]`},
		{"PUT /_control/accounts/b", `{"title":7}`, 400, `[{"library":1,"title":"One","tags":["x"],"changes":1}]`},
		{"DELETE /_control/accounts/b", ``, 404, `[{"library":1,"title":"One","tags":["x"],"changes":1}]`},
		{"DELETE /_control/accounts/a", ``, 200, `[]`},
		{"PUT /_control/accounts/c", `{"library":2}`, 200, `[{"library":2,"title":"C","tags":null,"changes":0}]`},
		{"PUT /_control/accounts/c", `{}`, 200, `[{"library":2,"title":"C","tags":null,"changes":1}]`},
	} {
		status, _, _ := call(tc.call, tc.body)
		if _, accounts, _ := call("GET /_control/accounts", ""); status != tc.status || accounts != tc.accounts {
			t.Errorf("%s %s: %d, want %d; the accounts are %s, want %s", tc.call, tc.body, status, tc.status, accounts, tc.accounts)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := call("PUT /_control/accounts/d", `{}`); status != http.StatusInternalServerError {
		t.Errorf("on a broken disk: %d, want 500", status)
	}
}

// TestRatesSlideOrAreFixed waits for after[i] seconds before call i, and expects waits[i] seconds
// in the header Retry-After.
func TestRatesSlideOrAreFixed(t *testing.T) {
	slides, fixed := simulate.Rate{Calls: 2, Window: time.Minute}, simulate.Rate{Calls: 2, Window: time.Minute, Fixed: true}
	for name, tc := range map[string]struct {
		rates        []simulate.Rate
		after, waits []int
	}{
		"a sliding window":                          {[]simulate.Rate{slides}, []int{0, 30, 10, 20, 1, 29}, []int{0, 0, 20, 0, 29, 0}},
		"a fixed window":                            {[]simulate.Rate{fixed}, []int{0, 30, 10, 20, 1, 1}, []int{0, 0, 20, 0, 0, 58}},
		"the longer wait of two limits":             {[]simulate.Rate{slides, {Calls: 1, Window: 40 * time.Second}}, []int{0, 10, 30}, []int{0, 30, 0}},
		"a sliding window beside a short fixed one": {[]simulate.Rate{{Calls: 2, Window: 10 * time.Second, Fixed: true}, slides}, []int{0, 20, 20, 20}, []int{0, 0, 20, 0}},
		"a short fixed window beside a sliding one": {[]simulate.Rate{slides, {Calls: 2, Window: 10 * time.Second, Fixed: true}}, []int{0, 20, 20, 20}, []int{0, 0, 20, 0}},
		"two fixed windows":                         {[]simulate.Rate{fixed, {Calls: 1, Window: 10 * time.Second, Fixed: true}}, []int{0, 5, 5, 10, 40}, []int{0, 5, 0, 40, 0}},
		"a fixed window of a day":                   {[]simulate.Rate{{Calls: 2, Window: 24 * time.Hour, Fixed: true}}, []int{0, 82800, 3600, 1, 1}, []int{0, 0, 0, 0, 86398}},
		"without a rate":                            {nil, []int{0, 0, 0}, []int{0, 0, 0}},
		"a refused call is not counted":             {[]simulate.Rate{{Calls: 1, Window: time.Minute}}, []int{0, 59, 1}, []int{0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call := openLibrary(t, t.TempDir(), tc.rates...)
				for i, after := range tc.after {
					time.Sleep(time.Duration(after) * time.Second)
					_, _, header := call("GET /v1/books?key=reader", "")
					if wait, _ := strconv.Atoi(header.Get("Retry-After")); wait != tc.waits[i] {
						t.Errorf("call %d: wait %d seconds, want %d", i, wait, tc.waits[i])
					}
				}
			})
		})
	}
}
