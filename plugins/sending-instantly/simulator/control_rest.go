// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

func (s *instantly) putKey(w http.ResponseWriter, r *http.Request) {
	k := key{Workspace: Workspace, Scopes: []string{"all:all"}}
	if !read(w, r, &k) {
		return
	}
	s.change(w, func(all *state) bool {
		all.workspace(k.Workspace, s.kit.Now())
		all.Keys[r.PathValue("key")] = k
		return true
	})
}

func (s *instantly) putWorkspace(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name     string `json:"name"`
		Inactive bool   `json:"inactive"`
	}
	if !read(w, r, &in) {
		return
	}
	s.change(w, func(all *state) bool {
		to := all.workspace(r.PathValue("id"), s.kit.Now())
		to.Name, to.Inactive = cmp.Or(in.Name, to.Name), in.Inactive
		return true
	})
}

func (s *instantly) shownSessions(w http.ResponseWriter, _ *http.Request) {
	out := []session{}
	s.file.View(func(all *state) {
		for _, x := range all.Sessions {
			shown := *x
			shown.Status = x.at(s.kit.Now())
			out = append(out, shown)
		}
	})
	slices.SortFunc(out, func(a, b session) int { return cmp.Compare(a.ID, b.ID) })
	simulate.Reply(w, http.StatusOK, out)
}

func byID(r *http.Request) func(*session) bool {
	id := r.PathValue("id")
	return func(x *session) bool { return x.ID == id }
}

func (s *instantly) completeSession(w http.ResponseWriter, r *http.Request) {
	var in struct{ Email, Name string }
	if !read(w, r, &in) {
		return
	}
	if in.Email == "" {
		simulate.Refuse(w, http.StatusBadRequest, "email is missing")
		return
	}
	open, err := s.complete(byID(r), in.Email, cmp.Or(in.Name, nameOf(in.Email)))
	s.ended(w, open, err)
}

func (s *instantly) denySession(w http.ResponseWriter, r *http.Request) {
	open, err := s.deny(byID(r))
	s.ended(w, open, err)
}

func (s *instantly) expireSession(w http.ResponseWriter, r *http.Request) {
	open, err := s.finish(byID(r), func(_ *state, x *session) { x.Status = "expired" })
	s.ended(w, open, err)
}

func (s *instantly) forgetSession(w http.ResponseWriter, r *http.Request) {
	s.change(w, func(all *state) bool {
		_, there := all.Sessions[r.PathValue("id")]
		delete(all.Sessions, r.PathValue("id"))
		return there
	})
}

func (s *instantly) ended(w http.ResponseWriter, open bool, err error) {
	if err != nil {
		simulate.Refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	s.change(w, func(*state) bool { return open })
}

func (s *instantly) behave(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ListLagMS  *int    `json:"list_lag_ms"`
		NoCursor   *bool   `json:"no_cursor"`
		RepeatPage *bool   `json:"repeat_page"`
		AuthHost   *string `json:"auth_host"`
	}
	if !read(w, r, &in) {
		return
	}
	s.change(w, func(all *state) bool {
		set(&all.ListLagMS, in.ListLagMS)
		set(&all.NoCursor, in.NoCursor)
		set(&all.RepeatPage, in.RepeatPage)
		set(&all.AuthHost, in.AuthHost)
		return true
	})
}
