// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/console"
)

// FuzzRequestsWithoutKey sends arbitrary requests of a client without an API key to all paths: the
// pages, the operations, and the connect pages with a valid state. None is answered with a 5xx.
func FuzzRequestsWithoutKey(f *testing.F) {
	env := newTestEnv(f)
	env.options.Guard.Pages = console.New(console.Options{
		Tenants: env.options.Tenants, Log: env.options.Guard.Log, Platform: "microsoft365", Facts: env.platform, Setting: func(string) string { return "" },
	})
	handler := env.handler(f)
	state := pendingState(f, handler, env.accountA.key)
	for _, path := range []string{"/openapi.json", "/openapi.yaml", "/docs"} {
		// They are made once. In an instrumented program that can take longer than an input may.
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	const form = "application/x-www-form-urlencoded"
	add := func(method, target, contentType, body string) {
		f.Add(method, target, contentType, body, "Accept", "text/html")
	}
	for _, path := range []string{"/", "/docs", "/docs/", "/docs/errors/invalid_request", "/docs/guide/webhooks", "/docs/assets/swagger-ui-bundle.js", "/openapi.json", "/v1", "/v1/tenants", "/v1/events?wait_seconds=1", "/connect/", "/nothing"} {
		add("GET", path, "", "")
	}
	for _, query := range []string{"", "state=" + state, "state=" + state + "&code=x", "state=" + state + "&admin_consent=True&tenant=" + string(env.accountA.tenant), "state=x&error=access_denied&error_description=y"} {
		add("GET", "/connect/microsoft365/callback?"+query, "", "")
		add("GET", "/connect/microsoft365/signin?"+query, "", "")
		add("POST", "/connect/microsoft365/confirm", form, query+"&decision=connect")
	}
	add("POST", "/v1/tenants", "application/json", `{"a":1}`)
	f.Fuzz(func(t *testing.T, method, target, contentType, body, header, value string) {
		at, err := url.ParseRequestURI(target)
		if err != nil || strings.ContainsAny(method, " \r\n") || method == "" {
			t.Skip("a server does not pass on such a request")
		}
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, at, target
		r.Header["Content-Type"] = []string{contentType}
		r.Header[http.CanonicalHeaderKey(header)] = []string{value}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		if recorder.Code >= http.StatusInternalServerError {
			t.Errorf("%s %q is answered %d %s", method, target, recorder.Code, recorder.Body)
		}
	})
}

// pendingState returns the state of a connect link that waits for an administrator.
func pendingState(t testing.TB, handler http.Handler, key string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/v1/tenants/connect-url", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	var answer struct {
		URL string `json:"connect_url"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, recorder.Body)
	}
	link, err := url.Parse(answer.URL)
	if err != nil || link.Query().Get("state") == "" {
		t.Fatalf("no state in %q: %v", answer.URL, err)
	}
	return link.Query().Get("state")
}
