// SPDX-License-Identifier: Apache-2.0

// Package simulator stands in for Smartlead's API as far as mail accounts go,
// with its three shapes of errors, its limits and the page of its dashboard on
// which people connect mailboxes.
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
	// Key is the one that a sandbox gives out. It belongs to user FirstUser.
	Key       = "5f3c1a90-7d1e-4b7a-9c55-simulated_x1y2z3a"
	FirstUser = 4001
)

// state is what is kept on disk.
type state struct {
	Serial   int                `json:"serial"`
	Keys     map[string]*holder `json:"keys"`
	Accounts []*account         `json:"accounts"`
	Clients  []client           `json:"clients"`
	Quirks   quirks             `json:"quirks"`
	Plan     string             `json:"plan"`
}

// holder is whose a key is.
type holder struct {
	UserID  int  `json:"user_id"`
	Revoked bool `json:"revoked"`
}

// client is one of an agency.
type client struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Created string `json:"created_at"`
	UserID  int    `json:"user_id"`
}

// quirks are what Smartlead does on some days.
type quirks struct {
	NumbersAsStrings bool `json:"numbers_as_strings"`
	Envelope         bool `json:"envelope"`         // lists come as {"success": true, "data": […]}
	LagSeconds       int  `json:"lag_seconds"`      // how long an account that was connected stays out of lists
	ErrorOnGood      bool `json:"error_on_success"` // 200 with an error in it, for all that is asked
}

type smartlead struct {
	kit    *simulate.Kit
	file   *simulate.File[state]
	mux    *http.ServeMux
	limits limits
}

func fresh(time.Time) state {
	return state{Serial: 139918, Plan: "standard", Keys: map[string]*holder{Key: {UserID: FirstUser}}}
}

// New makes the simulator.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "accounts.json", o, fresh)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	s := &smartlead{kit: kit, file: file, mux: http.NewServeMux(), limits: limits{now: kit.Now}}
	s.mux.HandleFunc("GET "+prefix+"/email-accounts", s.list)
	s.mux.HandleFunc("GET "+prefix+"/email-accounts/{id}", s.one)
	s.mux.HandleFunc("DELETE "+prefix+"/email-accounts/{id}", s.remove)
	s.mux.HandleFunc("PUT "+prefix+"/email-accounts/suspend/{id}", s.suspend)
	s.mux.HandleFunc("DELETE "+prefix+"/email-accounts/unsuspend/{id}", s.suspend)
	s.mux.HandleFunc("POST "+prefix+"/email-accounts/save-oauth", s.saveOAuth)
	s.mux.HandleFunc("GET "+prefix+"/client", s.clients)
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

// ServeHTTP implements simulate.Provider: first the key, then its limit, then
// the work. Every path is served with and without a slash at its end.
func (s *smartlead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == connect {
		s.dashboard().ServeHTTP(w, r)
		return
	}
	key := r.URL.Query().Get("api_key")
	var plan string
	var q quirks
	var of *holder
	s.file.View(func(st *state) {
		plan, q = st.Plan, st.Quirks
		if h := st.Keys[key]; h != nil && !h.Revoked {
			of = &holder{UserID: h.UserID}
		}
	})
	switch {
	case of == nil:
		fail(w, http.StatusUnauthorized, "Invalid API Key")
	case !s.limits.pass(w, key, plan):
	case q.ErrorOnGood:
		simulate.Reply(w, http.StatusOK, map[string]any{"success": false, "error": map[string]string{"code": "INTERNAL_ERROR", "message": "Something went wrong"}})
	default:
		if path := strings.TrimSuffix(r.URL.Path, "/"); path != "" {
			r.URL.Path, r.URL.RawPath = path, strings.TrimSuffix(r.URL.RawPath, "/")
		}
		r = r.WithContext(withUser(r.Context(), of.UserID))
		s.mux.ServeHTTP(w, r)
	}
}
