// SPDX-License-Identifier: Apache-2.0

// Package simulator stands in for SalesBlink's API as far as mailboxes go: raw
// keys, workspaces that only owners see, senders in folders with both meanings
// of skip, the start of a Microsoft sign-in with its page, limits, and refusals
// that come with 200.
package simulator

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "salesblink"
	prefix   = "/api/public/v1.0.0"
	// authorize is where Microsoft's page would be.
	authorize = "/common/oauth2/v2.0/authorize"

	// Key is one of an owner with one workspace.
	Key = "key-simulated-salesblink"
)

type salesblink struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	limits  *limits
	signIns simulate.SignIns[state]
}

// New makes the simulator.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "salesblink.json", o, fresh)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &salesblink{kit: kit, file: file, mux: http.NewServeMux(), limits: newLimits(), signIns: simulate.SignIns[state]{
		Platform: "SalesBlink", Path: authorize, Kit: kit, File: file, Started: started, Attach: (*state).attach,
	}}
	s.mux.HandleFunc("GET "+prefix+"/workspaces", s.keyed(s.listWorkspaces))
	s.mux.HandleFunc("GET "+prefix+"/senders", s.keyed(s.listSenders))
	s.mux.HandleFunc("POST "+prefix+"/oauth/outlook", s.keyed(s.startOAuth))
	s.mux.Handle("GET "+authorize, s.signIns)
	s.mux.Handle("POST "+authorize, s.signIns)
	s.mux.HandleFunc("/", s.keyed(func(w http.ResponseWriter, _ *http.Request, _ customer) {
		refuse(w, http.StatusNotFound, "Not found")
	}))
	return kit.Handler(s, s.controls()), simulate.Ready{
		Provider: provider, URL: o.URL,
		Settings: map[string]string{"base_url": o.URL + prefix, "auth_hosts": kit.Host()},
		Secrets:  map[string]string{"api_key": Key},
		Control:  []string{},
		Sending:  &simulate.Sending{APIKey: Key},
	}, nil
}

// Call implements simulate.Provider, with the names of the sending port's
// operations.
func (s *salesblink) Call(r *http.Request, _ []byte) simulate.Call {
	name := ""
	switch path := strings.TrimPrefix(r.URL.Path, prefix); {
	case path == "/workspaces", path == "/senders" && !r.URL.Query().Has("skip"):
		name = "check"
	case path == "/senders" && r.URL.Query().Has("search"):
		name = "account"
	case path == "/senders":
		name = "accounts"
	case path == "/oauth/outlook":
		name = "start_sign_in"
	case path == authorize:
		return simulate.Call{Operation: "authorize"} // a person's, not the service's
	}
	return simulate.Call{Operation: name, Write: r.Method != http.MethodGet, Host: prefix, WorkAt: []int{http.StatusGatewayTimeout}}
}

// Fail implements simulate.Provider.
func (s *salesblink) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	refuse(w, status, http.StatusText(status))
}

// ServeHTTP implements simulate.Provider.
func (s *salesblink) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refuse answers with SalesBlink's envelope.
func refuse(w http.ResponseWriter, status int, message string) {
	simulate.Reply(w, status, map[string]any{"success": false, "message": message})
}

func answer(w http.ResponseWriter, data any) {
	simulate.Reply(w, http.StatusOK, map[string]any{"success": true, "data": data})
}
