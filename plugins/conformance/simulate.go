// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// Simulator is a plugin's simulator and the proxy in front of it. Simulate runs the simulator
// inside the test, and Test runs it as a process. The method Fail injects the failures that the
// contract suite of a sending platform requires.
type Simulator struct {
	URL   string
	Ready simulate.Ready
	// Calls counts the requests, without control calls and without requests that accept HTML, as a
	// browser sends them.
	Calls  atomic.Int64
	faults faultInjector
	// plansFaults is true if the simulator has control calls that plan faults.
	plansFaults bool
	exchange    *exchange // nil inside a Go test
}

// Simulate starts a plugin's simulator and stops it when the test ends. The test fails if open
// fails, or if a client follows a redirect that Fail has injected.
func Simulate(t T, open func(simulate.Options) (http.Handler, simulate.Ready, error)) *Simulator {
	t.Helper()
	s := &Simulator{plansFaults: true}
	var inner http.Handler
	s.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(w, r) }))
	var err error
	if inner, s.Ready, err = open(simulate.Options{URL: s.URL, DataDir: t.TempDir(), Log: io.Discard}); err != nil {
		t.Fatal(err)
	}
	s.faults.authHosts = sdk.SplitAuthHosts(s.Ready.Settings["auth_hosts"])
	return s
}

// serve starts a server that is a proxy between the plugin and the simulator. next calls the
// simulator.
func (s *Simulator) serve(t T, next http.Handler) {
	t.Helper()
	s.faults.redirectURL = startServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	s.URL = startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isControl(r) || isPage(r) {
			next.ServeHTTP(w, r)
			return
		}
		s.Calls.Add(1)
		s.serveProvider(w, r, next)
	}))
}

// serveProvider serves a request of the provider's API with the planned fault or the current
// failure, and records the request.
func (s *Simulator) serveProvider(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if s.exchange == nil {
		s.faults.serve(w, r, next)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return // the client has closed the connection before its request was complete
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	observed := &responseRecorder{ResponseWriter: w, status: http.StatusOK}
	result := "the connection was closed without an answer"
	defer func() { s.exchange.recordProviderCall(r, body, result) }()
	s.faults.serve(observed, r, next)
	result = fmt.Sprintf("%d %s", observed.status, observed.body)
}

// maxBody is the maximum length of a request body in bytes. The rest of a longer body is not read.
const maxBody = 4 << 20

// responseRecorder stores the status and the beginning of the body that are written through it.
type responseRecorder struct {
	http.ResponseWriter
	status int
	body   []byte
}

// WriteHeader implements http.ResponseWriter.
func (o *responseRecorder) WriteHeader(status int) {
	o.status = status
	o.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (o *responseRecorder) Write(p []byte) (int, error) {
	o.body = append(o.body, p[:min(len(p), maxShownBytes-min(maxShownBytes, len(o.body)))]...)
	return o.ResponseWriter.Write(p)
}

func isControl(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/_control/") }

func isPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// Connection returns a connection to the simulator, with the settings and secrets of Ready. The
// arguments replace the settings and secrets of the same name. An empty value removes a setting or
// secret.
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

// Control sends the value of in as JSON to a path below /_control and decodes the answer into out,
// which may be nil. The test fails if the status is 300 or above, or if the answer cannot be
// decoded.
func (s *Simulator) Control(t T, method, path string, in, out any) {
	t.Helper()
	status, answer := s.callControl(t, method, path, in)
	if status >= http.StatusMultipleChoices || out != nil && json.Unmarshal(answer, out) != nil {
		t.Fatalf("control call %s %s: status %d, answer %s", method, path, status, answer)
	}
}

// writeCount returns the number of requests so far that could change the provider's state. It
// counts the requests that the simulator's journal marks as writes. If the simulator cannot plan
// faults, writeCount assumes that it has no journal, and counts the requests with a method other
// than GET and HEAD.
func (s *Simulator) writeCount(t T) (n int) {
	t.Helper()
	if !s.plansFaults {
		return int(s.faults.writes.Load())
	}
	for _, c := range s.journal(t) {
		if c.Write {
			n++
		}
	}
	return n
}

func (s *Simulator) requestCount(t T) int {
	t.Helper()
	if !s.plansFaults {
		return int(s.faults.requests.Load())
	}
	return len(s.journal(t))
}

func (s *Simulator) journal(t T) (calls []simulate.Entry) {
	t.Helper()
	s.Control(t, http.MethodGet, "/calls", nil, &calls)
	return calls
}

// Violations returns the calls that broke a rule of the provider, for example calls that ignored a
// Retry-After.
func (s *Simulator) Violations(t T) []simulate.Entry {
	t.Helper()
	return slices.DeleteFunc(s.journal(t), func(e simulate.Entry) bool { return e.Violation == "" })
}

// planFault makes the next f.Times calls to which f applies fail, or 1,000 calls if f.Times is 0.
// lift deletes the planned faults.
//
// The proxy injects the fault if the simulator has no control calls for faults. It also injects
// every HTML page, because a simulator that is not written with the SDK need not have this kind of
// fault. For the proxy, every request is a write unless its method is GET or HEAD. If a plugin
// signs in with a POST, the sign-in can therefore get a fault that is planned for the next write.
func (s *Simulator) planFault(t T, f simulate.Fault) (lift func()) {
	t.Helper()
	f.Times = cmp.Or(f.Times, 1000)
	if !s.plansFaults || f.Kind == simulate.HTML {
		s.faults.setPlanned(f)
		return func() { s.faults.setPlanned(simulate.Fault{}) }
	}
	s.Control(t, http.MethodPost, "/faults", f, nil)
	return func() { s.Control(t, http.MethodDelete, "/faults", nil, nil) }
}
