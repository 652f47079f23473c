// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls are the calls of somebody at PlusVibe itself; the README lists them.
func (s *plusvibe) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/accounts", s.showAccounts)
	mux.HandleFunc("PUT /_control/accounts/{address}", s.putAccount)
	mux.HandleFunc("DELETE /_control/accounts/{address}", func(w http.ResponseWriter, r *http.Request) {
		simulate.Alter(w, s.file, "no such account", func(all *state) bool { return all.drop(in(r), r.PathValue("address")) })
	})
	mux.HandleFunc("PUT /_control/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		var c customer
		simulate.Change(w, r, s.file, &c, func(all *state) { all.Keys[r.PathValue("key")] = c })
	})
	mux.HandleFunc("DELETE /_control/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		simulate.Done(w, s.file.Do(func(all *state) { delete(all.Keys, r.PathValue("key")) }))
	})
	mux.HandleFunc("POST /_control/behaviour", s.behave)
	return simulate.Calls(mux, nil)
}

// in is the workspace that a control call is about.
func in(r *http.Request) string {
	return cmp.Or(r.URL.Query().Get("workspace_id"), firstWorkspaces[0].ID)
}

func (s *plusvibe) showAccounts(w http.ResponseWriter, r *http.Request) {
	out := []accountDoc{}
	s.file.View(func(all *state) {
		if held := all.Workspaces[in(r)]; held != nil {
			for _, a := range held.Accounts {
				out = append(out, a.accountDoc)
			}
		}
	})
	simulate.Reply(w, http.StatusOK, out)
}

// putAccount makes an account, or changes what is given of it.
func (s *plusvibe) putAccount(w http.ResponseWriter, r *http.Request) {
	simulate.Amend(w, r, s.file, func(all *state) any {
		a, fresh := all.account(in(r), r.PathValue("address"), s.kit.Now())
		if !fresh {
			a.Updated = simulate.Later(a.Updated, s.kit.Now())
		}
		return &a.accountDoc
	})
}

// behave sets the knobs that are given.
func (s *plusvibe) behave(w http.ResponseWriter, r *http.Request) {
	b := s.behaviour()
	err := simulate.Read(r, &b)
	switch {
	case err != nil:
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
	case !slices.Contains([]int{200, 401, 403}, b.BadKey):
		simulate.Refuse(w, http.StatusBadRequest, "bad_key is 200, 401 or 403")
	case b.LinkAt == "":
		simulate.Refuse(w, http.StatusBadRequest, "link_at is a path such as data.url")
	default:
		simulate.Done(w, s.file.Do(func(all *state) { all.Behaviour = b }))
	}
}
