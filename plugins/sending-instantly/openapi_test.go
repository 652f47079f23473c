// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/tenantry/tenantry/plugins/conformance"
)

var loadDocument = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromFile("testdata/instantly-v2-mailbox-openapi-subset.json")
})

// instantlyDocument returns the OpenAPI document of Instantly in testdata.
func instantlyDocument(t conformance.T) *openapi3.T {
	t.Helper()
	doc, err := loadDocument()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// openAPIChecker reports each request to the API, and each answer, that Instantly's OpenAPI
// document does not describe. If the document does not have the status of an answer, the status
// must be in undescribedStatuses, and the body must have Instantly's error format.
type openAPIChecker struct {
	document *openapi3.T
	t        interface{ Errorf(string, ...any) }
}

func (checker openAPIChecker) checking(simulator http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if !strings.HasPrefix(request.URL.Path, prefix) {
			simulator.ServeHTTP(answer, request)
			return
		}
		label := request.Method + " " + request.URL.EscapedPath()
		operation := checker.operation(request.Method, request.URL.EscapedPath())
		if operation == nil {
			checker.t.Errorf("%s is not an operation of the document", label)
			simulator.ServeHTTP(answer, request)
			return
		}
		sent, _ := io.ReadAll(request.Body)
		request.Body = io.NopCloser(bytes.NewReader(sent))
		if err := checkRequest(operation, request, sent); err != nil {
			checker.t.Errorf("%s: the request does not match the document: %v", label, err)
		}
		recorder := httptest.NewRecorder()
		simulator.ServeHTTP(recorder, request) // a planned fault may panic to drop the connection
		if err := checkAnswer(operation, recorder.Code, recorder.Body.Bytes()); err != nil {
			checker.t.Errorf("%s: the answer %d does not match the document: %v", label, recorder.Code, err)
		}
		for name, values := range recorder.Header() {
			answer.Header()[name] = values
		}
		answer.WriteHeader(recorder.Code)
		_, _ = answer.Write(recorder.Body.Bytes())
	})
}

var placeholder = regexp.MustCompile(`\\\{[^}]*\\\}`)

func (checker openAPIChecker) operation(method, path string) *openapi3.Operation {
	for template, item := range checker.document.Paths.Map() {
		pattern := "^" + placeholder.ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`) + "$"
		if regexp.MustCompile(pattern).MatchString(path) && item.GetOperation(method) != nil {
			return item.GetOperation(method)
		}
	}
	return nil
}

func checkRequest(operation *openapi3.Operation, request *http.Request, body []byte) error {
	for name, values := range request.URL.Query() {
		parameter := operation.Parameters.GetByInAndName("query", name)
		if parameter == nil {
			return fmt.Errorf("the document has no parameter %s", name)
		}
		var value any = values[0]
		if parameter.Schema.Value.Type.Is("integer") || parameter.Schema.Value.Type.Is("number") {
			if err := json.Unmarshal([]byte(values[0]), &value); err != nil {
				return err
			}
		}
		if err := parameter.Schema.Value.VisitJSON(value); err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
	}
	// No operation has a body. The document describes the body of DELETE as null.
	if len(body) > 0 || request.Header.Get("Content-Type") != "" {
		return fmt.Errorf("the document has no body, the request has %d bytes of %q", len(body), request.Header.Get("Content-Type"))
	}
	return nil
}

// undescribedStatuses are statuses that Instantly sends, although the document may leave them out.
var undescribedStatuses = map[int]bool{400: true, 401: true, 402: true, 403: true, 404: true, 429: true, 500: true, 503: true}

func checkAnswer(operation *openapi3.Operation, status int, raw []byte) error {
	var body any
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	if answer := operation.Responses.Status(status); answer != nil {
		return checkBody(answer.Value.Content["application/json"].Schema.Value, body)
	}
	envelope, _ := body.(map[string]any)
	if !undescribedStatuses[status] || len(envelope) != 3 || envelope["statusCode"] != float64(status) || envelope["error"] != http.StatusText(status) {
		return fmt.Errorf("the answer matches neither the document nor Instantly's error envelope: %s", raw)
	}
	return nil
}

// checkBody checks body against a schema and refuses properties that the schema does not have. The
// schemas themselves allow additional properties, so validation would accept a misspelled property.
func checkBody(schema *openapi3.Schema, body any) error {
	if err := schema.VisitJSON(body, openapi3.VisitAsResponse(), openapi3.EnableFormatValidation()); err != nil {
		return err
	}
	object, _ := body.(map[string]any)
	for name := range object {
		if schema.Properties[name] == nil {
			return fmt.Errorf("the document has no property %s", name)
		}
	}
	items, _ := object["items"].([]any)
	for _, item := range items {
		if err := checkBody(schema.Properties["items"].Value.Items.Value.AllOf[0].Value, item); err != nil {
			return err
		}
	}
	return nil
}

// errorRecorder records the errors of an openAPIChecker.
type errorRecorder struct{ messages []string }

func (r *errorRecorder) Errorf(format string, args ...any) {
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}

// TestUndescribedRequestsAndAnswersAreReported tests openAPIChecker itself.
func TestUndescribedRequestsAndAnswersAreReported(t *testing.T) {
	const accountPrefix = `{"email":"a@b.test","timestamp_created":"2026-01-01T00:00:00.000Z","timestamp_updated":"2026-01-01T00:00:00.000Z",` +
		`"first_name":"A","last_name":"B","organization":"019ffad2-5cac-7fb9-a336-000000000001","warmup_status":0,"provider_code":3,"setup_pending":false,"is_managed_account":false`
	for name, tc := range map[string]struct{ method, path, body, answer string }{
		"unknown path":               {"GET", "/api/v2/oauth/status/x", "", `{}`},
		"unknown parameter":          {"GET", "/api/v2/accounts?page=1", "", `{"items":[]}`},
		"limit too high":             {"GET", "/api/v2/accounts?limit=101", "", `{"items":[]}`},
		"a body":                     {"DELETE", "/api/v2/accounts/x", "{}", accountPrefix + "}"},
		"unknown status":             {"GET", "/api/v2/accounts/x", "", accountPrefix + `,"status":17}`},
		"unknown property":           {"GET", "/api/v2/accounts/x", "", accountPrefix + `,"state":1}`},
		"unknown property in a list": {"GET", "/api/v2/accounts", "", `{"items":[` + accountPrefix + `,"state":1}]}`},
		"missing properties":         {"GET", "/api/v2/accounts/x", "", `{"email":"a@b.test"}`},
		"unknown session status":     {"GET", "/api/v2/oauth/session/status/x", "", `{"status":"done"}`},
	} {
		t.Run(name, func(t *testing.T) {
			var recorded errorRecorder
			handler := openAPIChecker{document: instantlyDocument(t), t: &recorded}.checking(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.answer) }))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(tc.method, tc.path, strings.NewReader(tc.body)))
			if len(recorded.messages) == 0 {
				t.Error("the checker reports no error")
			}
		})
	}
}
