// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// Simulator is a plugin's simulator that runs inside the test. Its method Fail injects the failures
// that the contract of a sending platform asks for.
type Simulator struct {
	URL   string
	Ready simulate.Ready
	// Calls counts the requests to the provider's API, without control calls and browser pages.
	Calls  atomic.Int64
	faults faultInjector
}

// Simulate starts a plugin's simulator and stops it when the test ends. The test fails when open
// returns an error, or when a client follows a redirect that Fail injected.
func Simulate(t T, open func(simulate.Options) (http.Handler, simulate.Ready, error)) *Simulator {
	t.Helper()
	s := &Simulator{}
	var inner http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isControl(r) || isPage(r) {
			inner.ServeHTTP(w, r)
			return
		}
		s.Calls.Add(1)
		s.faults.serve(w, r, inner)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // Close would wait for idle connections of the plugin
	s.URL = server.URL
	var err error
	if inner, s.Ready, err = open(simulate.Options{URL: s.URL, DataDir: t.TempDir(), Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	redirectTarget := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(redirectTarget.Close)
	s.faults.redirectURL = redirectTarget.URL
	s.faults.authHosts = strings.Split(s.Ready.Settings["auth_hosts"], ",")
	return s
}

// isControl reports whether r is a request to the control interface.
func isControl(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/_control/") }

// isPage reports whether r is a page request of a browser.
func isPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Connection returns a connection to the simulator, with its own settings and secrets. The settings
// and secrets passed replace those of the same name; an empty value removes one.
func (s *Simulator) Connection(settings, secrets map[string]string) sdk.Connection {
	c := sdk.Connection{Settings: maps.Clone(s.Ready.Settings), Secrets: map[string]secret.Text{}}
	if c.Settings == nil {
		c.Settings = map[string]string{}
	}
	for name, value := range settings {
		c.Settings[name] = value
		if value == "" {
			delete(c.Settings, name)
		}
	}
	for name, value := range s.Ready.Secrets {
		c.Secrets[name] = secret.New(value)
	}
	for name, value := range secrets {
		c.Secrets[name] = secret.New(value)
		if value == "" {
			delete(c.Secrets, name)
		}
	}
	return c
}

// Control sends in as JSON to a path below /_control and decodes the answer into out, which may be
// nil. The test fails when the status is 300 or above, or when the answer does not decode.
func (s *Simulator) Control(t T, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, s.URL+"/_control"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, _ := io.ReadAll(response.Body)
	if response.StatusCode >= http.StatusMultipleChoices || out != nil && json.Unmarshal(answer, out) != nil {
		t.Fatalf("%s %s: %d %s", method, path, response.StatusCode, answer)
	}
}

// Violations returns the calls that broke a rule of the provider, such as a Retry-After.
func (s *Simulator) Violations(t T) []simulate.Entry {
	t.Helper()
	var calls []simulate.Entry
	s.Control(t, http.MethodGet, "/calls", nil, &calls)
	return slices.DeleteFunc(calls, func(e simulate.Entry) bool { return e.Violation == "" })
}

// planFault makes the simulator itself fail the next 1,000 calls, until lift deletes all its
// faults.
func (s *Simulator) planFault(t T, f simulate.Fault) (lift func()) {
	t.Helper()
	f.Times = 1000
	s.Control(t, http.MethodPost, "/faults", f, nil)
	return func() { s.Control(t, http.MethodDelete, "/faults", nil, nil) }
}

// UnreachableURL returns a base URL on which nothing listens.
func UnreachableURL(t T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}
