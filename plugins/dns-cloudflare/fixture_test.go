// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// testTimeout is long enough for a slow machine. A call exceeds it only if a server never answers.
const testTimeout = 4 * time.Minute

// newTestState returns a processState whose calls time out after testTimeout, and whose budgets and
// waits take the time from the function now.
func newTestState(now func() time.Time) *processState {
	s := newProcessState()
	s.http.Timeout, s.budgets, s.waits = testTimeout, newBudgets(now), sdk.NewWaits(now)
	return s
}

// fixture runs the simulator on a server. The server validates the requests to the API and their
// answers against Cloudflare's OpenAPI description. fixture implements conformance.DNSFixture.
type fixture struct {
	server       *httptest.Server
	simulator    http.Handler // the simulator without validation
	ready        simulate.Ready
	newProvider  func(sdk.Connection) (sdk.DNSProvider, error)
	zonesCreated atomic.Int64
	calls        atomic.Int64
	t            conformance.T
}

func newFixture(t conformance.T) *fixture {
	t.Helper()
	f := &fixture{newProvider: newTestState(time.Now).provider, t: t}
	var handler http.Handler
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(f.server.Close)
	sim, ready, err := simulator.New(simulate.Options{URL: f.server.URL, DataDir: t.TempDir(), Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	f.ready, f.simulator = ready, sim
	handler = f.validating(sim)
	return f
}

var loadAPIDescription = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("testdata/cloudflare-dns-subset.openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc.Servers = openapi3.Servers{{URL: "/client/v4"}}
	// In the file, an unquoted description contains a comma, so the YAML parser takes the text
	// after the comma for members.
	return legacy.NewRouter(doc, openapi3.AllowExtraSiblingFields("no trailing dot", "punycode."))
})

// validating returns a handler that passes all requests to next. The handler validates the requests
// to the API and their answers.
func (f *fixture) validating(next http.Handler) http.Handler {
	router, err := loadAPIDescription()
	if err != nil {
		f.t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/_control/") {
			next.ServeHTTP(w, r)
			return
		}
		f.calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		validated := f.validateRequest(router, r)
		r.Body = io.NopCloser(bytes.NewReader(body))
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r) // panics for a planned connection loss
		if validated != nil {
			answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: validated, Status: recorder.Code, Header: recorder.Header()}
			answer.SetBodyBytes(recorder.Body.Bytes())
			if err := openapi3filter.ValidateResponse(r.Context(), answer); err != nil {
				f.t.Errorf("%s %s: the answer %d does not match the description: %v", r.Method, r.URL.Path, recorder.Code, err)
			}
		}
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes())
	})
}

func (f *fixture) validateRequest(router routers.Router, r *http.Request) *openapi3filter.RequestValidationInput {
	route, params, err := router.FindRoute(r)
	if err != nil {
		f.t.Errorf("%s %s is not in the description: %v", r.Method, r.URL.Path, err)
		return nil
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
	}}
	if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
		f.t.Errorf("%s %s: the request does not match the description: %v", r.Method, r.URL.Path, err)
	}
	for name := range r.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			f.t.Errorf("%s %s: the description has no parameter %s", r.Method, r.URL.Path, name)
		}
	}
	return in
}

func (f *fixture) connection(token string) sdk.Connection {
	return sdk.Connection{Settings: f.ready.Settings, Secrets: map[string]sdk.Secret{"api_token": sdk.NewSecret(token)}}
}

func (f *fixture) providerWithToken(token string) sdk.DNSProvider {
	provider, err := f.newProvider(f.connection(token))
	if err != nil {
		panic(err)
	}
	return provider
}

func (f *fixture) Provider() sdk.DNSProvider {
	return f.providerWithToken(f.ready.Secrets["api_token"])
}

// Refused returns a provider with a token that the simulator rejects.
func (f *fixture) Refused() sdk.DNSProvider { return f.providerWithToken("guessed") }

func (f *fixture) NewZone(t conformance.T) string {
	zone := fmt.Sprintf("zone-%d.test", f.zonesCreated.Add(1))
	f.control(t, http.MethodPut, "/zones/"+zone, map[string]string{}, nil)
	return zone
}

func (f *fixture) Put(t conformance.T, zone string, s sdk.RRSet) {
	t.Helper()
	var remaining []map[string]any
	for _, r := range f.records(t, zone) {
		if r["name"] != s.Name || r["type"] != string(s.Type) {
			remaining = append(remaining, r)
		}
	}
	for _, value := range s.Values {
		r := map[string]any{"type": s.Type, "name": s.Name, "ttl": s.TTL, "content": value}
		switch s.Type {
		case sdk.MX:
			var preference int
			var host string
			_, _ = fmt.Sscan(value, &preference, &host)
			r["priority"], r["content"] = preference, host
		case sdk.TXT:
			r["content"] = sdk.QuoteText(value)
		}
		remaining = append(remaining, r)
	}
	f.replaceRecords(t, zone, remaining)
}

func (f *fixture) replaceRecords(t conformance.T, zone string, records []map[string]any) {
	t.Helper()
	f.control(t, http.MethodPut, "/zones/"+zone+"/records", append([]map[string]any{}, records...), nil)
}

func (f *fixture) records(t conformance.T, zone string) []map[string]any {
	t.Helper()
	var list []map[string]any
	f.control(t, http.MethodGet, "/zones/"+zone+"/records", nil, &list)
	return list
}

// Held returns the record sets that the provider stores for the zone.
func (f *fixture) Held(t conformance.T, zone string) []sdk.RRSet {
	t.Helper()
	var held []simulate.Record
	for _, r := range f.records(t, zone) {
		kind, value := sdk.RecordType(r["type"].(string)), r["content"].(string)
		switch kind {
		case sdk.MX:
			value = fmt.Sprint(int(r["priority"].(float64)), " ", value)
		case sdk.TXT:
			value, _ = sdk.UnquoteText(value)
		}
		held = append(held, simulate.Record{Type: string(kind), Name: r["name"].(string), Content: value, TTL: int(r["ttl"].(float64))})
	}
	return simulate.SetsOf(held)
}

// Lose makes the next write lose its request or its answer.
func (f *fixture) Lose(t conformance.T, failure conformance.Failure) {
	kind := map[conformance.Failure]string{conformance.LosesRequest: "drop_before", conformance.LosesAnswer: "drop_after"}[failure]
	f.planFault(t, map[string]any{"kind": kind, "times": 1, "writes_only": true})
}

func (f *fixture) planFault(t conformance.T, fault map[string]any) {
	t.Helper()
	f.control(t, http.MethodPost, "/faults", fault, nil)
}

func (f *fixture) control(t conformance.T, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(method, f.server.URL+"/_control"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || (out != nil && json.Unmarshal(answer, out) != nil) {
		t.Fatalf("%s %s: status %d, answer %s, want 200 and valid JSON", method, path, resp.StatusCode, answer)
	}
}
