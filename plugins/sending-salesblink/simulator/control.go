// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controls returns the control interface. The README lists its calls.
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
		simulate.WriteJSON(w, http.StatusOK, out)
	})
	mux.HandleFunc("PUT /_control/accounts/{address}", s.putSender)
	mux.HandleFunc("DELETE /_control/accounts/{address}", s.dropSender)
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

// inWorkspace returns the id of the workspace that a control call changes.
func inWorkspace(r *http.Request) string {
	return cmp.Or(r.URL.Query().Get("workspace_id"), firstWorkspace.ID)
}

// putSender creates a sender, or changes the fields given.
func (s *salesblink) putSender(w http.ResponseWriter, r *http.Request) {
	simulate.MergeBody(w, r, s.file, func(all *state) any {
		a, created := all.sender(inWorkspace(r), r.PathValue("address"), s.kit.Now())
		if !created {
			a.Updated = simulate.NextStamp(a.Updated, s.kit.Now())
		}
		return &a.senderDoc
	})
}

func (s *salesblink) dropSender(w http.ResponseWriter, r *http.Request) {
	simulate.ChangeOrNotFound(w, s.file, "no such account", func(all *state) bool {
		held := all.workspace(inWorkspace(r))
		i := held.index(r.PathValue("address"))
		if i < 0 {
			return false
		}
		held.Senders = slices.Delete(held.Senders, i, i+1)
		return true
	})
}

// setBehaviour changes the behaviours given.
func (s *salesblink) setBehaviour(w http.ResponseWriter, r *http.Request) {
	b := s.behaviour()
	err := simulate.ReadBody(r, &b)
	switch {
	case err != nil:
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
	case !slices.Contains([]string{"offset", "page", "ignored"}, b.Skip):
		simulate.WriteError(w, http.StatusBadRequest, "skip is offset, page or ignored")
	case !slices.Contains([]string{"empty", "repeat"}, b.PastEnd):
		simulate.WriteError(w, http.StatusBadRequest, "past_end is empty or repeat")
	case !slices.Contains([]string{"grouped", "folders", "flat"}, b.Shape):
		simulate.WriteError(w, http.StatusBadRequest, "shape is grouped, folders or flat")
	default:
		simulate.ReplyDone(w, s.file.Do(func(all *state) { all.Behaviour = b }))
	}
}
