// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of Smartlead's API that concerns mail accounts, with its
// three error formats, its rate limits and the dashboard page on which people connect mailboxes.
// New is the entry point.
//
//   - simulator.go: New, the state, the routes and the authentication.
//   - accounts.go: the operations of the API. signin.go: save-oauth and the dashboard page.
//   - answers.go: the error formats. limits.go: the rate limits of a plan.
//   - control.go: the control interface, by which tests and the sandbox change Smartlead.
package simulator

import (
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "smartlead"
	prefix   = "/api/v1"
	connect  = "/dashboard/email-accounts/connect"
	// Key is the API key of the sandbox. It belongs to the user FirstUser.
	Key       = "5f3c1a90-7d1e-4b7a-9c55-simulated_x1y2z3a"
	FirstUser = 4001
)

// state is what the simulator stores in its data folder.
type state struct {
	Serial   int                  `json:"serial"`
	Keys     map[string]*keyOwner `json:"keys"`
	Accounts []*account           `json:"accounts"`
	Clients  []client             `json:"clients"`
	Quirks   quirks               `json:"quirks"`
	Plan     string               `json:"plan"`
}

// keyOwner is the user of an API key.
type keyOwner struct {
	UserID  int  `json:"user_id"`
	Revoked bool `json:"revoked"`
}

// client is a client of an agency.
type client struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Created string `json:"created_at"`
	UserID  int    `json:"user_id"`
}

// quirks are behaviours of Smartlead that differ from its documentation.
type quirks struct {
	NumbersAsStrings bool `json:"numbers_as_strings"`
	Envelope         bool `json:"envelope"`         // lists come as {"success": true, "data": […]}
	LagSeconds       int  `json:"lag_seconds"`      // how long a new account is missing from lists
	ErrorOnGood      bool `json:"error_on_success"` // every answer is an error with status 200
}

type smartlead struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	limiter rateLimiter
}

func initialState(time.Time) state {
	return state{Serial: 139918, Plan: "standard", Keys: map[string]*keyOwner{Key: {UserID: FirstUser}}}
}

// New returns the handler of the simulator and what its ready line tells. It fails when the data
// folder cannot be read.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "accounts.json", o, initialState)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &smartlead{kit: kit, file: file, mux: http.NewServeMux(), limiter: rateLimiter{now: kit.Now}}
	s.mux.HandleFunc("GET "+prefix+"/email-accounts", s.listAccounts)
	s.mux.HandleFunc("GET "+prefix+"/email-accounts/{id}", s.getAccount)
	s.mux.HandleFunc("DELETE "+prefix+"/email-accounts/{id}", s.deleteAccount)
	s.mux.HandleFunc("PUT "+prefix+"/email-accounts/suspend/{id}", s.suspend)
	s.mux.HandleFunc("DELETE "+prefix+"/email-accounts/unsuspend/{id}", s.suspend)
	s.mux.HandleFunc("POST "+prefix+"/email-accounts/save-oauth", s.saveOAuth)
	s.mux.HandleFunc("GET "+prefix+"/client", s.listClients)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusNotFound, "Not Found") })
	return kit.Handler(s, s.controls()), simulate.Ready{
		Provider: provider, URL: o.URL,
		Settings: map[string]string{"base_url": o.URL + prefix},
		Secrets:  map[string]string{"api_key": Key},
		Control:  []string{},
		Sending:  &simulate.Sending{APIKey: Key},
	}, nil
}

// Call implements simulate.Provider.
func (s *smartlead) Call(r *http.Request, _ []byte) simulate.Call {
	operation := ""
	switch path := strings.TrimSuffix(r.URL.Path, "/"); {
	case path == connect:
		operation = "dashboard"
	case strings.HasSuffix(path, "/save-oauth"):
		operation = "saveOAuth"
	case strings.HasSuffix(path, "/email-accounts"):
		operation = "listAccounts"
	case strings.HasSuffix(path, "/client"):
		operation = "listClients"
	case r.Method == http.MethodDelete:
		operation = "deleteAccount"
	case r.Method == http.MethodGet:
		operation = "getAccount"
	}
	return simulate.Call{Operation: operation, Write: r.Method != http.MethodGet, Host: prefix, WorkAt: []int{http.StatusGatewayTimeout}}
}

// ServeHTTP implements simulate.Provider. It checks the key, then the rate limit, and then serves
// the operation. It accepts every path with and without a trailing slash.
func (s *smartlead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == connect {
		s.dashboard().ServeHTTP(w, r)
		return
	}
	key := r.URL.Query().Get("api_key")
	var plan string
	var q quirks
	var owner *keyOwner
	s.file.View(func(st *state) {
		plan, q = st.Plan, st.Quirks
		if h := st.Keys[key]; h != nil && !h.Revoked {
			owner = &keyOwner{UserID: h.UserID}
		}
	})
	switch {
	case owner == nil:
		fail(w, http.StatusUnauthorized, "Invalid API Key")
	case !s.limiter.allow(w, key, plan):
	case q.ErrorOnGood:
		simulate.WriteJSON(w, http.StatusOK, map[string]any{"success": false, "error": map[string]string{"code": "INTERNAL_ERROR", "message": "Something went wrong"}})
	default:
		if path := strings.TrimSuffix(r.URL.Path, "/"); path != "" {
			r.URL.Path, r.URL.RawPath = path, strings.TrimSuffix(r.URL.RawPath, "/")
		}
		r = r.WithContext(withUser(r.Context(), owner.UserID))
		s.mux.ServeHTTP(w, r)
	}
}
