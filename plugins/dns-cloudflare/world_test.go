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
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/dns-cloudflare/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// hang is a timeout that only a server that never answers reaches, however slow
// the machine is.
const hang = 4 * time.Minute

// patientHouse returns a house whose calls time out after hang, and which tells
// the time by now.
func patientHouse(now func() time.Time) *house {
	h := newHouse()
	h.http.Timeout, h.budgets = hang, newBudgets(now)
	return h
}

// world is the simulator. Every request and answer is checked against
// Cloudflare's own OpenAPI description.
type world struct {
	server *httptest.Server
	inner  http.Handler // the simulator without the check
	ready  simulate.Ready
	make   func(sdk.Connection) (sdk.DNSProvider, error)
	serial atomic.Int64
	calls  atomic.Int64
	t      testing.TB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{make: patientHouse(time.Now).provider, t: t}
	var handler http.Handler
	w.server = httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) { handler.ServeHTTP(a, r) }))
	t.Cleanup(w.server.Close)
	inner, ready, err := simulator.New(simulate.Options{URL: w.server.URL, DataDir: t.TempDir(), Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	w.ready, w.inner = ready, inner
	handler = w.checked(inner)
	return w
}

var description3 = sync.OnceValues(func() (routers.Router, error) {
	doc, err := openapi3.NewLoader().LoadFromFile("testdata/cloudflare-dns-subset.openapi.yaml")
	if err != nil {
		return nil, err
	}
	doc.Servers = openapi3.Servers{{URL: "/client/v4"}}
	// A comma in a description of the subset makes two members of its rest.
	return legacy.NewRouter(doc, openapi3.AllowExtraSiblingFields("no trailing dot", "punycode."))
})

// checked holds what passes against the description.
func (w *world) checked(next http.Handler) http.Handler {
	router, err := description3()
	if err != nil {
		w.t.Fatal(err)
	}
	return http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/_control/") {
			next.ServeHTTP(a, r)
			return
		}
		w.calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		in := w.request(router, r)
		r.Body = io.NopCloser(bytes.NewReader(body))
		out := httptest.NewRecorder()
		next.ServeHTTP(out, r) // a planned loss panics through
		if in != nil {
			answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: out.Code, Header: out.Header()}
			answer.SetBodyBytes(out.Body.Bytes())
			if err := openapi3filter.ValidateResponse(r.Context(), answer); err != nil {
				w.t.Errorf("%s %s: answer %d: %v", r.Method, r.URL.Path, out.Code, err)
			}
		}
		for name, values := range out.Header() {
			a.Header()[name] = values
		}
		a.WriteHeader(out.Code)
		_, _ = a.Write(out.Body.Bytes())
	})
}

func (w *world) request(router routers.Router, r *http.Request) *openapi3filter.RequestValidationInput {
	route, params, err := router.FindRoute(r)
	if err != nil {
		w.t.Errorf("%s %s is not in the description: %v", r.Method, r.URL.Path, err)
		return nil
	}
	in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{
		AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
	}}
	if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
		w.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	for name := range r.URL.Query() {
		if route.Operation.Parameters.GetByInAndName("query", name) == nil {
			w.t.Errorf("%s %s: the description has no parameter %s", r.Method, r.URL.Path, name)
		}
	}
	return in
}

func (w *world) connection(token string) sdk.Connection {
	return sdk.Connection{Settings: w.ready.Settings, Secrets: map[string]secret.Text{"api_token": secret.New(token)}}
}

func (w *world) with(token string) sdk.DNSProvider {
	p, err := w.make(w.connection(token))
	if err != nil {
		panic(err)
	}
	return p
}

func (w *world) Provider() sdk.DNSProvider { return w.with(w.ready.Secrets["api_token"]) }

func (w *world) Refused() sdk.DNSProvider { return w.with("guessed") }

func (w *world) NewZone(t testing.TB) string {
	zone := fmt.Sprintf("zone-%d.test", w.serial.Add(1))
	w.control(t, http.MethodPut, "/zones/"+zone, map[string]string{}, nil)
	return zone
}

func (w *world) Put(t testing.TB, zone string, s dns.RRSet) {
	t.Helper()
	var keep []map[string]any
	for _, r := range w.records(t, zone) {
		if r["name"] != s.Name || r["type"] != string(s.Type) {
			keep = append(keep, r)
		}
	}
	for _, v := range s.Values {
		r := map[string]any{"type": s.Type, "name": s.Name, "ttl": s.TTL, "content": v}
		switch s.Type {
		case dns.MX:
			var preference int
			var host string
			_, _ = fmt.Sscan(v, &preference, &host)
			r["priority"], r["content"] = preference, host
		case dns.TXT:
			r["content"] = sdk.QuoteText(v)
		}
		keep = append(keep, r)
	}
	w.replace(t, zone, keep)
}

func (w *world) replace(t testing.TB, zone string, records []map[string]any) {
	t.Helper()
	w.control(t, http.MethodPut, "/zones/"+zone+"/records", append([]map[string]any{}, records...), nil)
}

func (w *world) records(t testing.TB, zone string) []map[string]any {
	t.Helper()
	var all []map[string]any
	w.control(t, http.MethodGet, "/zones/"+zone+"/records", nil, &all)
	return all
}

func (w *world) Held(t testing.TB, zone string) []dns.RRSet {
	t.Helper()
	var sets []dns.RRSet
	for _, r := range w.records(t, zone) {
		name, kind, value := r["name"].(string), dns.Type(r["type"].(string)), r["content"].(string)
		switch kind {
		case dns.MX:
			value = fmt.Sprint(int(r["priority"].(float64)), " ", value)
		case dns.TXT:
			value, _ = sdk.UnquoteText(value)
		}
		known := false
		for i := range sets {
			if sets[i].Name == name && sets[i].Type == kind {
				sets[i].Values, known = append(sets[i].Values, value), true
			}
		}
		if !known {
			sets = append(sets, dns.RRSet{Name: name, Type: kind, TTL: int(r["ttl"].(float64)), Values: []string{value}})
		}
	}
	return sets
}

func (w *world) Lose(t testing.TB, how contract.Failure) {
	kind := map[contract.Failure]string{contract.LosesRequest: "drop_before", contract.LosesAnswer: "drop_after"}[how]
	w.fault(t, map[string]any{"kind": kind, "times": 1, "writes_only": true})
}

func (w *world) fault(t testing.TB, f map[string]any) {
	t.Helper()
	w.control(t, http.MethodPost, "/faults", f, nil)
}

func (w *world) control(t testing.TB, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(method, w.server.URL+"/_control"+path, bytes.NewReader(body))
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
		t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, answer)
	}
}
