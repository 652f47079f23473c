// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// sessionLifetime is how long a session is open.
const sessionLifetime = 10 * time.Minute

// session is an OAuth session. It is not bound to a mailbox: the mailbox that signs in is attached.
type session struct {
	ID          string    `json:"id"`
	State       string    `json:"state"` // the parameter "state" of the link
	Workspace   string    `json:"workspace"`
	Created     time.Time `json:"created"`
	Status      string    `json:"status"`
	Email       string    `json:"email"`
	Name        string    `json:"name"`
	Error       string    `json:"error"`
	Description string    `json:"description"`
}

// statusAt returns the status of the session at a time.
func (x *session) statusAt(now time.Time) string {
	if x.Status == "pending" && !now.Before(x.Created.Add(sessionLifetime)) {
		return "expired"
	}
	return x.Status
}

func (s *instantly) initOAuth(w http.ResponseWriter, r *http.Request, in *workspace) {
	if s.startThrottled(w, r, in) {
		return
	}
	now := s.kit.Now()
	x := &session{State: rand.Text(), Workspace: in.ID, Created: now, Status: "pending"}
	base := s.kit.URL
	err := s.file.Do(func(all *state) {
		x.ID = all.nextID("sess-")
		all.Sessions[x.ID] = x
		if all.AuthHost != "" {
			base = "https://" + all.AuthHost
		}
	})
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	q := url.Values{"client_id": {"65ad96b6-fbeb-40b5-b404-2a415d074c97"}, "response_type": {"code"}, "state": {x.State},
		"scope": {"offline_access https://outlook.office.com/SMTP.Send"}}
	simulate.WriteJSON(w, http.StatusOK, map[string]any{
		"session_id": x.ID, "auth_url": base + authorize + "?" + q.Encode(), "expires_at": simulate.FormatTime(now.Add(sessionLifetime)),
	})
}

func (s *instantly) sessionStatus(w http.ResponseWriter, r *http.Request, in *workspace) {
	doc := map[string]any{}
	s.file.View(func(all *state) {
		x := all.Sessions[r.PathValue("code")]
		if x == nil || x.Workspace != in.ID {
			return
		}
		doc["status"] = x.statusAt(s.kit.Now())
		switch doc["status"] {
		case "success":
			doc["email"], doc["name"] = x.Email, x.Name
		case "error":
			doc["error"], doc["error_description"] = x.Error, x.Description
		}
	})
	if len(doc) == 0 {
		refuse(w, http.StatusNotFound, "OAuth session not found")
		return
	}
	simulate.WriteJSON(w, http.StatusOK, doc)
}

// complete ends the matching session as successful and attaches the account. open is false when no
// matching session is pending.
func (s *instantly) complete(matches func(*session) bool, email, name string) (open bool, err error) {
	return s.finish(matches, func(all *state, x *session) {
		x.Status, x.Email, x.Name = "success", email, name
		all.attach(x.Workspace, email, name, s.kit.Now())
	})
}

// deny ends the matching session with access_denied.
func (s *instantly) deny(matches func(*session) bool) (open bool, err error) {
	return s.finish(matches, func(_ *state, x *session) {
		x.Status, x.Error, x.Description = "error", "access_denied", "The user has denied access to the application"
	})
}

// finish calls change for each matching session that is pending. open is false when there is none.
func (s *instantly) finish(matches func(*session) bool, change func(*state, *session)) (open bool, err error) {
	now := s.kit.Now()
	err = s.file.Do(func(all *state) {
		for _, x := range all.Sessions {
			if matches(x) && x.statusAt(now) == "pending" {
				change(all, x)
				open = true
			}
		}
	})
	return open, err
}

const (
	linkClosed     = "This link is not open any more: it is unknown, was used, or is older than ten minutes. Ask for a new one."
	addressMissing = "Enter the address of the mailbox that signs in."
)

func (s *instantly) show(w http.ResponseWriter, p simulate.SignInPage) {
	p.Platform = "Instantly"
	p.Show(w)
}

// byState matches the session of the requested link.
func byState(r *http.Request) func(*session) bool {
	state := r.URL.Query().Get("state")
	return func(x *session) bool { return x.State == state }
}

func (s *instantly) showPage(w http.ResponseWriter, r *http.Request) {
	open := false
	s.file.View(func(all *state) {
		for _, x := range all.Sessions {
			open = open || byState(r)(x) && x.statusAt(s.kit.Now()) == "pending"
		}
	})
	if !open {
		s.show(w, simulate.SignInPage{Status: http.StatusGone, Problem: linkClosed})
		return
	}
	s.show(w, simulate.SignInPage{Action: r.URL.RequestURI(), Username: r.URL.Query().Get("login_hint")})
}

func (s *instantly) submitPage(w http.ResponseWriter, r *http.Request) {
	var open bool
	var err error
	username, isAddress := simulate.Username(r)
	switch r.PostFormValue("decision") {
	case "accept":
		if !isAddress {
			s.show(w, simulate.SignInPage{Status: http.StatusBadRequest, Problem: addressMissing, Action: r.URL.RequestURI(), Username: username})
			return
		}
		open, err = s.complete(byState(r), username, nameOf(username))
	case "deny":
		open, err = s.deny(byState(r))
	default:
		s.show(w, simulate.SignInPage{Status: http.StatusBadRequest, Problem: "Accept or cancel.", Action: r.URL.RequestURI(), Username: username})
		return
	}
	switch {
	case err != nil:
		s.show(w, simulate.SignInPage{Status: http.StatusInternalServerError, Problem: err.Error()})
	case !open:
		s.show(w, simulate.SignInPage{Status: http.StatusGone, Problem: linkClosed})
	default:
		s.show(w, simulate.SignInPage{})
	}
}

// nameOf derives a person's name from an address: ann.lee@example.com gives "Ann Lee".
func nameOf(address string) string {
	local, _, _ := strings.Cut(address, "@")
	words := strings.FieldsFunc(local, func(r rune) bool { return r == '.' || r == '-' || r == '_' })
	for i, word := range words {
		words[i] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, " ")
}
