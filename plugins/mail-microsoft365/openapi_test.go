// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator/openapi"
)

var graphDescription = sync.OnceValues(func() (openapi.Description, error) { return openapi.Load("simulator/testdata") })

// graphValidator checks each Graph request and its response against Microsoft's OpenAPI
// description. The platform of newTestEnv sends all requests through it.
type graphValidator struct {
	next http.RoundTripper
	base string                              // base URL of Graph, without the version
	t    interface{ Errorf(string, ...any) } // receives the differences
}

func (v graphValidator) RoundTrip(r *http.Request) (*http.Response, error) {
	// path is the escaped path without the base URL.
	path, isGraph := strings.CutPrefix(r.URL.Scheme+"://"+r.URL.Host+r.URL.EscapedPath(), v.base+"/v1.0")
	if !isGraph {
		return v.next.RoundTrip(r)
	}
	description, err := graphDescription()
	if err != nil {
		return nil, err
	}
	label := r.Method + " " + path
	operation := description.Operation(r.Method, path)
	if operation == nil {
		v.t.Errorf("%s is not in the description", label)
		return v.next.RoundTrip(r)
	}
	var sent []byte
	if r.Body != nil {
		sent, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(sent))
	}
	if err := openapi.CheckRequest(operation, r, sent); err != nil {
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
	if err := openapi.CheckAnswer(operation, resp.StatusCode, body); err != nil {
		v.t.Errorf("%s: the answer %d does not match the description: %v", label, resp.StatusCode, err)
	}
	return resp, nil
}

// errorRecorder takes the place of a *testing.T and records the errors.
type errorRecorder struct{ errors []string }

func (r *errorRecorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestGraphValidatorReportsCallsThatDifferFromTheDescription(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"value":"no list"}`))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	for name, request := range map[string]struct{ method, path, body string }{
		"unknown path":       {"PATCH", "/domainz/x", `{}`},
		"unknown parameter":  {"PATCH", "/users/x?$sellect=id", `{"accountEnabled":true}`},
		"misspelled member":  {"PATCH", "/users/x", `{"accountEnable":true}`},
		"wrong type":         {"PATCH", "/users/x", `{"accountEnabled":"yes"}`},
		"undescribed body":   {"POST", "/domains/x/verify", `{}`},
		"undescribed answer": {"GET", "/domains", ``},
	} {
		t.Run(name, func(t *testing.T) {
			var recorder errorRecorder
			validator := graphValidator{next: http.DefaultTransport, base: server.URL, t: &recorder}
			r, err := http.NewRequestWithContext(t.Context(), request.method, server.URL+"/v1.0"+request.path, strings.NewReader(request.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := validator.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if len(recorder.errors) == 0 {
				t.Fatal("the validator reports no error, want an error")
			}
		})
	}
}
