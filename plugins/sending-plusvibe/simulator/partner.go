// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/mail"
	"net/url"
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
		state := all.nextID()
		all.Links[state] = &link{Workspace: in.Workspace, Ends: s.kit.Now().Add(linkTime)}
		at, to = strings.Split(all.Behaviour.LinkAt, "."), all.Behaviour.LinkTo
		if to == "" {
			to = s.kit.URL + authorize + "?client_id=plusvibe&response_type=code&state=" + state
		}
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

// showPage is where a link leads. PlusVibe was not told which mailbox is meant,
// so nobody is prefilled.
func (s *plusvibe) showPage(w http.ResponseWriter, r *http.Request) {
	_, page := s.opened(r)
	page.Show(w)
}

// opened finds the link of a page, and what the page is.
func (s *plusvibe) opened(r *http.Request) (*link, simulate.SignInPage) {
	page := simulate.SignInPage{Platform: "PlusVibe"}
	var found *link
	s.file.View(func(all *state) {
		if l := all.Links[r.URL.Query().Get("state")]; l != nil {
			copied := *l
			found = &copied
		}
	})
	switch {
	case found == nil:
		page.Status, page.Problem = http.StatusBadRequest, "This link is not one of ours. Ask for a new one."
	case found.Used:
		page.Status, page.Problem = http.StatusBadRequest, "This link was used already. Ask for a new one."
	case !found.Ends.After(s.kit.Now()):
		page.Status, page.Problem = http.StatusBadRequest, "This link has ended. Ask for a new one."
	default:
		page.Action = authorize + "?" + url.Values{"state": {r.URL.Query().Get("state")}}.Encode()
		return found, page
	}
	return nil, page
}

// submitPage takes the pressed button. Whoever signs in is attached.
func (s *plusvibe) submitPage(w http.ResponseWriter, r *http.Request) {
	found, page := s.opened(r)
	if found == nil {
		page.Show(w)
		return
	}
	username := strings.TrimSpace(r.PostFormValue("username"))
	who, bad := mail.ParseAddress(username)
	accepts := r.PostFormValue("decision") == "accept"
	switch {
	case accepts && (bad != nil || who.Address != username):
		page.Status, page.Problem, page.Username = http.StatusBadRequest, "Enter the mail address that signs in.", username
	case !accepts && r.PostFormValue("decision") != "deny":
		page.Status, page.Problem, page.Username = http.StatusBadRequest, "Press one of the two buttons.", username
	default:
		page.Action = ""
		if !accepts {
			page.Problem = "You declined, so nothing was connected."
		}
		if err := s.finish(r.URL.Query().Get("state"), username, accepts); err != nil {
			page.Status, page.Problem = http.StatusInternalServerError, "Something broke here. Try again."
		}
	}
	page.Show(w)
}

func (s *plusvibe) finish(state0, username string, accepts bool) error {
	err := s.file.Do(func(all *state) {
		l := all.Links[state0]
		l.Used = true
		if accepts {
			all.attach(l.Workspace, username, s.kit.Now())
		}
	})
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}
