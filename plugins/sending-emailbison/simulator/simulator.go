// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates a customer's instance of EmailBison: API tokens, workspaces, sender
// e-mails, and a page in place of EmailBison's uploader, on which people connect mailboxes. New is
// the entry point. The variable platform is a simulate.Platform, which lists the routes and the
// other properties of the API.
//
//   - simulator.go: the variable platform, the state, the check of tokens and the rate limit,
//     and Laravel's answers.
//   - senders.go: the sender e-mails and the workspaces.
//   - suite.go: the variable suite, which describes the simulator to the conformance suite.
package simulator

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	connectPath = "/uploader/connect"
	// Token is the API token of the sandbox. It belongs to the first workspace.
	Token = "9|q8kSimulatedTokenOfOneWorkspace"
)

type (
	route   = simulate.Route[token, sender, instance]
	request = simulate.Request[token, sender, instance]
	state   = simulate.State[token, sender, instance]
)

var platform = simulate.Platform[token, sender, instance]{
	Name: "emailbison", Title: "EmailBison", Prefix: "/api", Workspace: "1",
	Fresh: func(time.Time) state {
		return state{
			Keys:   map[string]token{Token: {Type: "api-user", Workspace: 1}},
			Vendor: instance{Workspaces: []workspace{{1, "Simulated"}}, Active: 1},
		}
	},
	Ready: func(url, _ string) simulate.Ready {
		credential := url + "#" + Token
		return simulate.Ready{
			Settings: map[string]string{"allow_private": "true"},
			Secrets:  map[string]string{"api_key": credential}, Sending: &simulate.Sending{APIKey: credential},
		}
	},
	Suite: suite,
	Admit: admit,
	Routes: []route{
		{On: "GET /users", Name: "user", Serve: getUser},
		{On: "GET /workspaces/v1.1", Name: "listWorkspaces", Serve: listWorkspaces},
		{On: "GET /workspaces/v1.1/{id}", Name: "getWorkspace", Serve: getWorkspace},
		{On: "POST /workspaces/v1.1/switch-workspace", Name: "switchWorkspace", Serve: switchWorkspace},
		{On: "GET /sender-emails", Name: "listSenders", Serve: listSenders},
		{On: "GET /sender-emails/{id}", Name: "getSender", Serve: withSender(getSender)},
		{On: "PATCH /sender-emails/{id}", Name: "updateSender", Serve: updateSender},
		{On: "DELETE /sender-emails/{id}", Name: "deleteSender", Serve: withSender(deleteSender)},
		{On: "POST /sender-emails/imap-smtp", Name: "createSender", Serve: createSender},
		{On: "GET /sender-emails/{id}/oauth-access-token", Name: "oauthAccessToken", Serve: withSender(accessToken)},
	},
	NotFound: func(*request) simulate.Answer { return notFound },
	PlannedFault: func(status, _ int) simulate.Answer {
		if answer, planned := plannedFaults[status]; planned {
			return answer
		}
		return messageAnswer(status, "Server Error")
	},
	NewAccount:  newSender,
	Touch:       func(a *sender, now time.Time) { a.Updated = timestamp(now) },
	WorkspaceOf: func(a *sender) int { return a.Workspace },
	Page:        simulate.Page{Path: connectPath, Operation: "uploader", Workspace: "1"},
	SignedIn: func(req *request, workspace, address string) {
		req.Account(workspace, address, 0).Status = "Connected"
	},
	Controls: map[string]func(*request) (any, error){
		"PUT /tokens": func(req *request) (any, error) {
			body := struct {
				Token string `json:"token"`
				token
			}{token: token{Type: "api-user", Workspace: 1}}
			if req.Read(&body) != nil || body.Token == "" || body.Type != "api-user" && !body.isSuperAdmin() {
				return nil, simulate.BadRequest("token must be the text of the token, and type must be api-user or super-admin")
			}
			req.State.Keys[body.Token] = body.token
			return nil, nil
		},
		"PUT /workspaces": func(req *request) (any, error) {
			req.State.Vendor.Workspaces = nil
			return nil, req.Read(&req.State.Vendor.Workspaces)
		},
		"PUT /quirks": func(req *request) (any, error) {
			req.State.Vendor.Quirks = quirks{}
			return nil, req.Read(&req.State.Vendor.Quirks)
		},
	},
}

// New returns the handler of the simulator, and the simulate.Ready that it prints when it accepts
// connections. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	return platform.Open(options)
}

// token is an API token. Workspace is the workspace of a token of type api-user. Workspace is 0 if
// the user was removed from the workspace.
type token struct {
	Type      string `json:"type"`
	Workspace int    `json:"workspace_id"`
	Revoked   bool   `json:"revoked"`
}

func (t token) isSuperAdmin() bool { return t.Type == "super-admin" }

// instance is the part of the simulator's state that is specific to EmailBison.
type instance struct {
	Workspaces []workspace `json:"workspaces"`
	// Active is the id of the selected workspace. All super-admin tokens use it.
	Active int    `json:"active"`
	Quirks quirks `json:"quirks"`
}

type workspace struct {
	ID   int    `json:"id"`
	Name string `json:"name"`
}

// quirks are properties in which instances differ.
type quirks struct {
	HonourPerPage     bool `json:"honour_per_page"` // the parameter per_page sets the page size, which is otherwise 15
	HideWorkspaceList bool `json:"hide_list"`       // only super-admins may list workspaces
	HideOwnWorkspace  bool `json:"hide_own"`        // the answer to GET /users does not contain the workspace
	HideTotal         bool `json:"hide_total"`      // a page does not contain the total number of entries
	IgnoreSearch      bool `json:"ignore_search"`
}

// rate is the limit of calls of an instance. All tokens of the instance share it.
var rate = simulate.Rate{Calls: 3000, Window: time.Minute, Fixed: true}

// admit counts the call, and refuses it above the rate. If the route exists, admit also refuses a
// request without a valid token. Like Laravel, it redirects such a request to the sign-in page if
// the request does not accept JSON.
func admit(req *request) simulate.Answer {
	usage := req.Count("instance", time.Now(), rate)
	req.Header.Set("X-RateLimit-Limit", strconv.Itoa(rate.Calls))
	req.Header.Set("X-RateLimit-Remaining", strconv.Itoa(usage.Left))
	if usage.Wait > 0 {
		req.RetryAfter(usage.Wait)
		return messageAnswer(http.StatusTooManyRequests, "Too Many Attempts.")
	}
	text, bearer := strings.CutPrefix(req.HTTP.Header.Get("Authorization"), "Bearer ")
	caller, known := req.State.Keys[text]
	switch {
	case req.Route == nil:
	case bearer && known && !caller.Revoked:
		if caller.isSuperAdmin() {
			caller.Workspace = req.State.Vendor.Active
		}
		req.Key, req.Workspace = caller, strconv.Itoa(caller.Workspace)
	case !strings.Contains(req.HTTP.Header.Get("Accept"), "json"):
		req.Header.Set("Location", "/login")
		return simulate.Answer{Status: http.StatusFound}
	default:
		return messageAnswer(http.StatusUnauthorized, "Unauthenticated.")
	}
	return simulate.Answer{}
}

func dataAnswer(v any) simulate.Answer { return simulate.OK(map[string]any{"data": v}) }

func messageAnswer(status int, text string) simulate.Answer {
	return simulate.Answer{Status: status, Body: map[string]string{"message": text}}
}

var (
	forbidden = messageAnswer(http.StatusForbidden, "This action is unauthorized.")
	notFound  = simulate.Answer{Status: http.StatusNotFound, Body: map[string]any{"data": map[string]any{"success": false, "message": "Record not found."}}}
)

// invalidField returns the answer with status 422 for a field with an invalid value.
func invalidField(field, text string) simulate.Answer {
	return simulate.Answer{Status: http.StatusUnprocessableEntity, Body: map[string]any{"message": text, "errors": map[string][]string{field: {text}}}}
}

// plannedFaults maps a status with which a test can make calls fail (simulate.Fault) to its answer.
// A status that is not in the map gets the body of a server error.
var plannedFaults = map[int]simulate.Answer{
	http.StatusUnauthorized: messageAnswer(http.StatusUnauthorized, "Unauthenticated."), http.StatusForbidden: forbidden,
	http.StatusNotFound: notFound, http.StatusUnprocessableEntity: invalidField("search", "The search field is invalid."),
	http.StatusTooManyRequests: messageAnswer(http.StatusTooManyRequests, "Too Many Attempts."),
}

// pageOf returns the page of items that the request asks for, in Laravel's format.
func pageOf[T any](req *request, items []T, size int) simulate.Answer {
	number, ok := req.Number("page", 1)
	if !ok || number == 0 {
		number = 1 // Laravel treats an invalid number as 1
	}
	lastPage := max(1, (len(items)+size-1)/size)
	start := min((min(number, lastPage+1)-1)*size, len(items)) // the product of a huge number would overflow
	entries := simulate.Slice(items, start, size)
	link := func(n int) any {
		if n < 1 || n > lastPage {
			return nil
		}
		query := req.HTTP.URL.Query()
		query.Set("page", strconv.Itoa(n))
		return (&url.URL{Scheme: "http", Host: req.HTTP.Host, Path: req.HTTP.URL.Path, RawQuery: query.Encode()}).String()
	}
	var total any = len(items)
	if req.State.Vendor.Quirks.HideTotal {
		total = nil
	}
	return simulate.OK(map[string]any{
		"data":  entries,
		"links": map[string]any{"first": link(1), "last": link(lastPage), "prev": link(number - 1), "next": link(number + 1)},
		"meta": map[string]any{
			"current_page": number, "last_page": lastPage, "per_page": size, "total": total, "path": "http://" + req.HTTP.Host + req.HTTP.URL.Path,
			"from": start + 1, "to": start + len(entries),
		},
	})
}
