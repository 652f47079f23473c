// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls are the calls of somebody at SalesBlink itself; the README lists
// them.
func (s *salesblink) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/accounts", func(w http.ResponseWriter, r *http.Request) {
		out := []senderDoc{}
		s.file.View(func(all *state) {
			if held := all.Workspaces[inWorkspace(r)]; held != nil {
				for _, a := range held.Senders {
					out = append(out, a.senderDoc)
				}
			}
		})
		simulate.Reply(w, http.StatusOK, out)
	})
	mux.HandleFunc("PUT /_control/accounts/{address}", s.putSender)
	mux.HandleFunc("DELETE /_control/accounts/{address}", s.dropSender)
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

// inWorkspace is the workspace that a control call is about.
func inWorkspace(r *http.Request) string {
	return cmp.Or(r.URL.Query().Get("workspace_id"), firstWorkspace.ID)
}

// putSender makes a sender, or changes what is given of it.
func (s *salesblink) putSender(w http.ResponseWriter, r *http.Request) {
	simulate.Amend(w, r, s.file, func(all *state) any {
		a, fresh := all.sender(inWorkspace(r), r.PathValue("address"), s.kit.Now())
		if !fresh {
			a.Updated = simulate.Later(a.Updated, s.kit.Now())
		}
		return &a.senderDoc
	})
}

func (s *salesblink) dropSender(w http.ResponseWriter, r *http.Request) {
	simulate.Alter(w, s.file, "no such account", func(all *state) bool {
		held := all.workspace(inWorkspace(r))
		i := held.index(r.PathValue("address"))
		if i < 0 {
			return false
		}
		held.Senders = slices.Delete(held.Senders, i, i+1)
		return true
	})
}

// behave sets the knobs that are given.
func (s *salesblink) behave(w http.ResponseWriter, r *http.Request) {
	b := s.behaviour()
	err := simulate.Read(r, &b)
	switch {
	case err != nil:
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
	case !slices.Contains([]string{"offset", "page", "ignored"}, b.Skip):
		simulate.Refuse(w, http.StatusBadRequest, "skip is offset, page or ignored")
	case !slices.Contains([]string{"empty", "repeat"}, b.PastEnd):
		simulate.Refuse(w, http.StatusBadRequest, "past_end is empty or repeat")
	case !slices.Contains([]string{"grouped", "folders", "flat"}, b.Shape):
		simulate.Refuse(w, http.StatusBadRequest, "shape is grouped, folders or flat")
	default:
		simulate.Done(w, s.file.Do(func(all *state) { all.Behaviour = b }))
	}
}
