// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls returns the control interface. The README lists its calls.
func (s *plusvibe) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/accounts", s.showAccounts)
	mux.HandleFunc("PUT /_control/accounts/{address}", s.putAccount)
	mux.HandleFunc("DELETE /_control/accounts/{address}", func(w http.ResponseWriter, r *http.Request) {
		simulate.ChangeOrNotFound(w, s.file, "no such account", func(all *state) bool { return all.removeAccount(workspaceOf(r), r.PathValue("address")) })
	})
	mux.HandleFunc("PUT /_control/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		var c customer
		simulate.Change(w, r, s.file, &c, func(all *state) { all.Keys[r.PathValue("key")] = c })
	})
	mux.HandleFunc("DELETE /_control/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		simulate.ReplyDone(w, s.file.Do(func(all *state) { delete(all.Keys, r.PathValue("key")) }))
	})
	mux.HandleFunc("POST /_control/behaviour", s.setBehaviour)
	return simulate.ControlCalls(mux, nil)
}

// workspaceOf returns the id of the workspace that a control call changes.
func workspaceOf(r *http.Request) string {
	return cmp.Or(r.URL.Query().Get("workspace_id"), firstWorkspaces[0].ID)
}

func (s *plusvibe) showAccounts(w http.ResponseWriter, r *http.Request) {
	out := []accountDoc{}
	s.file.View(func(all *state) {
		if held := all.Workspaces[workspaceOf(r)]; held != nil {
			for _, a := range held.Accounts {
				out = append(out, a.accountDoc)
			}
		}
	})
	simulate.WriteJSON(w, http.StatusOK, out)
}

// putAccount creates an account, or changes the fields given.
func (s *plusvibe) putAccount(w http.ResponseWriter, r *http.Request) {
	simulate.MergeBody(w, r, s.file, func(all *state) any {
		a, created := all.account(workspaceOf(r), r.PathValue("address"), s.kit.Now())
		if !created {
			a.Updated = simulate.NextStamp(a.Updated, s.kit.Now())
		}
		return &a.accountDoc
	})
}

// setBehaviour changes the behaviours given.
func (s *plusvibe) setBehaviour(w http.ResponseWriter, r *http.Request) {
	b := s.behaviour()
	err := simulate.ReadBody(r, &b)
	switch {
	case err != nil:
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
	case !slices.Contains([]int{200, 401, 403}, b.BadKey):
		simulate.WriteError(w, http.StatusBadRequest, "bad_key is 200, 401 or 403")
	case b.LinkAt == "":
		simulate.WriteError(w, http.StatusBadRequest, "link_at is a path such as data.url")
	default:
		simulate.ReplyDone(w, s.file.Do(func(all *state) { all.Behaviour = b }))
	}
}
