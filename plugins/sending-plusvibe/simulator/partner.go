// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// linkLifetime is how long a sign-in link works. PlusVibe does not document it.
const linkLifetime = 10 * time.Minute

// login is the body of every partner call.
type login struct {
	Flow      string `json:"flow"`
	Username  string `json:"pipl_username"`
	Password  string `json:"pipl_password"`
	Workspace string `json:"workspace_id"`
}

// requireLogin calls next for a request with a valid login. It refuses others with status 200 and
// code 0, because the documented answers to partners have a code.
func (s *plusvibe) requireLogin(next func(http.ResponseWriter, customer, login)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in login
		if json.NewDecoder(r.Body).Decode(&in) != nil || in.Flow != "app_user" {
			partnerRefuse(w, "flow must be app_user")
			return
		}
		var owner *customer
		s.file.View(func(all *state) {
			for _, c := range all.Keys {
				if c.Password != "" && c.Username == in.Username && c.Password == in.Password {
					owner = &c
				}
			}
		})
		if owner == nil {
			partnerRefuse(w, "Invalid username or password")
			return
		}
		next(w, *owner, in)
	}
}

func partnerRefuse(w http.ResponseWriter, message string) {
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"code": 0, "message": message})
}

func (s *plusvibe) partnerWorkspaces(w http.ResponseWriter, owner customer, _ login) {
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"code": 1, "message": "success", "data": workspaceDocs(owner.Workspaces)})
}

// startOAuth answers with a sign-in link, at the member path that LinkAt sets.
func (s *plusvibe) startOAuth(w http.ResponseWriter, owner customer, in login) {
	if !owner.reaches(in.Workspace) {
		partnerRefuse(w, "Invalid workspace_id")
		return
	}
	var link string
	var path []string
	err := s.file.Do(func(all *state) {
		own := s.signIns.Start(all, all.nextID(), in.Workspace, linkLifetime)
		path, link = strings.Split(all.Behaviour.LinkAt, "."), cmp.Or(all.Behaviour.LinkTo, own)
	})
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal error")
		return
	}
	doc := map[string]any{"code": 1, "message": "success"}
	inner := doc
	for _, name := range path[:len(path)-1] {
		next := map[string]any{}
		inner[name] = next
		inner = next
	}
	inner[path[len(path)-1]] = link
	simulate.WriteJSON(w, http.StatusOK, doc)
}
