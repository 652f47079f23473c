// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// visibleWorkspaces returns the workspaces that the caller may read.
func (s *state) visibleWorkspaces(caller token) []workspace {
	all := []workspace{}
	for _, w := range s.Workspaces {
		if caller.isSuperAdmin() || w.ID == caller.Workspace {
			all = append(all, w)
		}
	}
	return all
}

func (e *emailbison) user(w http.ResponseWriter, _ *http.Request, caller token) {
	doc := map[string]any{
		"id": 1, "name": "Olga Owner", "email": "owner@example.com", "created_at": "2025-04-14T16:59:21.000000Z",
		"updated_at": "2025-04-14T16:59:21.000000Z", "workspace": nil,
	}
	e.file.View(func(s *state) {
		for _, own := range s.Workspaces {
			if own.ID == caller.Workspace && !s.Quirks.HideOwn {
				doc["workspace"] = own
			}
		}
	})
	replyData(w, doc)
}

func (e *emailbison) workspaces(w http.ResponseWriter, r *http.Request, caller token) {
	var all []workspace
	hidden := false
	e.file.View(func(s *state) { all, hidden = s.visibleWorkspaces(caller), s.Quirks.HideList && !caller.isSuperAdmin() })
	if hidden {
		replyMessage(w, http.StatusForbidden, "This action is unauthorized.")
		return
	}
	replyPage(w, r, all, pageSize)
}

func (e *emailbison) workspace(w http.ResponseWriter, r *http.Request, caller token) {
	var all []workspace
	e.file.View(func(s *state) { all = s.visibleWorkspaces(caller) })
	i := slices.IndexFunc(all, func(of workspace) bool { return strconv.Itoa(of.ID) == r.PathValue("id") })
	if i < 0 {
		replyNotFound(w)
		return
	}
	replyData(w, all[i])
}

// switchWorkspace selects the workspace in which all super-admin tokens act from now on.
func (e *emailbison) switchWorkspace(w http.ResponseWriter, r *http.Request, caller token) {
	var in struct {
		Team *int `json:"team_id"`
	}
	switch err := json.NewDecoder(r.Body).Decode(&in); {
	case !caller.isSuperAdmin():
		replyMessage(w, http.StatusForbidden, "This action is unauthorized.")
		return
	case err != nil || in.Team == nil:
		replyInvalid(w, "team_id", "The team id field is required.")
		return
	}
	var to workspace
	err := e.file.Do(func(s *state) {
		if i := slices.IndexFunc(s.Workspaces, func(of workspace) bool { return of.ID == *in.Team }); i >= 0 {
			to, s.Active = s.Workspaces[i], *in.Team
		}
	})
	if err == nil && to.ID == 0 {
		replyInvalid(w, "team_id", "The selected team id is invalid.")
		return
	}
	replyResult(w, err, to)
}
