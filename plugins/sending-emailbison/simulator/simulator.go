// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates a customer's instance of EmailBison: API tokens, workspaces, sender
// e-mails, and the form of the uploader on which people connect mailboxes. New is the entry point.
//
//   - simulator.go: New, the state, the routes and the authentication.
//   - senders.go, workspaces.go: the operations of the API, and the uploader.
//   - answers.go: Laravel's answers, pages and errors, and the rate limit.
//   - control.go: the control interface, by which tests and the sandbox change the instance.
package simulator

import (
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	provider = "emailbison"
	prefix   = "/api"
	connect  = "/uploader/connect"
	// Token is the API token of the sandbox. It belongs to the first workspace.
	Token = "9|q8kSimulatedTokenOfOneWorkspace"
)

// state is what the simulator stores in its data folder.
type state struct {
	Serial     int         `json:"serial"`
	Tokens     []*token    `json:"tokens"`
	Workspaces []workspace `json:"workspaces"`
	// Active is the id of the selected workspace. All super-admin tokens act in it.
	Active   int        `json:"active"`
	Accounts []*account `json:"accounts"`
	Quirks   quirks     `json:"quirks"`
}

// token is an API token. Workspace is the workspace of an api-user token, 0 when its user was
// removed from the workspace.
type token struct {
	Token     string `json:"token"`
	Type      string `json:"type"`
	Workspace int    `json:"workspace_id"`
	Revoked   bool   `json:"revoked"`
}

func (t token) isSuperAdmin() bool { return t.Type == "super-admin" }

type workspace struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// quirks are the behaviours in which instances differ.
type quirks struct {
	HonourPerPage bool `json:"honour_per_page"` // per_page sets the page size; otherwise it is 15
	HideList      bool `json:"hide_list"`       // only super-admins may list workspaces
	HideOwn       bool `json:"hide_own"`        // GET /users does not tell the workspace
	IgnoreSearch  bool `json:"ignore_search"`
}

type emailbison struct {
	kit     *simulate.Kit
	file    *simulate.File[state]
	mux     *http.ServeMux
	limiter rateLimiter
}

func initialState(time.Time) state {
	return state{Tokens: []*token{{Token: Token, Type: "api-user", Workspace: 1}}, Workspaces: []workspace{{1, "Simulated"}}, Active: 1}
}

// New returns the handler of the simulator and what its ready line tells. It fails when the data
// folder cannot be read.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "senders.json", o, initialState)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	e := &emailbison{kit: kit, file: file, mux: http.NewServeMux(), limiter: rateLimiter{now: kit.Now}}
	for pattern, handle := range map[string]handler{
		"GET /users":                                 e.user,
		"GET /workspaces/v1.1":                       e.workspaces,
		"GET /workspaces/v1.1/{id}":                  e.workspace,
		"POST /workspaces/v1.1/switch-workspace":     e.switchWorkspace,
		"GET /sender-emails":                         e.listSenders,
		"GET /sender-emails/{id}":                    e.getSender,
		"PATCH /sender-emails/{id}":                  e.updateSender,
		"DELETE /sender-emails/{id}":                 e.deleteSender,
		"POST /sender-emails/imap-smtp":              e.createSender,
		"GET /sender-emails/{id}/oauth-access-token": e.accessToken,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		e.mux.HandleFunc(method+" "+prefix+path, e.authenticated(handle))
	}
	e.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { replyNotFound(w) })
	credential := o.URL + "#" + Token
	return kit.Handler(e, e.controls()), simulate.Ready{
		Provider: provider, URL: o.URL,
		Settings: map[string]string{"allow_private": "true"},
		Secrets:  map[string]string{"api_key": credential},
		Control:  []string{},
		Sending:  &simulate.Sending{APIKey: credential},
	}, nil
}

// Call implements simulate.Provider.
func (e *emailbison) Call(r *http.Request, _ []byte) simulate.Call {
	operation, path := "", strings.TrimPrefix(r.URL.Path, prefix)
	switch {
	case r.URL.Path == connect:
		operation = "uploader"
	case path == "/users":
		operation = "user"
	case strings.HasSuffix(path, "/oauth-access-token"):
		operation = "oauthAccessToken"
	case path == "/sender-emails" && r.Method == http.MethodGet:
		operation = "listSenders"
	case r.Method == http.MethodDelete:
		operation = "deleteSender"
	case path == "/workspaces/v1.1":
		operation = "listWorkspaces"
	}
	return simulate.Call{Operation: operation, Write: r.Method != http.MethodGet, Host: prefix, WorkAt: []int{http.StatusGatewayTimeout}}
}

// ServeHTTP implements simulate.Provider.
func (e *emailbison) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == connect:
		e.uploader().ServeHTTP(w, r)
	case e.limiter.allow(w):
		e.mux.ServeHTTP(w, r)
	}
}

// handler serves a request of a caller with a valid token.
type handler func(w http.ResponseWriter, r *http.Request, caller token)

// authenticated calls next with the caller's token. Without a valid token it answers 401. As
// Laravel does, it redirects a request that does not accept JSON to the sign-in page instead.
func (e *emailbison) authenticated(next handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		var caller *token
		e.file.View(func(s *state) {
			for _, t := range s.Tokens {
				if bearer && t.Token == given && !t.Revoked {
					found := *t
					caller = &found
					if caller.isSuperAdmin() {
						caller.Workspace = s.Active
					}
				}
			}
		})
		switch {
		case caller != nil:
			next(w, r, *caller)
		case !strings.Contains(r.Header.Get("Accept"), "json"):
			http.Redirect(w, r, "/login", http.StatusFound)
		default:
			replyMessage(w, http.StatusUnauthorized, "Unauthenticated.")
		}
	}
}
