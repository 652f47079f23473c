// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of Instantly's API v2 that concerns mailboxes: API keys with
// scopes, the workspace, accounts, Microsoft OAuth sessions, rate limits and error envelopes. New
// is the entry point.
//
//   - simulator.go: New and the routes. state.go: the state, which is stored in one file.
//   - auth.go: API keys, scopes and rate limits.
//   - accounts.go: the accounts and their list.
//   - oauth.go: the OAuth sessions and the sign-in page.
//   - control.go: the control interface, by which tests and the sandbox change Instantly.
package simulator

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "instantly"
	prefix   = "/api/v2"
	// authorize is the path of the sign-in page, as at Microsoft.
	authorize = "/common/oauth2/v2.0/authorize"
	// Key is an API key with all scopes in the first workspace.
	Key = "simulated-instantly-key"
)

type instantly struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	limiter *rateLimiter
}

// New returns the handler of the simulator, and the content of the line that it prints when it is
// ready. It fails when the data
// folder cannot be read.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "instantly.json", o, fresh)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &instantly{kit: kit, file: file, mux: http.NewServeMux(), limiter: newRateLimiter()}
	s.routes()
	return kit.Handler(s, s.controls()), simulate.Ready{
		Provider: provider, URL: o.URL,
		Settings: map[string]string{"base_url": o.URL, "auth_hosts": kit.Host()},
		Secrets:  map[string]string{"api_key": Key},
		Control:  []string{},
		Sending:  &simulate.Sending{APIKey: Key},
	}, nil
}

func (s *instantly) routes() {
	for pattern, o := range map[string]operation{
		"GET /workspaces/current":          {"workspaces:read", s.workspace},
		"GET /accounts":                    {"accounts:read", s.listAccounts},
		"GET /accounts/{email}":            {"accounts:read", s.getAccount},
		"DELETE /accounts/{email}":         {"accounts:delete", s.deleteAccount},
		"POST /oauth/microsoft/init":       {"accounts:create", s.initOAuth},
		"GET /oauth/session/status/{code}": {"accounts:read", s.sessionStatus},
	} {
		method, path, _ := strings.Cut(pattern, " ")
		s.mux.Handle(method+" "+prefix+path, s.authorized(o))
	}
	s.mux.HandleFunc("GET "+authorize, s.showPage)
	s.mux.HandleFunc("POST "+authorize, s.submitPage)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "Route "+r.Method+":"+r.URL.Path+" not found")
	})
}

// Call implements simulate.Provider. It names each request after the method of ports.SendingPlatform
// that sends it.
func (s *instantly) Call(r *http.Request, _ []byte) simulate.Call {
	name := ""
	switch path := strings.TrimPrefix(r.URL.Path, prefix); {
	case path == "/workspaces/current":
		name = "check"
	case path == "/accounts" && r.URL.Query().Has("search"):
		name = "account"
	case path == "/accounts":
		name = "accounts"
	case strings.HasPrefix(path, "/accounts/") && r.Method == http.MethodDelete:
		name = "remove"
	case strings.HasPrefix(path, "/accounts/"):
		name = "account"
	case path == "/oauth/microsoft/init":
		name = "start_sign_in"
	case strings.HasPrefix(path, "/oauth/session/status/"):
		name = "sign_in"
	case path == authorize:
		return simulate.Call{Operation: "authorize"} // requested by a browser, not by tenantry
	}
	return simulate.Call{Operation: name, Write: r.Method != http.MethodGet, Host: prefix, WorkAt: []int{http.StatusGatewayTimeout}}
}

// Fail implements simulate.Provider.
func (s *instantly) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status, "A planned fault")
}

// ServeHTTP implements simulate.Provider.
func (s *instantly) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refuse answers with Instantly's error envelope.
func refuse(w http.ResponseWriter, status int, message string) {
	simulate.WriteJSON(w, status, map[string]any{"statusCode": status, "error": http.StatusText(status), "message": message})
}
