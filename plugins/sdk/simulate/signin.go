// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	_ "embed"
	"html/template"
	"net/http"
	"net/mail"
	"net/url"
	"strings"
	"time"
)

// SignInPage is a page on which a person signs a mailbox in. It is a form with the field `username`
// and two buttons. The buttons set the field `decision` to "accept" or "deny". If Action is empty,
// the page has no form and only shows the result.
type SignInPage struct {
	Platform string // display name
	Status   int    // HTTP status, 0 for 200
	Problem  string // error message, may be empty
	Action   string // URL to which the form is posted
	Username string // initial value of the field `username`
}

//go:embed signin.html
var signInHTML string

var signInPage = template.Must(template.New("signin").Parse(signInHTML))

// Show writes the page to w.
func (p SignInPage) Show(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	_ = signInPage.Execute(w, p) // fails only if the client has closed the connection
}

// ConnectPage serves the page on which a person connects a mailbox. It is for a platform whose API
// cannot start a sign-in. At a real platform, the person then consents on a page of the mailbox's
// provider, such as Microsoft. The simulated page replaces both pages.
type ConnectPage struct {
	Platform string // display name
	Path     string // path of the page
	Connect  func(address string) error
}

// ServeHTTP shows the form, or handles the submitted form. The query parameter `username` of the
// link fills in the form.
func (c ConnectPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := SignInPage{Platform: c.Platform}
	address := strings.TrimSpace(r.PostFormValue("username"))
	switch {
	case r.Method != http.MethodPost:
		page.Action, page.Username = c.Path, r.URL.Query().Get("username")
	case r.PostFormValue("decision") != "accept":
		page.Problem = "Nothing was connected: you did not accept."
	case !strings.Contains(address, "@"):
		page.Status, page.Action, page.Problem = http.StatusBadRequest, c.Path, "Enter the mail address of a mailbox."
	default:
		if err := c.Connect(address); err != nil {
			page.Status, page.Problem = http.StatusInternalServerError, err.Error()
		}
	}
	page.Show(w)
}

// SignIn is a sign-in that was started at a platform whose API returns a sign-in link.
type SignIn struct {
	ID        string    `json:"id,omitempty"` // id of the session, if the platform has sessions
	Workspace string    `json:"workspace"`
	StartedAt time.Time `json:"started"`
	ExpiresAt time.Time `json:"ends"`
	Used      bool      `json:"used"`
	// Address and Name are the mail address and the display name of the person who signed in. They
	// are empty until a person has accepted.
	Address string `json:"address,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Open reports whether the link of the sign-in can still be used.
func (s *SignIn) Open(now time.Time) bool { return !s.Used && s.ExpiresAt.After(now) }

// SignInLinks serves the page to which the links of sign-ins lead. A link can be used once, until
// it expires. A link does not determine which mailbox signs in: its parameter `login_hint` only
// fills in the form.
type SignInLinks[T any] struct {
	Platform string // display name
	Path     string // path of the page
	// ClosedStatus is the status of the page for an unknown, used or expired link. 0 stands for
	// 400.
	ClosedStatus int
	Kit          *Kit
	File         *File[T] // the simulator's state
	// Started returns the sign-ins in the state, keyed by the `state` parameter of their links.
	Started func(*T) map[string]*SignIn
	// Attach changes the state after a sign-in was accepted.
	Attach func(all *T, workspace, username string, now time.Time)
}

// Start stores a sign-in that expires after lifetime and returns the link to its page. Call Start
// only inside File.Do, with the state that File.Do passes. The id must be unique.
func (s SignInLinks[T]) Start(all *T, id, workspace string, lifetime time.Duration) (link string) {
	now := s.Kit.Now()
	s.Started(all)[id] = &SignIn{Workspace: workspace, StartedAt: now, ExpiresAt: now.Add(lifetime)}
	return s.Kit.URL + s.Path + "?client_id=" + s.Kit.name + "&response_type=code&state=" + id
}

// ServeHTTP shows the page of a link, or handles the submitted form.
func (s SignInLinks[T]) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("state")
	page := s.pageOfLink(id)
	page.Username = r.URL.Query().Get("login_hint")
	if page.Action != "" && r.Method == http.MethodPost {
		page = s.submit(page, id, r)
	}
	page.Show(w)
}

// pageOfLink returns the page of a link. Action is empty if the link is unknown, used or expired.
func (s SignInLinks[T]) pageOfLink(id string) SignInPage {
	page := SignInPage{Platform: s.Platform, Status: cmp.Or(s.ClosedStatus, http.StatusBadRequest)}
	s.File.View(func(all *T) {
		switch link := s.Started(all)[id]; {
		case link == nil:
			page.Problem = "This link is unknown. Ask for a new one."
		case link.Used:
			page.Problem = "This link was used already. Ask for a new one."
		case !link.ExpiresAt.After(s.Kit.Now()):
			page.Problem = "This link has expired. Ask for a new one."
		default:
			page.Status, page.Action = http.StatusOK, s.Path+"?"+url.Values{"state": {id}}.Encode()
		}
	})
	return page
}

// submit handles the submitted form and returns the page to show.
func (s SignInLinks[T]) submit(page SignInPage, id string, r *http.Request) SignInPage {
	username, isAddress := Username(r)
	decision := r.PostFormValue("decision")
	switch {
	case decision == "accept" && !isAddress:
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
	switch used, err := s.useLink(id, username, decision == "accept"); {
	case err != nil:
		page.Status, page.Problem = http.StatusInternalServerError, "Something broke here. Try again."
	case !used:
		return s.pageOfLink(id)
	}
	return page
}

// useLink marks a link as used and attaches the mailbox if the person accepted. It returns false if
// the link has expired or another request has used it since the check in ServeHTTP.
func (s SignInLinks[T]) useLink(id, username string, accepted bool) (used bool, err error) {
	err = s.File.Do(func(all *T) {
		link, now := s.Started(all)[id], s.Kit.Now()
		if used = link != nil && link.Open(now); !used {
			return
		}
		if link.Used = true; accepted {
			link.Address, link.Name = username, DisplayName(username)
			s.Attach(all, link.Workspace, username, now)
		}
	})
	return used, err
}

// Username returns the field `username` of a submitted SignInPage. address reports whether username
// is a plain mail address, without a display name.
func Username(r *http.Request) (username string, address bool) {
	username = strings.TrimSpace(r.PostFormValue("username"))
	parsed, err := mail.ParseAddress(username)
	return username, err == nil && parsed.Address == username
}
