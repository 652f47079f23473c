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

// linkTime is how long a link works. PlusVibe does not say.
const linkTime = 10 * time.Minute

// login is what partners send with each call.
type login struct {
	Flow      string `json:"flow"`
	Username  string `json:"pipl_username"`
	Password  string `json:"pipl_password"`
	Workspace string `json:"workspace_id"`
}

// partners lets only those do the work who log in. A wrong login is told with
// 200, as the code of partners' answers suggests.
func (s *plusvibe) partners(do func(http.ResponseWriter, customer, login)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in login
		if json.NewDecoder(r.Body).Decode(&in) != nil || in.Flow != "app_user" {
			partnerRefuse(w, "flow must be app_user")
			return
		}
		var who *customer
		s.file.View(func(all *state) {
			for _, c := range all.Keys {
				if c.Password != "" && c.Username == in.Username && c.Password == in.Password {
					who = &c
				}
			}
		})
		if who == nil {
			partnerRefuse(w, "Invalid username or password")
			return
		}
		do(w, *who, in)
	}
}

func partnerRefuse(w http.ResponseWriter, message string) {
	simulate.Reply(w, http.StatusOK, map[string]any{"code": 0, "message": message})
}

func (s *plusvibe) partnerWorkspaces(w http.ResponseWriter, who customer, _ login) {
	simulate.Reply(w, http.StatusOK, map[string]any{"code": 1, "message": "success", "data": named(who.Workspaces)})
}

// startOAuth answers with a link, which is all that PlusVibe tells of a sign-in.
func (s *plusvibe) startOAuth(w http.ResponseWriter, who customer, in login) {
	if !who.reaches(in.Workspace) {
		partnerRefuse(w, "Invalid workspace_id")
		return
	}
	var to string
	var at []string
	err := s.file.Do(func(all *state) {
		link := s.signIns.Start(all, all.nextID(), in.Workspace, linkTime)
		at, to = strings.Split(all.Behaviour.LinkAt, "."), cmp.Or(all.Behaviour.LinkTo, link)
	})
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal error")
		return
	}
	doc := map[string]any{"code": 1, "message": "success"}
	inner := doc
	for _, name := range at[:len(at)-1] {
		next := map[string]any{}
		inner[name] = next
		inner = next
	}
	inner[at[len(at)-1]] = to
	simulate.Reply(w, http.StatusOK, doc)
}
