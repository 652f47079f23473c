// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"

	"github.com/tenantry/tenantry/adapters/httpapi"
	"github.com/tenantry/tenantry/core/fault"
)

// reply is an answer as it came over the wire.
type reply struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

func (r reply) code() string {
	code, _ := r.body["code"].(string)
	return code
}

// api is a server whose every answer is held against the document.
type api struct {
	t      testing.TB
	server *httptest.Server
	check  validator.Validator
}

func serve(t *testing.T, h http.Handler) *api {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return &api{t: t, server: server, check: documentValidator(t)}
}

// call is a request to make. A write gets a new Idempotency-Key and a body its
// type unless headers say otherwise; an empty header value means none.
type call struct {
	method, path, body string
	key                string
	headers            map[string]string
}

func (c call) request(t testing.TB, base string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(c.method, base+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json")
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if !slices.Contains([]string{http.MethodGet, http.MethodHead}, c.method) {
		r.Header.Set("Idempotency-Key", rand.Text())
	}
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range c.headers {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	return r
}

func (a *api) do(c call) reply {
	a.t.Helper()
	return a.send(c.request(a.t, a.server.URL))
}

func (a *api) send(r *http.Request) reply {
	a.t.Helper()
	response, err := noRedirects.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	got := reply{status: response.StatusCode, header: response.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &got.body)
	if err := conforms(a.check, r, got); err != nil {
		a.t.Errorf("%s %s answered %d: %v\n%s", r.Method, r.URL.Path, got.status, err, raw)
	}
	return got
}

// expect makes a call whose refusal or success is known.
func (a *api) expect(c call, status int, code string) reply {
	a.t.Helper()
	got := a.do(c)
	if got.status != status || got.code() != code {
		a.t.Errorf("%s %s: got %d %q, want %d %q\n%s", c.method, c.path, got.status, got.code(), status, code, got.raw)
	}
	return got
}

// noRedirects also fails a request whose answer never comes.
var noRedirects = &http.Client{
	Timeout:       hang,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// hang is how long a test waits for an event. Only a test that hangs reaches it.
const hang = 4 * time.Minute

// receive returns the next value of a channel, and fails the test if none comes.
func receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(hang):
		t.Fatalf("waited %s in vain: %s", hang, what)
		panic("unreachable")
	}
}

// validating keeps the validator to one answer at a time: it renders schemas
// that all of them share.
var validating sync.Mutex

// conforms holds an answer against what is promised of all answers and, for
// operations, against the document.
func conforms(check validator.Validator, r *http.Request, got reply) error {
	validating.Lock()
	defer validating.Unlock()
	if got.header.Get("X-Request-ID") == "" {
		return errors.New("no X-Request-ID")
	}
	if got.header.Get("Location") != "" || got.header.Get("Access-Control-Allow-Origin") != "" {
		return errors.New("a redirect or CORS header")
	}
	if got.status >= 400 && r.Method != http.MethodHead {
		if err := isProblem(got); err != nil {
			return err
		}
	}
	if !documented(got) || !inDocument(r) {
		return nil
	}
	asked := r.Clone(r.Context())
	if asked.Method == http.MethodHead {
		asked.Method = http.MethodGet
		if got.raw != "" {
			return errors.New("HEAD with a body")
		}
		return nil
	}
	response := &http.Response{StatusCode: got.status, Header: got.header, Body: io.NopCloser(strings.NewReader(got.raw)), Request: asked}
	if ok, problems := check.ValidateHttpResponse(asked, response); !ok {
		return fmt.Errorf("not as documented: %v", problems)
	}
	return nil
}

// documented leaves out what belongs to no operation.
func documented(got reply) bool {
	return !slices.Contains([]string{fault.RouteNotFound.Name, fault.WrongMethod.Name}, got.code())
}

// inDocument reports whether a request is for an operation.
func inDocument(r *http.Request) bool {
	method := strings.ToLower(strings.Replace(r.Method, http.MethodHead, http.MethodGet, 1))
	for _, op := range allOperations() {
		if op.method == method && matches(op.path, r.URL.EscapedPath()) {
			return true
		}
	}
	return false
}

// matches reports whether a path is an instance of a template.
func matches(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	return len(want) == len(have) && !slices.ContainsFunc(want, func(segment string) bool {
		i := slices.Index(want, segment)
		return segment != have[i] && (!strings.HasPrefix(segment, "{") || have[i] == "")
	})
}

// operation is one of the document's, with its raw description.
type operation struct {
	method, path string
	doc          map[string]any
}

// allOperations returns the operations of the document, ordered by path.
var allOperations = sync.OnceValue(func() []operation {
	raw, err := closedDocument()
	if err != nil {
		panic(err)
	}
	var doc struct {
		Paths map[string]map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		panic(err)
	}
	var all []operation
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for method, op := range doc.Paths[path] {
			all = append(all, operation{method: method, path: path, doc: op})
		}
	}
	return all
})

func isProblem(got reply) error {
	code, known := fault.ByName(got.code())
	switch {
	case got.header.Get("Content-Type") != "application/problem+json":
		return fmt.Errorf("an error as %q", got.header.Get("Content-Type"))
	case !known:
		return fmt.Errorf("unknown code %q", got.code())
	case got.body["type"] != "/docs/errors/"+code.Name || got.body["title"] != code.Title || got.body["detail"] == "":
		return errors.New("type, title or detail of another code")
	case got.body["status"] != float64(got.status), got.header.Get("Idempotency-Replayed") == "" && got.body["request_id"] != got.header.Get("X-Request-ID"):
		return errors.New("status or request_id unlike the head's")
	case got.status == 401 && got.header.Get("WWW-Authenticate") != "Bearer":
		return errors.New("401 without WWW-Authenticate")
	case got.status == 503 && got.header.Get("Retry-After") == "":
		return errors.New("503 without Retry-After")
	}
	return nil
}

// closedDocument is the document with every answer closed to members that it
// does not list, so that an undocumented one is noticed.
var closedDocument = sync.OnceValues(func() ([]byte, error) {
	published, err := httpapi.Document()
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(published.JSON, &doc); err != nil {
		return nil, err
	}
	for _, s := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if schema := s.(map[string]any); schema["properties"] != nil {
			schema["additionalProperties"] = false
		}
	}
	return json.Marshal(doc)
})

func documentValidator(t testing.TB) validator.Validator {
	t.Helper()
	v, err := sharedValidator()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var sharedValidator = sync.OnceValues(func() (validator.Validator, error) {
	raw, err := closedDocument()
	if err != nil {
		return nil, err
	}
	doc, err := libopenapi.NewDocument(raw)
	if err != nil {
		return nil, err
	}
	v, errs := validator.NewValidator(doc)
	return v, errors.Join(errs...)
})
