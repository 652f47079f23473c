// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"
	"net/mail"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// showPage is where a link leads. PlusVibe was not told which mailbox is meant,
// so nobody is prefilled.
func (s *plusvibe) showPage(w http.ResponseWriter, r *http.Request) {
	_, page := s.opened(r)
	page.Show(w)
}

// opened reports whether the link of a page works, and what the page is.
func (s *plusvibe) opened(r *http.Request) (works bool, page simulate.SignInPage) {
	page = simulate.SignInPage{Platform: "PlusVibe", Status: http.StatusBadRequest}
	id := r.URL.Query().Get("state")
	s.file.View(func(all *state) {
		switch l := all.Links[id]; {
		case l == nil:
			page.Problem = "This link is not one of ours. Ask for a new one."
		case l.Used:
			page.Problem = "This link was used already. Ask for a new one."
		case !l.Ends.After(s.kit.Now()):
			page.Problem = "This link has ended. Ask for a new one."
		default:
			works, page.Status = true, http.StatusOK
			page.Action = authorize + "?" + url.Values{"state": {id}}.Encode()
		}
	})
	return works, page
}

// submitPage takes the pressed button. Whoever signs in is attached.
func (s *plusvibe) submitPage(w http.ResponseWriter, r *http.Request) {
	works, page := s.opened(r)
	if !works {
		page.Show(w)
		return
	}
	username, decision := strings.TrimSpace(r.PostFormValue("username")), r.PostFormValue("decision")
	who, bad := mail.ParseAddress(username)
	switch {
	case decision == "accept" && (bad != nil || who.Address != username):
		page.Status, page.Problem, page.Username = http.StatusBadRequest, "Enter the mail address that signs in.", username
	case decision != "accept" && decision != "deny":
		page.Status, page.Problem, page.Username = http.StatusBadRequest, "Press one of the two buttons.", username
	default:
		page.Action = ""
		if decision == "deny" {
			page.Problem = "You declined, so nothing was connected."
		}
		if err := s.finish(r.URL.Query().Get("state"), username, decision == "accept"); err != nil {
			page.Status, page.Problem = http.StatusInternalServerError, "Something broke here. Try again."
		}
	}
	page.Show(w)
}

func (s *plusvibe) finish(id, username string, accepts bool) error {
	return s.file.Do(func(all *state) {
		l := all.Links[id]
		if l.Used {
			return // by who pressed a button at the same time
		}
		if l.Used = true; accepts {
			all.attach(l.Workspace, username, s.kit.Now())
		}
	})
}
