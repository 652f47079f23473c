// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// seen are the workspaces that a token sees.
func (s *state) seen(by token) []workspace {
	all := []workspace{}
	for _, w := range s.Workspaces {
		if by.super() || w.ID == by.Workspace {
			all = append(all, w)
		}
	}
	return all
}

func (e *emailbison) user(w http.ResponseWriter, _ *http.Request, by token) {
	doc := map[string]any{
		"id": 1, "name": "Olga Owner", "email": "owner@example.com", "created_at": "2025-04-14T16:59:21.000000Z",
		"updated_at": "2025-04-14T16:59:21.000000Z", "workspace": nil,
	}
	e.file.View(func(s *state) {
		for _, own := range s.Workspaces {
			if own.ID == by.Workspace && !s.Quirks.HideOwn {
				doc["workspace"] = own
			}
		}
	})
	data(w, doc)
}

func (e *emailbison) workspaces(w http.ResponseWriter, r *http.Request, by token) {
	var all []workspace
	hidden := false
	e.file.View(func(s *state) { all, hidden = s.seen(by), s.Quirks.HideList && !by.super() })
	if hidden {
		say(w, http.StatusForbidden, "This action is unauthorized.")
		return
	}
	paged(w, r, all, pageSize)
}

func (e *emailbison) workspace(w http.ResponseWriter, r *http.Request, by token) {
	var all []workspace
	e.file.View(func(s *state) { all = s.seen(by) })
	i := slices.IndexFunc(all, func(of workspace) bool { return strconv.Itoa(of.ID) == r.PathValue("id") })
	if i < 0 {
		notFound(w)
		return
	}
	data(w, all[i])
}

// switchTo selects the workspace that every super-admin token acts in from now
// on, whoever has it.
func (e *emailbison) switchTo(w http.ResponseWriter, r *http.Request, by token) {
	var in struct {
		Team *int `json:"team_id"`
	}
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case !by.super():
		say(w, http.StatusForbidden, "This action is unauthorized.")
		return
	case err != nil || in.Team == nil:
		invalid(w, "team_id", "The team id field is required.")
		return
	}
	var to workspace
	err := e.file.Do(func(s *state) {
		if i := slices.IndexFunc(s.Workspaces, func(of workspace) bool { return of.ID == *in.Team }); i >= 0 {
			to, s.Active = s.Workspaces[i], *in.Team
		}
	})
	if err == nil && to.ID == 0 {
		invalid(w, "team_id", "The selected team id is invalid.")
		return
	}
	done(w, err, to)
}
