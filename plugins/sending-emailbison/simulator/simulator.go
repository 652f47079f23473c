// SPDX-License-Identifier: Apache-2.0

// Package simulator stands in for a customer's instance of EmailBison as far as
// sender e-mails and workspaces go, and for the form of its uploader on which
// people connect mailboxes.
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
	// Token is the one that a sandbox gives out, of the first workspace.
	Token = "9|q8kSimulatedTokenOfOneWorkspace"
)

// state is what is kept on disk.
type state struct {
	Serial     int         `json:"serial"`
	Tokens     []*token    `json:"tokens"`
	Workspaces []workspace `json:"workspaces"`
	// Active is the workspace that tokens of the type super-admin act in: one
	// for all of them.
	Active   int        `json:"active"`
	Accounts []*account `json:"accounts"`
	Quirks   quirks     `json:"quirks"`
}

// token is an API token. One of the type api-user has a workspace, 0 for a user
// who was taken out of it.
type token struct {
	Token     string `json:"token"`
	Type      string `json:"type"`
	Workspace int    `json:"workspace_id"`
	Revoked   bool   `json:"revoked"`
}

func (t token) super() bool { return t.Type == "super-admin" }

type workspace struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// quirks are what differs from one instance to the next.
type quirks struct {
	HonourPerPage bool `json:"honour_per_page"` // per_page counts
	HideList      bool `json:"hide_list"`       // the list of workspaces is for super-admins alone
	HideOwn       bool `json:"hide_own"`        // the user is told without a workspace
	IgnoreSearch  bool `json:"ignore_search"`
}

type emailbison struct {
	kit    *simulate.Kit
	file   *simulate.File[state]
	mux    *http.ServeMux
	limits limits
}

func fresh(time.Time) state {
	return state{Tokens: []*token{{Token: Token, Type: "api-user", Workspace: 1}}, Workspaces: []workspace{{1, "Simulated"}}, Active: 1}
}

// New makes the simulator.
func New(o simulate.Options) (http.Handler, simulate.Ready, error) {
	kit, file, err := simulate.OpenState(provider, "senders.json", o, fresh)
	if err != nil {
		return nil, simulate.Ready{}, err
	}
	e := &emailbison{kit: kit, file: file, mux: http.NewServeMux(), limits: limits{now: kit.Now}}
	for pattern, handle := range map[string]handler{
		"GET /users":                                 e.user,
		"GET /workspaces/v1.1":                       e.workspaces,
		"GET /workspaces/v1.1/{id}":                  e.workspace,
		"POST /workspaces/v1.1/switch-workspace":     e.switchTo,
		"GET /sender-emails":                         e.list,
		"GET /sender-emails/{id}":                    e.one,
		"PATCH /sender-emails/{id}":                  e.patch,
		"DELETE /sender-emails/{id}":                 e.remove,
		"POST /sender-emails/imap-smtp":              e.create,
		"GET /sender-emails/{id}/oauth-access-token": e.accessToken,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		e.mux.HandleFunc(method+" "+prefix+path, e.as(handle))
	}
	e.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { notFound(w) })
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
	case e.limits.pass(w):
		e.mux.ServeHTTP(w, r)
	}
}

// handler is work for who has a token.
type handler func(w http.ResponseWriter, r *http.Request, by token)

// as finds out whose request it is. Laravel sends a browser, which it takes
// everybody for who does not ask for JSON, to its sign-in page.
func (e *emailbison) as(do handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		var by *token
		e.file.View(func(s *state) {
			for _, t := range s.Tokens {
				if bearer && t.Token == given && !t.Revoked {
					found := *t
					by = &found
					if by.super() {
						by.Workspace = s.Active
					}
				}
			}
		})
		switch {
		case by != nil:
			do(w, r, *by)
		case !strings.Contains(r.Header.Get("Accept"), "json"):
			http.Redirect(w, r, "/login", http.StatusFound)
		default:
			say(w, http.StatusUnauthorized, "Unauthenticated.")
		}
	}
}
