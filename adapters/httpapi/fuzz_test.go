// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// The test replaces these words in an input by values of connect links of this process. Each
// process of a fuzzing run has its own links.
const (
	validState              = "VALID-STATE"               // the state of a link that waits for an administrator
	validSignIn             = "VALID-SIGNIN"              // the query with which an administrator returns from the sign-in
	validCookie             = "VALID-COOKIE"              // the name and value of the cookie of the administrator's browser
	validCSRF               = "VALID-CSRF"                // the token of a page that asks to confirm the connection
	validConfirmationCookie = "VALID-CONFIRMATION-COOKIE" // the name and value of the cookie of that page
)

// growthInterval is the number of requests between two checks of the memory. Each check also renews
// the links, because a request can complete the earlier links or make them expire.
const growthInterval = 500

// FuzzRequestsWithoutKey sends arbitrary requests without an API key to pages and operations. It
// also goes through the steps of the connect pages with values that each step accepts. No request
// may be answered with a 5xx, and the memory of the process may not grow by more than maxGrowth.
func FuzzRequestsWithoutKey(f *testing.F) {
	env := newTestEnv(f)
	env.serveConnectPages()
	handler := env.handler(f)
	for _, path := range []string{"/openapi.json", "/openapi.yaml", "/docs"} {
		// The OpenAPI document is built and compressed at its first request. In an instrumented
		// program that can take longer than the time limit of an input.
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil))
	}
	const form = "application/x-www-form-urlencoded"
	addSeed := func(method, target, contentType, body string) {
		f.Add(method, target, contentType, body, "Accept", "text/html")
	}
	for _, path := range []string{"/", "/docs", "/docs/", "/docs/errors/invalid_request", "/docs/guide/webhooks", "/docs/assets/swagger-ui-bundle.js", "/openapi.json", "/v1", "/v1/tenants", "/v1/events?wait_seconds=1", "/connect/", "/nothing"} {
		addSeed("GET", path, "", "")
	}
	const state = validState
	for _, query := range []string{"", "state=" + state, "state=" + state + "&code=x", "state=" + state + "&admin_consent=True&tenant=" + string(env.accountA.tenant), "state=x&error=access_denied&error_description=y"} {
		addSeed("GET", "/connect/microsoft365/callback?"+query, "", "")
		addSeed("GET", "/connect/microsoft365/signin?"+query, "", "")
		addSeed("POST", "/connect/microsoft365/confirm", form, query+"&decision=connect")
	}
	addSeed("POST", "/v1/tenants", "application/json", `{"a":1}`)
	f.Add("GET", "/connect/microsoft365/signin?"+validSignIn, "", "", "Cookie", validCookie)
	for _, body := range []string{"decision=connect&csrf=" + validCSRF, "decision=cancel&csrf=" + validCSRF, "decision=connect&csrf=x", "decision=connect"} {
		f.Add("POST", "/connect/microsoft365/confirm", form, body, "Cookie", validConfirmationCookie)
	}
	var (
		requests   int
		linkValues *strings.Replacer // replaces the words such as VALID-STATE
		memory     growthCheck
	)
	f.Fuzz(func(t *testing.T, method, target, contentType, body, header, value string) {
		if requests++; requests%growthInterval == 1 {
			signIn, cookie := env.returnFromSignIn(t, handler)
			csrf, confirmationCookie := env.openConfirmationPage(t, handler)
			linkValues = strings.NewReplacer(validState, newConnectLink(t, handler, env.accountA.key).Query().Get("state"),
				validSignIn, signIn, validCookie, cookie, validCSRF, csrf, validConfirmationCookie, confirmationCookie)
			memory.requireNoGrowth(t, requests)
		}
		target = linkValues.Replace(target)
		targetURL, err := url.ParseRequestURI(target)
		if err != nil || strings.ContainsAny(method, " \r\n") || method == "" {
			t.Skip("a server does not pass on such a request")
		}
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(linkValues.Replace(body)))
		r.Method, r.URL, r.RequestURI = method, targetURL, target
		r.Header["Content-Type"] = []string{contentType}
		r.Header[http.CanonicalHeaderKey(header)] = []string{linkValues.Replace(value)}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, r)
		if recorder.Code >= http.StatusInternalServerError {
			t.Errorf("%s %q is answered %d %s, want no 5xx", method, target, recorder.Code, recorder.Body)
		}
	})
}

// maxGrowth is by how much the memory of a process may grow while it answers requests. The memory
// of the Go runtime and of the database varies by a few megabytes.
const maxGrowth = 48 << 20

// growthCheck compares the memory of the process with its memory after the first requests.
type growthCheck struct{ initial int }

func (g *growthCheck) requireNoGrowth(t *testing.T, requests int) {
	t.Helper()
	switch resident := residentMemory(t); {
	case requests <= growthInterval: // caches are still empty
	case g.initial == 0:
		g.initial = resident
	case resident > g.initial+maxGrowth:
		t.Errorf("the memory grew from %d to %d bytes in %d requests, want at most %d more", g.initial, resident, requests, maxGrowth)
	}
}

// residentMemory returns the resident memory of the process in bytes, without mapped files. It
// includes the memory of the database, which is not in Go's heap.
func residentMemory(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	found := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(status)
	if found == nil {
		t.Fatalf("/proc/self/status has no RssAnon: %s", status)
	}
	kilobytes, err := strconv.Atoi(string(found[1]))
	must(t, err)
	return kilobytes << 10
}

// TestFuzzingRequestsWithoutKey runs FuzzRequestsWithoutKey with 2000 new inputs. When
// TENANTRY_SOAK is set, it instead builds a program with coverage instrumentation and fuzzes for 10
// minutes. An input that fails is written to testdata.
func TestFuzzingRequestsWithoutKey(t *testing.T) {
	t.Parallel()
	program, fuzzTime, processes := os.Args[0], "2000x", "1"
	if soak.Enabled() {
		program, fuzzTime, processes = filepath.Join(t.TempDir(), "fuzz.test"), "10m", "2"
		output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-fuzz=.", "-o", program, ".").CombinedOutput()
		if err != nil {
			t.Fatalf("the fuzzing program was not built: %v: %s", err, output)
		}
	}
	output, err := exec.CommandContext(t.Context(), program, "-test.run=^$", "-test.fuzz=^FuzzRequestsWithoutKey$",
		"-test.fuzztime="+fuzzTime, "-test.parallel="+processes, "-test.fuzzcachedir="+t.TempDir()).CombinedOutput()
	if t.Logf("%s", output); err != nil {
		t.Errorf("the fuzzing program failed: %v", err)
	}
}

// newConnectLink returns a new connect link of an account.
func newConnectLink(t testing.TB, handler http.Handler, key string) *url.URL {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/v1/tenants/connect-url", nil)
	r.Header.Set("Authorization", "Bearer "+key)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	var answer struct {
		URL string `json:"connect_url"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatalf("the connect link is not JSON: %v: %s", err, recorder.Body)
	}
	link, err := url.Parse(answer.URL)
	if err != nil || link.Query().Get("state") == "" {
		t.Fatalf("no state in %q: %v", answer.URL, err)
	}
	return link
}

// returnFromSignIn takes an administrator through the consent and the sign-in. It returns the query
// of the redirect back to tenantry, and the cookie of the browser.
func (env *testEnv) returnFromSignIn(t testing.TB, handler http.Handler) (query, cookie string) {
	t.Helper()
	visit := func(page string) string {
		query, err := env.platform.Visit(page, env.accountA.administrator(), true)
		must(t, err)
		return query
	}
	consent := visit(newConnectLink(t, handler, env.accountA.key).String())
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/connect/microsoft365/callback?"+consent, nil))
	cookies := recorder.Result().Cookies()
	if recorder.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("the callback is answered %d %s, want 303 with one cookie", recorder.Code, recorder.Body)
	}
	return visit(recorder.Header().Get("Location")), cookies[0].Name + "=" + cookies[0].Value
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// openConfirmationPage takes an administrator to the page that asks to confirm the connection. It
// returns the token of the page and the cookie of the browser.
func (env *testEnv) openConfirmationPage(t testing.TB, handler http.Handler) (csrf, cookie string) {
	t.Helper()
	query, cookie := env.returnFromSignIn(t, handler)
	r := httptest.NewRequest(http.MethodGet, "/connect/microsoft365/signin?"+query, nil)
	r.Header.Set("Cookie", cookie)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	found := csrfField.FindStringSubmatch(recorder.Body.String())
	if recorder.Code != http.StatusOK || found == nil {
		t.Fatalf("the sign-in is answered %d %s, want 200 with a csrf field", recorder.Code, recorder.Body)
	}
	return found[1], cookie
}
