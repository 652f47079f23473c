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

// senderDoc is a sender with the members of the API, whose names SalesBlink does not document.
type senderDoc struct {
	ID       string  `json:"id"`
	Email    string  `json:"from_email"`
	Name     string  `json:"from_name"`
	Status   string  `json:"status"`
	Error    *string `json:"error"`
	Provider string  `json:"provider"`
	Folder   string  `json:"folder"`
	Created  string  `json:"created_at"`
	Updated  string  `json:"updated_at"`
}

// sender is a sender with the fields that the API does not show.
type sender struct {
	senderDoc
	VisibleAt time.Time `json:"visible_at"`
}

// requireKey calls next for a request with a known key that is within the rate limit. The key is
// the whole value of the header Authorization, without the word Bearer.
func (s *salesblink) requireKey(next func(http.ResponseWriter, *http.Request, customer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Authorization")
		var owner customer
		known := false
		s.file.View(func(all *state) { owner, known = all.Keys[key] })
		switch {
		case !known:
			refuse(w, http.StatusUnauthorized, "Invalid API key")
		case s.behaviour().Limits && !s.limiter.allow(key, r.Method):
			refuse(w, http.StatusTooManyRequests, "Too many requests, wait a minute")
		default:
			next(w, r, owner)
		}
	}
}

func (s *salesblink) listWorkspaces(w http.ResponseWriter, _ *http.Request, owner customer) {
	if owner.Role != "owner" {
		refuse(w, http.StatusForbidden, "Only the owner can list workspaces")
		return
	}
	answer(w, append([]simulate.Workspace{}, owner.Workspaces...))
}

// workspaceOf returns the id of the workspace in the query of a GET or the body of a POST, or else
// the default of the key. It refuses a workspace that the key does not reach, with status 200.
func (c customer) workspaceOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	id := r.URL.Query().Get("workspace_id")
	if r.Method != http.MethodGet {
		var body struct {
			Workspace string `json:"workspace_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // the body may be empty
		id = body.Workspace
	}
	for _, reached := range c.Workspaces {
		if id == "" || id == reached.ID {
			return reached.ID, true
		}
	}
	refuse(w, http.StatusOK, "Workspace not found")
	return "", false
}

func (s *salesblink) listSenders(w http.ResponseWriter, r *http.Request, owner customer) {
	workspaceID, ok := owner.workspaceOf(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	skip, okSkip := count(q.Get("skip"), 0)
	limit, okLimit := count(q.Get("limit"), 20)
	if !okSkip || !okLimit || limit < 1 || limit > 100 {
		refuse(w, http.StatusBadRequest, "limit is at most 100")
		return
	}
	b := s.behaviour()
	search := ""
	if b.Search {
		search = q.Get("search")
	}
	answer(w, b.format(b.slicePage(s.visible(workspaceID, search), skip, limit)))
}

// count parses a non-negative integer. Empty text is fallback.
func count(text string, fallback int) (int, bool) {
	if text == "" {
		return fallback, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// visible returns the visible senders of a workspace, sorted by folder.
func (s *salesblink) visible(workspaceID, search string) []senderDoc {
	out := []senderDoc{}
	now := s.kit.Now()
	s.file.View(func(all *state) {
		if all.Workspaces[workspaceID] == nil {
			return
		}
		for _, a := range all.Workspaces[workspaceID].Senders {
			if !a.VisibleAt.After(now) && strings.Contains(strings.ToLower(a.Email), strings.ToLower(search)) {
				out = append(out, a.senderDoc)
			}
		}
	})
	slices.SortStableFunc(out, func(a, b senderDoc) int { return strings.Compare(a.Folder, b.Folder) })
	return out
}

// slicePage returns the page of the senders that skip and limit select.
func (b behaviour) slicePage(all []senderDoc, skip, limit int) []senderDoc {
	switch b.Skip {
	case "page":
		skip *= limit
	case "ignored":
		skip = 0
	}
	if skip >= len(all) && len(all) > 0 && b.PastEnd == "repeat" {
		skip = (len(all) - 1) / limit * limit
	}
	skip = min(skip, len(all))
	return all[skip:min(skip+limit, len(all))]
}

// format returns a page in the form that Shape sets.
func (b behaviour) format(page []senderDoc) any {
	folders := map[string][]senderDoc{}
	names := []string{}
	for _, a := range page {
		if folders[a.Folder] == nil {
			names = append(names, a.Folder)
		}
		folders[a.Folder] = append(folders[a.Folder], a)
	}
	switch b.Shape {
	case "flat":
		return page
	case "folders":
		return folders
	}
	groups := []map[string]any{}
	for _, name := range names {
		groups = append(groups, map[string]any{"folder": map[string]string{"name": name}, "senders": folders[name]})
	}
	return groups
}
