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

// senderDoc is a sender as the API shows it. Its members are a guess.
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

// sender is one with what the API does not show.
type sender struct {
	senderDoc
	VisibleAt time.Time `json:"visible_at"`
}

// keyed lets only those do the work who have a key, without the word Bearer,
// and do not ask too often.
func (s *salesblink) keyed(do func(http.ResponseWriter, *http.Request, customer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Authorization")
		var who customer
		known := false
		s.file.View(func(all *state) { who, known = all.Keys[key] })
		switch {
		case !known:
			refuse(w, http.StatusUnauthorized, "Invalid API key")
		case s.behaviour().Limits && !s.limits.allow(key, r.Method):
			refuse(w, http.StatusTooManyRequests, "Too many requests, wait a minute")
		default:
			do(w, r, who)
		}
	}
}

func (s *salesblink) listWorkspaces(w http.ResponseWriter, _ *http.Request, who customer) {
	if who.Role != "owner" {
		refuse(w, http.StatusForbidden, "Only the owner can list workspaces")
		return
	}
	answer(w, append([]simulate.Workspace{}, who.Workspaces...))
}

// in is the workspace that a call is for: by the query of a GET and the body of
// a POST, else the key's default. One that is not the key's is refused by 200.
func (c customer) in(w http.ResponseWriter, r *http.Request) (string, bool) {
	asked := r.URL.Query().Get("workspace_id")
	if r.Method != http.MethodGet {
		var body struct {
			Workspace string `json:"workspace_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // there may be none
		asked = body.Workspace
	}
	for _, one := range c.Workspaces {
		if asked == "" || asked == one.ID {
			return one.ID, true
		}
	}
	refuse(w, http.StatusOK, "Workspace not found")
	return "", false
}

func (s *salesblink) listSenders(w http.ResponseWriter, r *http.Request, who customer) {
	in, ok := who.in(w, r)
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
	answer(w, b.shaped(b.cut(s.visible(in, search), skip, limit)))
}

func count(text string, fallback int) (int, bool) {
	if text == "" {
		return fallback, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= 0
}

// visible are the senders that can be seen now, folder by folder.
func (s *salesblink) visible(in, search string) []senderDoc {
	out := []senderDoc{}
	now := s.kit.Now()
	s.file.View(func(all *state) {
		if all.Workspaces[in] == nil {
			return
		}
		for _, a := range all.Workspaces[in].Senders {
			if !a.VisibleAt.After(now) && strings.Contains(strings.ToLower(a.Email), strings.ToLower(search)) {
				out = append(out, a.senderDoc)
			}
		}
	})
	slices.SortStableFunc(out, func(a, b senderDoc) int { return strings.Compare(a.Folder, b.Folder) })
	return out
}

// cut takes a page out of the senders.
func (b behaviour) cut(all []senderDoc, skip, limit int) []senderDoc {
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

// shaped is a page in one of the forms that it may have.
func (b behaviour) shaped(page []senderDoc) any {
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
