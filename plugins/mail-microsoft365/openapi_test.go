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

var graphDocument = sync.OnceValues(func() (*openapi3.T, error) {
	loader := openapi3.NewLoader()
	loader.IsExternalRefsAllowed = true // the second document refers to the first
	doc, err := loader.LoadFromFile("simulator/testdata/microsoft-graph-subset.openapi.yaml")
	if err != nil {
		return nil, err
	}
	subscriptions, err := loader.LoadFromFile("simulator/testdata/microsoft-graph-subscriptions.openapi.yaml")
	if err != nil {
		return nil, err
	}
	for path, item := range subscriptions.Paths.Map() {
		doc.Paths.Set(path, item)
	}
	return doc, nil
})

var pathParameter = regexp.MustCompile(`\\\{[^}]*\\\}`)

// graphPaths returns a pattern for each path template of the description.
var graphPaths = sync.OnceValue(func() map[string]*regexp.Regexp {
	patterns := map[string]*regexp.Regexp{}
	doc, err := graphDocument()
	if err != nil {
		return patterns
	}
	for template := range doc.Paths.Map() {
		patterns[template] = regexp.MustCompile("^" + pathParameter.ReplaceAllString(regexp.QuoteMeta(template), `[^/]+`) + "$")
	}
	return patterns
})

func graphDescription(t conformance.T) *openapi3.T {
	t.Helper()
	doc, err := graphDocument()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// graphValidator checks each Graph request and its response against Microsoft's OpenAPI
// description. The platform of newTestEnv sends all requests through it.
type graphValidator struct {
	next        http.RoundTripper
	base        string // base URL of Graph, without the version
	description *openapi3.T
	t           interface{ Errorf(string, ...any) }
}

func (v graphValidator) RoundTrip(r *http.Request) (*http.Response, error) {
	// path is the escaped path without the base URL.
	path, isGraph := strings.CutPrefix(r.URL.Scheme+"://"+r.URL.Host+r.URL.EscapedPath(), v.base+"/v1.0")
	if !isGraph {
		return v.next.RoundTrip(r)
	}
	label := r.Method + " " + path
	operation := v.operation(r.Method, path)
	if operation == nil {
		v.t.Errorf("%s is not in the description", label)
		return v.next.RoundTrip(r)
	}
	var sent []byte
	if r.Body != nil {
		sent, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	if err := checkRequest(operation, r, sent); err != nil {
		v.t.Errorf("%s: the request does not match the description: %v", label, err)
	}
	resp, err := v.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	if err := checkAnswer(operation, resp.StatusCode, body); err != nil {
		v.t.Errorf("%s: the answer %d does not match the description: %v", label, resp.StatusCode, err)
	}
	return resp, nil
}

// operation returns the operation whose path template matches. If several templates match, it
// prefers the template with the fewest parameters, not counting those after an equals sign.
func (v graphValidator) operation(method, path string) *openapi3.Operation {
	var chosen *openapi3.Operation
	minParameters := 0
	for template, item := range v.description.Paths.Map() {
		if !graphPaths()[template].MatchString(path) {
			continue
		}
		if parameters := strings.Count(template, "{") - strings.Count(template, "="); chosen == nil || parameters < minParameters {
			chosen, minParameters = item.GetOperation(method), parameters
		}
	}
	return chosen
}

func checkRequest(operation *openapi3.Operation, r *http.Request, body []byte) error {
	for name := range r.URL.Query() {
		// $skiptoken is allowed, because it is a part of a link that Graph creates.
		if name != "$skiptoken" && operation.Parameters.GetByInAndName("query", name) == nil {
			return fmt.Errorf("the description has no parameter %s", name)
		}
	}
	if operation.RequestBody == nil {
		if len(body) > 0 {
			return fmt.Errorf("the description has no body, the request has %d bytes", len(body))
		}
		return nil
	}
	return checkBody(operation.RequestBody.Value.Content, body, openapi3.VisitAsRequest())
}

func checkAnswer(operation *openapi3.Operation, status int, body []byte) error {
	described := operation.Responses.Status(status)
	if described == nil {
		described = operation.Responses.Value(fmt.Sprintf("%dXX", status/100))
	}
	if described == nil {
		return fmt.Errorf("the status is not described")
	}
	if len(described.Value.Content) == 0 {
		return nil
	}
	return checkBody(described.Value.Content, body, openapi3.VisitAsResponse())
}

func checkBody(content openapi3.Content, raw []byte, as openapi3.SchemaValidationOption) error {
	var body any
	if err := json.Unmarshal(raw, &body); err != nil {
		return err
	}
	// Graph writes the dates in innerError without a time zone, contrary to the description.
	object, _ := body.(map[string]any)
	if errorObject, ok := object["error"].(map[string]any); ok {
		delete(errorObject, "innerError")
	}
	schema := content["application/json"].Schema.Value
	if err := schema.VisitJSON(body, as); err != nil {
		return err
	}
	// The schemas allow additional properties, so a misspelled property must be found here.
	for name := range object {
		if !strings.Contains(name, "@") && !hasProperty(schema, name) {
			return fmt.Errorf("the description has no property %s", name)
		}
	}
	return nil
}

func hasProperty(schema *openapi3.Schema, name string) bool {
	if schema.Properties[name] != nil {
		return true
	}
	for _, element := range schema.AllOf {
		if hasProperty(element.Value, name) {
			return true
		}
	}
	return false
}

type errorRecorder struct{ errors []string }

func (r *errorRecorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestGraphValidatorReportsUndescribedCalls(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"value":"no list"}`))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	for name, call := range map[string]struct{ method, path, body string }{
		"unknown path":       {"PATCH", "/domainz/x", `{}`},
		"unknown parameter":  {"PATCH", "/users/x?$sellect=id", `{"accountEnabled":true}`},
		"misspelled member":  {"PATCH", "/users/x", `{"accountEnable":true}`},
		"wrong type":         {"PATCH", "/users/x", `{"accountEnabled":"yes"}`},
		"undescribed body":   {"POST", "/domains/x/verify", `{}`},
		"undescribed answer": {"GET", "/domains", ``},
	} {
		t.Run(name, func(t *testing.T) {
			var recorder errorRecorder
			v := graphValidator{next: http.DefaultTransport, base: server.URL, description: graphDescription(t), t: &recorder}
			r, err := http.NewRequestWithContext(t.Context(), call.method, server.URL+"/v1.0"+call.path, strings.NewReader(call.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := v.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if len(recorder.errors) == 0 {
				t.Fatal("the validator reports no error")
			}
		})
	}
}
