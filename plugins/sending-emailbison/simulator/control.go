// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls returns the control interface:
//
//	GET /_control/accounts                all accounts, with the members of the API
//	PUT /_control/accounts/{address}      {"status": "Not connected", …}: creates or changes one
//	DELETE /_control/accounts/{address}   removes one
//	PUT /_control/tokens                  {"token", "type", "workspace_id", "revoked"}: sets one
//	PUT /_control/workspaces              [{"id": 2, "name": "…"}]: replaces all
//	PUT /_control/quirks                  {"hide_list": true, …}: replaces all
func (e *emailbison) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/accounts", func(w http.ResponseWriter, _ *http.Request) {
		all := []account{}
		e.file.View(func(s *state) {
			for _, a := range s.Accounts {
				all = append(all, *a)
			}
		})
		simulate.WriteJSON(w, http.StatusOK, all)
	})
	mux.HandleFunc("PUT /_control/accounts/{address}", e.putAccount)
	mux.HandleFunc("DELETE /_control/accounts/{address}", func(w http.ResponseWriter, r *http.Request) {
		simulate.ChangeOrNotFound(w, e.file, "no such account", func(s *state) bool {
			before := len(s.Accounts)
			s.Accounts = slices.DeleteFunc(s.Accounts, func(a *account) bool { return strings.EqualFold(a.Email, r.PathValue("address")) })
			return len(s.Accounts) < before
		})
	})
	mux.HandleFunc("PUT /_control/tokens", func(w http.ResponseWriter, r *http.Request) {
		in := token{Type: "api-user", Workspace: 1}
		if err := simulate.ReadBody(r, &in); err != nil || in.Token == "" || in.Type != "api-user" && !in.isSuperAdmin() {
			simulate.WriteError(w, http.StatusBadRequest, "token is its text, type is api-user or super-admin")
			return
		}
		simulate.ReplyDone(w, e.file.Do(func(s *state) {
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
	return simulate.ControlCalls(mux, nil)
}

// putAccount creates or changes an account. Unless the request sets them, a new account has the
// status Connected and the first workspace.
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
		a := s.account(in.Workspace, in.Email)
		if a == nil {
			a = s.add(in.Workspace, in.Email, now)
		}
		in.ID, in.Created, in.Updated = a.ID, a.Created, timestamp(now)
		*a = in
	})
}
