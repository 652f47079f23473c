// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of PlusVibe's API that concerns mailboxes: API keys,
// workspaces, accounts, and the partner calls that start a Microsoft sign-in. Where PlusVibe
// documents no answer, the behaviour can be switched. New is the entry point.
//
//   - simulator.go: New and the routes. state.go: the state, which is stored in one file.
//   - accounts.go: the calls that need an API key. partner.go: the calls that need a partner's
//     login.
//   - control.go: the control interface, by which tests and the sandbox change PlusVibe.
package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "plusvibe"
	prefix   = "/api/v1"
	// authorize is the path of the sign-in page, as at Microsoft.
	authorize = "/common/oauth2/v2.0/authorize"

	// Key is an API key that reaches two workspaces.
	Key = "simulated-plusvibe-key"
	// Username and Password are a partner's login for the same workspaces.
	Username = "partner@agency.example"
	Password = "simulated-plusvibe-password"
)

type plusvibe struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	signIns simulate.SignInLinks[state]
}

// New returns the handler of the simulator and what its ready line tells. It fails when the data
// folder cannot be read.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "plusvibe.json", o, initialState)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &plusvibe{kit: kit, file: file, mux: http.NewServeMux(), signIns: simulate.SignInLinks[state]{
		Platform: "PlusVibe", Path: authorize, Kit: kit, File: file, Started: startedSignIns, Attach: (*state).attach,
	}}
	s.routes()
	credential := map[string]string{"api_key": Key, "partner_username": Username, "partner_password": Password}
	text, err := json.Marshal(credential)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	return kit.Handler(s, s.controls()), simulate.Ready{
		Provider: provider, URL: o.URL,
		Settings: map[string]string{"base_url": o.URL + prefix, "auth_hosts": kit.Host(), "allow_password_credentials": "true"},
		Secrets:  credential,
		Control:  []string{},
		Sending:  &simulate.Sending{APIKey: string(text), Workspaces: firstWorkspaces},
	}, nil
}

func (s *plusvibe) routes() {
	s.mux.HandleFunc("GET "+prefix+"/authenticate", s.requireKey(s.authenticate))
	s.mux.HandleFunc("GET "+prefix+"/account/list", s.requireKey(s.listAccounts))
	s.mux.HandleFunc("POST "+prefix+"/webhook/partner-list-workspace", s.requireLogin(s.partnerWorkspaces))
	s.mux.HandleFunc("POST "+prefix+"/webhook/partner-microsoft-oauth-url", s.requireLogin(s.startOAuth))
	s.mux.Handle("GET "+authorize, s.signIns)
	s.mux.Handle("POST "+authorize, s.signIns)
	s.mux.HandleFunc("/", s.serveOther)
}

// serveOther serves the deletion, whose path can be switched, and answers 404 for other paths.
func (s *plusvibe) serveOther(w http.ResponseWriter, r *http.Request) {
	if path := s.behaviour().DeletePath; path != "" && r.Method == http.MethodPost && r.URL.Path == prefix+path {
		s.requireKey(s.deleteAccount)(w, r)
		return
	}
	refuse(w, http.StatusNotFound, "Cannot "+r.Method+" "+r.URL.Path)
}

// Call implements simulate.Provider. The operations have the names of the sending port.
func (s *plusvibe) Call(r *http.Request, _ []byte) simulate.Call {
	name, write := "", r.Method != http.MethodGet
	switch path := strings.TrimPrefix(r.URL.Path, prefix); {
	case path == "/authenticate":
		name = "check"
	case path == "/webhook/partner-list-workspace":
		name, write = "check", false
	case path == "/account/list" && r.URL.Query().Has("email"):
		name = "account"
	case path == "/account/list":
		name = "accounts"
	case path == "/webhook/partner-microsoft-oauth-url":
		name = "start_sign_in"
	case path == s.behaviour().DeletePath:
		name = "remove"
	case path == authorize:
		return simulate.Call{Operation: "authorize"} // requested by a browser, not by tenantry
	}
	return simulate.Call{Operation: name, Write: write, Host: prefix, WorkAt: []int{http.StatusGatewayTimeout}}
}

// Fail implements simulate.Provider.
func (s *plusvibe) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status, http.StatusText(status))
}

// ServeHTTP implements simulate.Provider.
func (s *plusvibe) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refuse answers with an error. PlusVibe does not document its form.
func refuse(w http.ResponseWriter, status int, message string) {
	simulate.WriteJSON(w, status, map[string]string{"status": "error", "message": message})
}
