// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	graphScope    = "https://graph.microsoft.com/.default"
	exchangeScope = "https://outlook.office365.com/.default"
	callback      = "http://127.0.0.1:8080/connect/microsoft365/callback"
	signin        = "http://127.0.0.1:8080/connect/microsoft365/signin"
)

// sim is a running simulator as a client sees it.
type sim struct {
	t     *testing.T
	world *world
	ready simulate.Ready
	http  *http.Client
}

func start(t *testing.T) *sim {
	t.Helper()
	dir := t.TempDir()
	if app := registered(t); os.WriteFile(filepath.Join(dir, "app.json"), app, 0o600) != nil {
		t.Fatal("no registration")
	}
	s, _ := startIn(t, dir, newWorld(t))
	return s
}

// registered is the registration of one application, made once: its key costs
// more time than most tests.
func registered(t *testing.T) []byte {
	t.Helper()
	registration.Do(func() {
		dir := t.TempDir()
		startIn(t, dir, &world{})
		registration.app, registration.err = os.ReadFile(filepath.Join(dir, "app.json"))
	})
	if registration.err != nil {
		t.Fatal(registration.err)
	}
	return registration.app
}

var registration struct {
	sync.Once
	app []byte
	err error
}

// startIn starts a simulator on a data folder; the second result stops it.
func startIn(t *testing.T, dir string, w *world) (*sim, func()) {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { handler.ServeHTTP(rw, r) }))
	t.Cleanup(server.Close)
	made, ready, err := simulator.New(simulate.Options{URL: server.URL, DataDir: dir, World: w.url, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	handler = made
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &sim{t: t, world: w, ready: ready, http: client}, server.Close
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

// at walks into the answer's JSON by names and indexes.
func (a answer) at(path ...any) any {
	var v any = a.body
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			l, _ := v.([]any)
			if key >= len(l) {
				return nil
			}
			v = l[key]
		}
	}
	return v
}

func (a answer) rows() []any { l, _ := a.body["value"].([]any); return l }

func (s *sim) do(method, address string, header http.Header, body string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.taken(resp)
}

func (s *sim) taken(resp *http.Response) answer {
	s.t.Helper()
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, raw: raw}
	_ = json.Unmarshal(raw, &a.body)
	return a
}

// control makes a control call that must succeed.
func (s *sim) control(method, path string, body any) answer {
	s.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := s.do(method, s.ready.URL+"/_control"+path, nil, string(raw))
	if a.status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s", method, path, a.status, a.raw)
	}
	return a
}

// m is a JSON object.
type m = map[string]any
