// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// accountDoc is an account with the members of the API.
type accountDoc struct {
	ID       string `json:"_id"`
	Email    string `json:"email"`
	Status   string `json:"status"`
	Warmup   string `json:"warmup_status"`
	Provider string `json:"provider"`
	Created  string `json:"timestamp_created"`
	Updated  string `json:"timestamp_updated"`
	Payload  struct {
		Name struct {
			First string `json:"first_name"`
			Last  string `json:"last_name"`
		} `json:"name"`
		DailyLimit int      `json:"daily_limit"`
		SendingGap int      `json:"sending_gap"`
		Signature  string   `json:"signature"`
		Tags       []string `json:"tags"`
	} `json:"payload"`
}

// account is an account with the fields that the API does not show.
type account struct {
	accountDoc
	VisibleAt time.Time `json:"visible_at"`
}

// requireKey calls next for a request with a known key. The status of the refusal can be switched.
func (s *plusvibe) requireKey(next func(http.ResponseWriter, *http.Request, customer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var owner customer
		known := false
		s.file.View(func(all *state) { owner, known = all.Keys[r.Header.Get("X-Api-Key")] })
		if !known {
			refuse(w, s.behaviour().BadKey, "Invalid API key")
			return
		}
		next(w, r, owner)
	}
}

func (c customer) reaches(id string) bool {
	return slices.ContainsFunc(c.Workspaces, func(w simulate.Workspace) bool { return w.ID == id })
}

func (s *plusvibe) authenticate(w http.ResponseWriter, _ *http.Request, owner customer) {
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"status": "success", "workspaces": workspaceDocs(owner.Workspaces)})
}

// workspaceDocs returns workspaces with the members of the API.
func workspaceDocs(all []simulate.Workspace) []map[string]string {
	out := []map[string]string{}
	for _, w := range all {
		out = append(out, map[string]string{"_id": w.ID, "name": w.Name})
	}
	return out
}

// listAccounts answers with a page of accounts. The parameter "email" matches parts of addresses.
func (s *plusvibe) listAccounts(w http.ResponseWriter, r *http.Request, owner customer) {
	q := r.URL.Query()
	skip, okSkip := number(q.Get("skip"), 0)
	limit, okLimit := number(q.Get("limit"), 100)
	switch {
	case !owner.reaches(q.Get("workspace_id")):
		refuse(w, http.StatusBadRequest, "Invalid workspace_id")
		return
	case !okSkip, !okLimit, limit < 1, limit > 1000:
		refuse(w, http.StatusBadRequest, "Invalid paging")
		return
	}
	found := []accountDoc{}
	now, ignoreSkip := s.kit.Now(), false
	s.file.View(func(all *state) {
		ignoreSkip = all.Behaviour.DeafToSkip
		if all.Workspaces[q.Get("workspace_id")] == nil {
			return
		}
		for _, a := range all.Workspaces[q.Get("workspace_id")].Accounts {
			if !a.VisibleAt.After(now) && strings.Contains(strings.ToLower(a.Email), strings.ToLower(q.Get("email"))) {
				found = append(found, a.accountDoc)
			}
		}
	})
	if ignoreSkip {
		skip = 0
	}
	from := min(skip, len(found))
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"accounts": found[from:min(from+limit, len(found))]})
}

// number parses a non-negative integer. Empty text is fallback.
func number(text string, fallback int) (int, bool) {
	if text == "" {
		return fallback, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

func (s *plusvibe) deleteAccount(w http.ResponseWriter, r *http.Request, owner customer) {
	var in struct {
		Workspace string `json:"workspace_id"`
		Email     string `json:"email"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || !owner.reaches(in.Workspace) {
		refuse(w, http.StatusBadRequest, "Invalid workspace_id")
		return
	}
	removed := false
	err := s.file.Do(func(all *state) { removed = all.removeAccount(in.Workspace, in.Email) })
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, "Internal error")
	case !removed:
		refuse(w, http.StatusNotFound, "Email account not found")
	default:
		simulate.WriteJSON(w, http.StatusOK, map[string]string{"status": "success"})
	}
}

// removeAccount removes an account from a workspace and reports whether it existed.
func (s *state) removeAccount(workspaceID, email string) bool {
	w := s.workspace(workspaceID)
	i := w.index(email)
	if i < 0 {
		return false
	}
	w.Accounts = slices.Delete(w.Accounts, i, i+1)
	return true
}
