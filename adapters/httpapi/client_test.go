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

// reply is an answer of the API. body is nil when raw is not a JSON object.
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

// apiClient calls a test server. It checks each answer with validateReply, and reports the error to
// t.
type apiClient struct {
	t         testing.TB
	server    *httptest.Server
	validator validator.Validator
}

// serve starts a server for the handler and returns a client. The server is closed at the end of
// the test.
func serve(t *testing.T, handler http.Handler) *apiClient {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &apiClient{t: t, server: server, validator: documentValidator(t)}
}

// call is a request to send. By default it accepts JSON, a write has a new Idempotency-Key, and a
// body has the content type of JSON. headers overrides the defaults. An empty value in headers
// removes the header.
type call struct {
	method, path, body string
	key                string // the API key, "" for a request without one
	headers            map[string]string
}

func (c call) request(t testing.TB, base string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(c.method, base+c.path, strings.NewReader(c.body))
	must(t, err)
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

// forTest returns a client of the same server that reports errors to a subtest.
func (client *apiClient) forTest(t *testing.T) *apiClient {
	return &apiClient{t: t, server: client.server, validator: client.validator}
}

// do sends a call and returns its answer.
func (client *apiClient) do(c call) reply {
	client.t.Helper()
	return client.send(c.request(client.t, client.server.URL))
}

// doWhenNotBusy sends a call. While the answer is 503 or 504, it sends the call again with the same
// Idempotency-Key, like a caller of a busy server.
func (client *apiClient) doWhenNotBusy(c call) reply {
	client.t.Helper()
	headers := map[string]string{"Idempotency-Key": rand.Text()}
	maps.Copy(headers, c.headers)
	c.headers = headers
	for deadline := time.Now().Add(testTimeout); ; {
		got := client.do(c)
		busy := got.status == http.StatusServiceUnavailable || got.status == http.StatusGatewayTimeout
		if !busy || time.Now().After(deadline) {
			return got
		}
	}
}

func (client *apiClient) send(r *http.Request) reply {
	client.t.Helper()
	response, err := noRedirects.Do(r)
	must(client.t, err)
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	must(client.t, err)
	got := reply{status: response.StatusCode, header: response.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &got.body)
	if err := validateReply(client.validator, r, got); err != nil {
		client.t.Errorf("%s %s answered %d: %v\n%s", r.Method, r.URL.Path, got.status, err, raw)
	}
	return got
}

// expect sends a call and reports an error if the answer has a different status or code. The code
// of a success is "". An answer with the code invalid_request must also name the invalid parts of
// the request.
func (client *apiClient) expect(c call, status int, code string) reply {
	client.t.Helper()
	got := client.do(c)
	if got.status != status || got.code() != code {
		client.t.Errorf("%s %s: got %d %q, want %d %q\n%s", c.method, c.path, got.status, got.code(), status, code, got.raw)
	}
	if locations := got.locations(); got.code() == "invalid_request" && (len(locations) == 0 || slices.Contains(locations, "")) {
		client.t.Errorf("%s %s: the answer does not name the invalid part of the request\n%s", c.method, c.path, got.raw)
	}
	return got
}

// locations returns the locations of the invalid parts of the request that an error answer names.
func (r reply) locations() []string {
	var list []string
	details, _ := r.body["errors"].([]any)
	for _, detail := range details {
		field, _ := detail.(map[string]any)
		location, _ := field["location"].(string)
		list = append(list, location)
	}
	return list
}

// noRedirects is an HTTP client that returns redirects as answers. A request fails if its complete
// answer does not arrive within testTimeout.
var noRedirects = &http.Client{
	Timeout:       testTimeout,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// testTimeout is how long a test waits for an event. It is exceeded only if something hangs.
const testTimeout = 4 * time.Minute

// receive returns the next value of a channel. If no value arrives within testTimeout, it fails the
// test with the text failure.
func receive[T any](t testing.TB, values <-chan T, failure string) T {
	t.Helper()
	select {
	case v := <-values:
		return v
	case <-time.After(testTimeout):
		t.Fatalf("waited %s: %s", testTimeout, failure)
		panic("unreachable")
	}
}

// validatorMutex serializes the use of the validator, which is not safe for concurrent use: its
// validations share rendered schemas.
var validatorMutex sync.Mutex

// validateReply checks the headers of an answer, and an error with validateProblem. It checks the
// answer of an operation against the OpenAPI document.
func validateReply(docValidator validator.Validator, r *http.Request, got reply) error {
	validatorMutex.Lock()
	defer validatorMutex.Unlock()
	if got.header.Get("X-Request-ID") == "" {
		return errors.New("the answer has no X-Request-ID")
	}
	if got.header.Get("Location") != "" || got.header.Get("Access-Control-Allow-Origin") != "" {
		return errors.New("the answer has the header Location or Access-Control-Allow-Origin")
	}
	if got.status >= 400 && r.Method != http.MethodHead {
		if err := validateProblem(got); err != nil {
			return err
		}
	}
	if !isFromOperation(got) || !hasOperation(r) {
		return nil
	}
	if r.Method == http.MethodHead {
		if got.raw != "" {
			return errors.New("the answer to HEAD has a body")
		}
		return nil
	}
	response := &http.Response{StatusCode: got.status, Header: got.header, Body: io.NopCloser(strings.NewReader(got.raw)), Request: r}
	if ok, problems := docValidator.ValidateHttpResponse(r, response); !ok {
		return fmt.Errorf("not as documented: %v", problems)
	}
	return nil
}

// isFromOperation reports whether an answer is from an operation, not from the router.
func isFromOperation(got reply) bool {
	return !slices.Contains([]string{fault.RouteNotFound.Name, fault.WrongMethod.Name}, got.code())
}

func hasOperation(r *http.Request) bool {
	method := strings.ToLower(strings.Replace(r.Method, http.MethodHead, http.MethodGet, 1))
	for _, op := range allOperations() {
		if op.method == method && matchesTemplate(op.path, r.URL.EscapedPath()) {
			return true
		}
	}
	return false
}

func matchesTemplate(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if len(got) != len(want) {
		return false
	}
	for i, segment := range want {
		if got[i] != segment && (!strings.HasPrefix(segment, "{") || got[i] == "") {
			return false
		}
	}
	return true
}

// operation is an operation of the document. doc is its JSON object.
type operation struct {
	method, path string
	doc          map[string]any
}

// allOperations returns the operations of the document, ordered by path and method, so that a test
// with a random source can be repeated with its seed.
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
	var operations []operation
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			operations = append(operations, operation{method: method, path: path, doc: doc.Paths[path][method]})
		}
	}
	return operations
})

// validateProblem checks the body and headers of an error.
func validateProblem(got reply) error {
	code, exists := fault.ByName(got.code())
	switch {
	case got.header.Get("Content-Type") != "application/problem+json":
		return fmt.Errorf("the error has the Content-Type %q", got.header.Get("Content-Type"))
	case !exists:
		return fmt.Errorf("unknown code %q", got.code())
	case got.body["type"] != "/docs/errors/"+code.Name || got.body["title"] != code.Title || got.body["detail"] == "":
		return errors.New("type, title or detail do not match the code")
	case got.body["status"] != float64(got.status), got.header.Get("Idempotency-Replayed") == "" && got.body["request_id"] != got.header.Get("X-Request-ID"):
		return errors.New("the status or the request_id in the body differs from that of the answer")
	case got.status == 401 && got.header.Get("WWW-Authenticate") != "Bearer":
		return errors.New("401 without WWW-Authenticate")
	case got.status == 503 && got.header.Get("Retry-After") == "":
		return errors.New("503 without Retry-After")
	}
	return nil
}

// closedDocument returns the document with additionalProperties set to false for each schema
// component with properties, so that the validator reports undocumented members.
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
	must(t, err)
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
