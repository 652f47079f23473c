// SPDX-License-Identifier: Apache-2.0

// Package simulator stands in for PlusVibe's API as far as mailboxes go: keys
// that reach several workspaces, accounts with their filter and paging, the
// partners' start of a Microsoft sign-in with its page, and the ways in which
// PlusVibe's undocumented answers may turn out.
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
	// authorize is where Microsoft's page would be.
	authorize = "/common/oauth2/v2.0/authorize"

	// Key is one that reaches two workspaces.
	Key = "simulated-plusvibe-key"
	// Username and Password are the login of a partner, for the same ones.
	Username = "partner@agency.example"
	Password = "simulated-plusvibe-password"
)

type plusvibe struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	signIns simulate.SignIns[state]
}

// New makes the simulator.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "plusvibe.json", o, fresh)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &plusvibe{kit: kit, file: file, mux: http.NewServeMux(), signIns: simulate.SignIns[state]{
		Platform: "PlusVibe", Path: authorize, Kit: kit, File: file, Started: started, Attach: (*state).attach,
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
	s.mux.HandleFunc("GET "+prefix+"/authenticate", s.keyed(s.authenticate))
	s.mux.HandleFunc("GET "+prefix+"/account/list", s.keyed(s.listAccounts))
	s.mux.HandleFunc("POST "+prefix+"/webhook/partner-list-workspace", s.partners(s.partnerWorkspaces))
	s.mux.HandleFunc("POST "+prefix+"/webhook/partner-microsoft-oauth-url", s.partners(s.startOAuth))
	s.mux.Handle("GET "+authorize, s.signIns)
	s.mux.Handle("POST "+authorize, s.signIns)
	s.mux.HandleFunc("/", s.elsewhere)
}

// elsewhere is the deletion, whose path is a knob, and what there is not.
func (s *plusvibe) elsewhere(w http.ResponseWriter, r *http.Request) {
	if at := s.behaviour().DeletePath; at != "" && r.Method == http.MethodPost && r.URL.Path == prefix+at {
		s.keyed(s.deleteAccount)(w, r)
		return
	}
	refuse(w, http.StatusNotFound, "Cannot "+r.Method+" "+r.URL.Path)
}

// Call implements simulate.Provider, with the names of the sending port's
// operations.
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
		return simulate.Call{Operation: "authorize"} // a person's, not the service's
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

// refuse answers with an error, whose form nobody has published.
func refuse(w http.ResponseWriter, status int, message string) {
	simulate.Reply(w, status, map[string]string{"status": "error", "message": message})
}
