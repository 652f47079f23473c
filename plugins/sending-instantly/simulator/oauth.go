// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// lifetime is that of a session.
const lifetime = 10 * time.Minute

// session is an OAuth session. Nothing in it says which mailbox it is for:
// whoever signs in is attached.
type session struct {
	ID          string    `json:"id"`
	State       string    `json:"state"` // by which the page knows it
	Workspace   string    `json:"workspace"`
	Created     time.Time `json:"created"`
	Status      string    `json:"status"`
	Email       string    `json:"email"`
	Name        string    `json:"name"`
	Error       string    `json:"error"`
	Description string    `json:"description"`
}

// at is the session's status at a time.
func (x *session) at(now time.Time) string {
	if x.Status == "pending" && !now.Before(x.Created.Add(lifetime)) {
		return "expired"
	}
	return x.Status
}

func (s *instantly) initOAuth(w http.ResponseWriter, r *http.Request, in *workspace) {
	if s.limited(w, r, in) {
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
	simulate.Reply(w, http.StatusOK, map[string]any{
		"session_id": x.ID, "auth_url": base + authorize + "?" + q.Encode(), "expires_at": simulate.Stamp(now.Add(lifetime)),
	})
}

func (s *instantly) sessionStatus(w http.ResponseWriter, r *http.Request, in *workspace) {
	doc := map[string]any{}
	s.file.View(func(all *state) {
		x := all.Sessions[r.PathValue("code")]
		if x == nil || x.Workspace != in.ID {
			return
		}
		doc["status"] = x.at(s.kit.Now())
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
	simulate.Reply(w, http.StatusOK, doc)
}

// complete attaches whoever signed in; false when the session is not open.
func (s *instantly) complete(ours func(*session) bool, email, name string) (open bool, err error) {
	return s.finish(ours, func(all *state, x *session) {
		x.Status, x.Email, x.Name = "success", email, name
		all.attach(x.Workspace, email, name, s.kit.Now())
	})
}

func (s *instantly) deny(ours func(*session) bool) (open bool, err error) {
	return s.finish(ours, func(_ *state, x *session) {
		x.Status, x.Error, x.Description = "error", "access_denied", "The user has denied access to the application"
	})
}

func (s *instantly) finish(ours func(*session) bool, how func(*state, *session)) (open bool, err error) {
	now := s.kit.Now()
	err = s.file.Do(func(all *state) {
		for _, x := range all.Sessions {
			if ours(x) && x.at(now) == "pending" {
				how(all, x)
				open = true
			}
		}
	})
	return open, err
}
