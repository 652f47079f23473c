// SPDX-License-Identifier: Apache-2.0

package simulator

import (
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

// inWorkspace is the workspace that a control call is about.
func inWorkspace(r *http.Request) string {
	if id := r.URL.Query().Get("workspace_id"); id != "" {
		return id
	}
	return firstWorkspace.ID
}

// putSender makes a sender, or changes what is given of it.
func (s *salesblink) putSender(w http.ResponseWriter, r *http.Request) {
	var bad error
	err := s.file.Do(func(all *state) {
		before := all.Serial
		a, fresh := all.sender(inWorkspace(r), r.PathValue("address"), s.kit.Now())
		given := a.senderDoc
		if !fresh {
			given.Updated = later(given.Updated, s.kit.Now())
		}
		if bad = simulate.Read(r, &given); bad == nil {
			a.senderDoc = given
		} else if fresh {
			held := all.workspace(inWorkspace(r))
			held.Senders, all.Serial = held.Senders[:len(held.Senders)-1], before
		}
	})
	if bad != nil {
		simulate.Refuse(w, http.StatusBadRequest, bad.Error())
		return
	}
	done(w, err)
}

func (s *salesblink) dropSender(w http.ResponseWriter, r *http.Request) {
	gone := false
	err := s.file.Do(func(all *state) {
		held := all.workspace(inWorkspace(r))
		if i := held.index(r.PathValue("address")); i >= 0 {
			held.Senders, gone = slices.Delete(held.Senders, i, i+1), true
		}
	})
	if err == nil && !gone {
		simulate.Refuse(w, http.StatusNotFound, "no such account")
		return
	}
	done(w, err)
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
