// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"time"
)

// SignIn is a sign-in that was started at a platform which tells no more of it
// than a link.
type SignIn struct {
	Workspace string    `json:"workspace"`
	Ends      time.Time `json:"ends"`
	Used      bool      `json:"used"`
}

// SignIns serves the page to which such links lead. A link works once, until it
// ends. The platform was not told which mailbox is meant, so nobody is
// prefilled, and whoever signs in is attached.
type SignIns[T any] struct {
	Platform string // for people
	Path     string // of the page
	Kit      *Kit
	File     *File[T] // where the state is kept
	// Started are the sign-ins of the state by the `state` parameter of their
	// links.
	Started func(*T) map[string]*SignIn
	// Attach is what an accepted sign-in does to the state.
	Attach func(all *T, workspace, username string, now time.Time)
}

// Start keeps a sign-in that works for so long and gives the link to its page.
// It is called with the state in hand, and id is one that nothing else has.
func (s SignIns[T]) Start(all *T, id, workspace string, lasts time.Duration) (link string) {
	s.Started(all)[id] = &SignIn{Workspace: workspace, Ends: s.Kit.Now().Add(lasts)}
	return s.Kit.URL + s.Path + "?client_id=" + s.Kit.name + "&response_type=code&state=" + id
}

// ServeHTTP shows the page, and takes the pressed button.
func (s SignIns[T]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("state")
	page := s.page(id)
	if page.Action != "" && r.Method == http.MethodPost {
		page = s.pressed(page, id, r)
	}
	page.Show(w)
}

// page is that of a link, without an action when the link does not work.
func (s SignIns[T]) page(id string) SignInPage {
	page := SignInPage{Platform: s.Platform, Status: http.StatusBadRequest}
	s.File.View(func(all *T) {
		switch l := s.Started(all)[id]; {
		case l == nil:
			page.Problem = "This link is not one of ours. Ask for a new one."
		case l.Used:
			page.Problem = "This link was used already. Ask for a new one."
		case !l.Ends.After(s.Kit.Now()):
			page.Problem = "This link has ended. Ask for a new one."
		default:
			page.Status, page.Action = http.StatusOK, s.Path+"?"+url.Values{"state": {id}}.Encode()
		}
	})
	return page
}

// pressed is the page that follows a button.
func (s SignIns[T]) pressed(page SignInPage, id string, r *http.Request) SignInPage {
	username, address := Username(r)
	decision := r.PostFormValue("decision")
	switch {
	case decision == "accept" && !address:
		page.Status, page.Problem, page.Username = http.StatusBadRequest, "Enter the mail address that signs in.", username
		return page
	case decision != "accept" && decision != "deny":
		page.Status, page.Problem, page.Username = http.StatusBadRequest, "Press one of the two buttons.", username
		return page
	}
	page.Action = ""
	if decision == "deny" {
		page.Problem = "You declined, so nothing was connected."
	}
	if err := s.finish(id, username, decision == "accept"); err != nil {
		page.Status, page.Problem = http.StatusInternalServerError, "Something broke here. Try again."
	}
	return page
}

func (s SignIns[T]) finish(id, username string, accepts bool) error {
	return s.File.Do(func(all *T) {
		l := s.Started(all)[id]
		if l.Used {
			return // by who pressed a button at the same time
		}
		if l.Used = true; accepts {
			s.Attach(all, l.Workspace, username, s.Kit.Now())
		}
	})
}

// Username is who signs in by the form of a SignInPage. It is an address when
// it is a mail address and nothing besides.
func Username(r *http.Request) (username string, address bool) {
	username = strings.TrimSpace(r.PostFormValue("username"))
	who, err := mail.ParseAddress(username)
	return username, err == nil && who.Address == username
}
