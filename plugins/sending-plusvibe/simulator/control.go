// SPDX-License-Identifier: Apache-2.0

package simulator

import (
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
		gone, err := s.drop(in(r), r.PathValue("address"))
		if err == nil && !gone {
			simulate.Refuse(w, http.StatusNotFound, "no such account")
			return
		}
		done(w, err)
	})
	mux.HandleFunc("PUT /_control/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		var c customer
		if err := simulate.Read(r, &c); err != nil {
			simulate.Refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		done(w, s.file.Do(func(all *state) { all.Keys[r.PathValue("key")] = c }))
	})
	mux.HandleFunc("DELETE /_control/keys/{key}", func(w http.ResponseWriter, r *http.Request) {
		done(w, s.file.Do(func(all *state) { delete(all.Keys, r.PathValue("key")) }))
	})
	mux.HandleFunc("POST /_control/behaviour", s.behave)
	return simulate.Calls(mux, nil)
}

// in is the workspace that a control call is about.
func in(r *http.Request) string {
	if id := r.URL.Query().Get("workspace_id"); id != "" {
		return id
	}
	return firstWorkspaces[0].ID
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
	var bad error
	err := s.file.Do(func(all *state) {
		before := all.Serial
		a, fresh := all.account(in(r), r.PathValue("address"), s.kit.Now())
		doc := a.accountDoc
		if !fresh {
			doc.Updated = later(doc.Updated, s.kit.Now())
		}
		if bad = simulate.Read(r, &doc); bad == nil {
			a.accountDoc = doc
		} else if fresh {
			held := all.workspace(in(r))
			held.Accounts, all.Serial = held.Accounts[:len(held.Accounts)-1], before
		}
	})
	if bad != nil {
		simulate.Refuse(w, http.StatusBadRequest, bad.Error())
		return
	}
	done(w, err)
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
		done(w, s.file.Do(func(all *state) { all.Behaviour = b }))
	}
}

func done(w http.ResponseWriter, err error) {
	if err != nil {
		simulate.Refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	simulate.Reply(w, http.StatusOK, struct{}{})
}
