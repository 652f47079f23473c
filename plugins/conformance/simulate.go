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
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// Simulator is a plugin's simulator that runs in the test, with the faults of
// contract.SendingWorld at hand.
type Simulator struct {
	URL   string
	Ready simulate.Ready
	// Calls counts the calls of the provider's API.
	Calls  atomic.Int64
	faults faults
}

// Simulate starts a plugin's simulator and ends it with the test.
func Simulate(t testing.TB, open func(simulate.Options) (http.Handler, simulate.Ready, error)) *Simulator {
	t.Helper()
	s := &Simulator{}
	var inner http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if control(r) || page(r) {
			inner.ServeHTTP(w, r)
			return
		}
		s.Calls.Add(1)
		s.faults.serve(w, r, inner)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // else a plugin's idle ones are waited for
	s.URL = server.URL
	var err error
	if inner, s.Ready, err = open(simulate.Options{URL: s.URL, DataDir: t.TempDir(), Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	s.faults.elsewhere = elsewhere.URL
	s.faults.hosts = strings.Split(s.Ready.Settings["auth_hosts"], ",")
	s.faults.fail = func(f simulate.Fault) func() { return s.plan(t, f) }
	return s
}

// control reports whether a request is to the control interface, page whether
// a browser made it; neither is a call of the provider's API.
func control(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/_control/") }

func page(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Connection is what the simulator says that leads to it, with some settings
// and secrets put in place of its own; an empty one takes it away.
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

// Control makes a call of the control interface, below /_control. out may be
// nil.
func (s *Simulator) Control(t testing.TB, method, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, s.URL+"/_control"+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode >= http.StatusMultipleChoices || out != nil && json.Unmarshal(said, out) != nil {
		t.Fatalf("%s %s: %d %s", method, path, answer.StatusCode, said)
	}
}

// plan plans a fault of the simulator's own.
func (s *Simulator) plan(t testing.TB, f simulate.Fault) (lift func()) {
	t.Helper()
	f.Times = 1000
	s.Control(t, http.MethodPost, "/faults", f, nil)
	return func() { s.Control(t, http.MethodDelete, "/faults", nil, nil) }
}

// Nowhere is a base URL where nobody listens.
func Nowhere(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}
