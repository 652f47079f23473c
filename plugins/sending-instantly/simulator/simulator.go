// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of Instantly's API v2 that concerns mailboxes. It has API
// keys with scopes, the workspace, accounts, Microsoft OAuth sessions, rate limits and error
// envelopes. New is the entry point. The variable platform is a simulate.Platform, which lists the
// routes and the other properties of the API.
//
//   - simulator.go: the variable platform, the state, and the check of keys and rate limits.
//   - accounts.go: the accounts and their list.
//   - oauth.go: the OAuth sessions, and the control calls that end them.
//   - suite.go: the variable suite, which describes the simulator to the conformance suite.
package simulator

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	// Key is an API key with all scopes in the first workspace. Workspace is the id of that
	// workspace.
	Key           = "simulated-instantly-key"
	Workspace     = "019ffad2-5cac-7fb9-a336-000000000001"
	authorizePath = "/common/oauth2/v2.0/authorize" // the path of the sign-in page, as at Microsoft
)

type (
	route   = simulate.Route[key, account, vendorState]
	request = simulate.Request[key, account, vendorState]
	state   = simulate.State[key, account, vendorState]
)

var platform = simulate.Platform[key, account, vendorState]{
	Name: "instantly", Title: "Instantly", Prefix: "/api/v2",
	Fresh: func(now time.Time) state {
		return state{
			Keys:   map[string]key{Key: newKey()},
			Vendor: vendorState{Workspaces: map[string]*workspace{Workspace: {Name: "Example Outreach", Created: now}}},
		}
	},
	Ready: func(url, host string) simulate.Ready {
		return simulate.Ready{
			Settings: map[string]string{"base_url": url, "auth_hosts": host},
			Secrets:  map[string]string{"api_key": Key}, Sending: &simulate.Sending{APIKey: Key},
		}
	},
	Suite: suite,
	Admit: admit,
	Routes: []route{
		{On: "GET /workspaces/current", Name: "check", Scope: "workspaces:read", Serve: currentWorkspace},
		{On: "GET /accounts?search", Name: "account", Scope: "accounts:read", Serve: listAccounts},
		{On: "GET /accounts", Name: "accounts", Scope: "accounts:read", Serve: listAccounts},
		{On: "GET /accounts/{email}", Name: "account", Scope: "accounts:read", Serve: getAccount},
		{On: "DELETE /accounts/{email}", Name: "remove", Scope: "accounts:delete", Serve: deleteAccount},
		{On: "POST /oauth/microsoft/init", Name: "start_sign_in", Scope: "accounts:create", OwnWait: true, Serve: initOAuth},
		{On: "GET /oauth/session/status/{code}", Name: "sign_in", Scope: "accounts:read", Serve: sessionStatus},
	},
	NotFound: func(req *request) simulate.Answer {
		return refuse(http.StatusNotFound, "Route "+req.HTTP.Method+":"+req.HTTP.URL.Path+" not found")
	},
	PlannedFault: func(status, _ int) simulate.Answer { return refuse(status, "A planned fault") },
	NewKey:       newKey,
	NewAccount:   newAccount,
	Touch:        func(a *account, now time.Time) { a.Updated = simulate.NextStamp(a.Updated, now) },
	WorkspaceOf:  func(*account) int { return 0 }, // control calls see the accounts of all workspaces
	Page:         simulate.Page{Path: authorizePath, Operation: "authorize", ClosedStatus: http.StatusGone},
	SignedIn: func(req *request, workspace, address string) {
		attach(req, workspace, address, simulate.DisplayName(address))
	},
	Controls: map[string]func(*request) (any, error){
		"POST /accounts":          putAccounts,
		"PUT /accounts/{address}": putAccount,
		"PUT /keys/{key}": func(req *request) (any, error) {
			_, err := req.PutKey()
			workspaceOf(req, req.State.Keys[req.Path("key")].Workspace)
			return nil, err
		},
		"PUT /workspaces/{id}": func(req *request) (any, error) {
			var body struct {
				Name     string `json:"name"`
				Inactive bool   `json:"inactive"`
			}
			err := req.Read(&body)
			w := workspaceOf(req, req.Path("id"))
			w.Name, w.Inactive = cmp.Or(body.Name, w.Name), body.Inactive
			return nil, err
		},
		"GET /sessions":                listSessions,
		"POST /sessions/{id}/complete": completeSession,
		"POST /sessions/{id}/deny":     endSession(func(signIn *simulate.SignIn, _ time.Time) { signIn.Used = true }),
		"POST /sessions/{id}/expire":   endSession(func(signIn *simulate.SignIn, now time.Time) { signIn.ExpiresAt = now }),
		"POST /sessions/{id}/forget":   forgetSession,
		"POST /behaviour":              func(req *request) (any, error) { return nil, req.Read(&req.State.Vendor.Behaviour) },
	},
}

// New returns the handler of the simulator, and the simulate.Ready that it prints when it accepts
// connections. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	return platform.Open(options)
}

// key is an API key. It belongs to one workspace.
type key struct {
	Workspace string   `json:"workspace"`
	Scopes    []string `json:"scopes"`
	Revoked   bool     `json:"revoked"`
}

func newKey() key { return key{Workspace: Workspace, Scopes: []string{"all:all"}} }

// hasScope reports whether one of the scopes of the key includes scope.
func (k key) hasScope(scope string) bool {
	resource, action, _ := strings.Cut(scope, ":")
	return slices.ContainsFunc([]string{scope, resource + ":all", "all:" + action, "all:all"}, func(s string) bool {
		return slices.Contains(k.Scopes, s)
	})
}

// vendorState is the part of the simulator's state that is specific to Instantly.
type vendorState struct {
	Workspaces map[string]*workspace `json:"workspaces"` // keyed by id
	Behaviour  behaviour             `json:"behaviour"`
}

type workspace struct {
	Name     string    `json:"name"`
	Inactive bool      `json:"inactive"` // the workspace has no paid plan
	Created  time.Time `json:"created"`
}

type behaviour struct {
	ListLagMS  int    `json:"list_lag_ms"` // how many milliseconds an account is invisible after its first sign-in
	NoCursor   bool   `json:"no_cursor"`   // the last page with accounts has no cursor
	RepeatPage bool   `json:"repeat_page"` // every request for a page gets the first page
	AuthHost   string `json:"auth_host"`   // the host of the sign-in links, empty for the simulator's own host
}

// workspaceOf returns the workspace with an id. It creates the workspace if it does not exist.
func workspaceOf(req *request, id string) *workspace {
	workspaces := req.State.Vendor.Workspaces
	if workspaces[id] == nil {
		workspaces[id] = &workspace{Name: "Workspace", Created: req.Now}
	}
	return workspaces[id]
}

// refuse returns Instantly's error envelope.
func refuse(status int, message string) simulate.Answer {
	return simulate.Answer{Status: status, Body: map[string]any{"statusCode": status, "error": http.StatusText(status), "message": message}}
}

// The published rate limits: of all calls of a workspace, and of starts of sign-ins.
var (
	perSecond          = simulate.Rate{Calls: 100, Window: time.Second}
	perMinute          = simulate.Rate{Calls: 6000, Window: time.Minute}
	startsPerWorkspace = simulate.Rate{Calls: 75, Window: time.Minute}
	startsPerAddress   = simulate.Rate{Calls: 150, Window: time.Minute}
)

// admit checks the key, the rate limits, the scope, the plan and the body. The rates use the
// machine's clock, not the clock of the sandbox, which tests and people can move.
func admit(req *request) simulate.Answer {
	if req.Route == nil {
		return simulate.Answer{}
	}
	header := req.HTTP.Header.Get("Authorization")
	token, _ := strings.CutPrefix(header, "Bearer ")
	caller, known := req.State.Keys[token]
	req.Key, req.Workspace = caller, caller.Workspace
	switch {
	case header == "":
		return refuse(http.StatusUnauthorized, "Missing Authorization header")
	case !known || caller.Revoked:
		return refuse(http.StatusUnauthorized, "Invalid API key")
	case req.Count("all "+caller.Workspace, time.Now(), perSecond, perMinute).Wait > 0:
		return refuse(http.StatusTooManyRequests, "Rate limit exceeded")
	case !caller.hasScope(req.Route.Scope):
		return refuse(http.StatusForbidden, "The API key lacks the scope "+req.Route.Scope)
	case req.State.Vendor.Workspaces[caller.Workspace].Inactive:
		return refuse(http.StatusPaymentRequired, "Workspace does not have an active paid plan")
	case hasEmptyJSONBody(req.HTTP):
		return refuse(http.StatusBadRequest, "Body cannot be empty when content-type is set to 'application/json'")
	}
	return simulate.Answer{}
}

// hasEmptyJSONBody reports whether r is a write with the content type of JSON and an empty body.
// Instantly's framework refuses such requests.
func hasEmptyJSONBody(r *http.Request) bool {
	if r.Method == http.MethodGet || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	return err == nil && len(body) == 0
}

// countSignInStart counts a start of a sign-in. If the start exceeds the limit of its IP address or
// of the workspace, it returns how long the caller must wait. A start that exceeds only the limit
// of the workspace counts towards the limit of the address.
func countSignInStart(req *request) time.Duration {
	address, _, _ := net.SplitHostPort(req.HTTP.RemoteAddr)
	if wait := req.Count("start from "+address, time.Now(), startsPerAddress).Wait; wait > 0 {
		return wait
	}
	return req.Count("start in "+req.Workspace, time.Now(), startsPerWorkspace).Wait
}
