// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls are what people do in the instance by hand:
//
//	GET /_control/accounts                all accounts, by the names of the API
//	PUT /_control/accounts/{address}      {"status": "Not connected", …}: makes or changes one
//	DELETE /_control/accounts/{address}   takes one out
//	PUT /_control/tokens                  {"token", "type", "workspace_id", "revoked"}: makes or changes one
//	PUT /_control/workspaces              [{"id": 2, "name": "…"}]: exactly these
//	PUT /_control/quirks                  {"hide_list": true, …}: exactly these
func (e *emailbison) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/accounts", func(w http.ResponseWriter, _ *http.Request) {
		all := []account{}
		e.file.View(func(s *state) {
			for _, a := range s.Accounts {
				all = append(all, *a)
			}
		})
		simulate.Reply(w, http.StatusOK, all)
	})
	mux.HandleFunc("PUT /_control/accounts/{address}", e.putAccount)
	mux.HandleFunc("DELETE /_control/accounts/{address}", func(w http.ResponseWriter, r *http.Request) {
		simulate.Alter(w, e.file, "no such account", func(s *state) bool {
			before := len(s.Accounts)
			s.Accounts = slices.DeleteFunc(s.Accounts, func(a *account) bool { return strings.EqualFold(a.Email, r.PathValue("address")) })
			return len(s.Accounts) < before
		})
	})
	mux.HandleFunc("PUT /_control/tokens", func(w http.ResponseWriter, r *http.Request) {
		in := token{Type: "api-user", Workspace: 1}
		if err := simulate.Read(r, &in); err != nil || in.Token == "" || in.Type != "api-user" && !in.super() {
			simulate.Refuse(w, http.StatusBadRequest, "token is its text, type is api-user or super-admin")
			return
		}
		simulate.Done(w, e.file.Do(func(s *state) {
			s.Tokens = append(slices.DeleteFunc(s.Tokens, func(t *token) bool { return t.Token == in.Token }), &in)
		}))
	})
	mux.HandleFunc("PUT /_control/workspaces", func(w http.ResponseWriter, r *http.Request) {
		var in []workspace
		simulate.Change(w, r, e.file, &in, func(s *state) { s.Workspaces = in })
	})
	mux.HandleFunc("PUT /_control/quirks", func(w http.ResponseWriter, r *http.Request) {
		var in quirks
		simulate.Change(w, r, e.file, &in, func(s *state) { s.Quirks = in })
	})
	return simulate.Calls(mux, nil)
}

// putAccount makes or changes an account. A new one is connected, in the first
// workspace, unless the call says otherwise.
func (e *emailbison) putAccount(w http.ResponseWriter, r *http.Request) {
	address := r.PathValue("address")
	in, now := account{}, e.kit.Now()
	e.file.View(func(s *state) {
		in = *(&state{}).add(1, address, now)
		for _, a := range s.Accounts {
			if strings.EqualFold(a.Email, address) {
				in = *a
			}
		}
	})
	simulate.Change(w, r, e.file, &in, func(s *state) {
		a := s.at(in.Workspace, in.Email)
		if a == nil {
			a = s.add(in.Workspace, in.Email, now)
		}
		in.ID, in.Created, in.Updated = a.ID, a.Created, stamp(now)
		*a = in
	})
}
