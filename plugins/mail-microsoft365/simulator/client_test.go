// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"encoding/json"
	"io"
	"maps"
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

// The scopes and the redirect URIs with which the tests call the login host.
const (
	graphScope         = "https://graph.microsoft.com/.default"
	exchangeScope      = "https://outlook.office365.com/.default"
	consentRedirectURI = "http://127.0.0.1:8080/connect/microsoft365/callback"
	signInRedirectURI  = "http://127.0.0.1:8080/connect/microsoft365/signin"
)

type simClient struct {
	t       *testing.T
	fakeDNS *fakeDNS
	ready   simulate.Ready
	http    *http.Client
}

// startSimulator starts a simulator with the shared registration and a fake DNS server of its own.
func startSimulator(t *testing.T) *simClient {
	t.Helper()
	return startSimulatorIn(t, newDataDir(t), newFakeDNS(t))
}

// newDataDir returns a new data folder with the shared registration.
func newDataDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "app.json"), sharedRegistration(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sharedRegistration returns the stored registration of one application. All tests share the
// registration, because generating its key is slow.
func sharedRegistration(t *testing.T) []byte {
	t.Helper()
	registration.Do(func() {
		dir := t.TempDir()
		sim := startSimulatorIn(t, dir, &fakeDNS{})
		sim.do("GET", sim.ready.Settings["login_url"]+"/organizations/discovery/v2.0/keys", nil, "") // generates the key
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

func startSimulatorIn(t *testing.T, dir string, dnsServer *fakeDNS) *simClient {
	t.Helper()
	var handler http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	simulated, ready, err := simulator.New(simulate.Options{URL: server.URL, DataDir: dir, World: dnsServer.url, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	handler = simulated
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &simClient{t: t, fakeDNS: dnsServer, ready: ready, http: client}
}

type response struct {
	status int
	header http.Header
	raw    []byte
	body   map[string]any
}

// valueAt returns the value at a path of names and indexes in the JSON body, or nil.
func (r response) valueAt(path ...any) any {
	var value any = r.body
	for _, step := range path {
		switch key := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[key]
		case int:
			list, _ := value.([]any)
			if key >= len(list) {
				return nil
			}
			value = list[key]
		}
	}
	return value
}

// rows returns the list in the member "value".
func (r response) rows() []any { l, _ := r.body["value"].([]any); return l }

// do sends a request. It fails the test when there is no answer.
func (s *simClient) do(method, address string, header http.Header, body string) response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	maps.Copy(req.Header, header)
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.readResponse(resp)
}

// readResponse reads the whole answer, and decodes it if it is a JSON object.
func (s *simClient) readResponse(resp *http.Response) response {
	s.t.Helper()
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := response{status: resp.StatusCode, header: resp.Header, raw: raw}
	_ = json.Unmarshal(raw, &answer.body)
	return answer
}

// control makes a control call. It fails the test when the status is not 200.
func (s *simClient) control(method, path string, body any) response {
	s.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	answer := s.do(method, s.ready.URL+"/_control"+path, nil, string(raw))
	if answer.status != http.StatusOK {
		s.t.Fatalf("%s %s: %d %s, want 200", method, path, answer.status, answer.raw)
	}
	return answer
}

type jsonObject = map[string]any
