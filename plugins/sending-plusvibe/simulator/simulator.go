// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of PlusVibe's API that concerns mailboxes: API keys,
// workspaces, accounts, and the partner calls that start a Microsoft sign-in. Settings select
// between possible forms of answers that PlusVibe does not document. New is the entry point. The
// variable platform is a simulate.Platform, which lists the routes and the other properties of the
// API.
package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	// Key is an API key with access to two workspaces.
	Key = "simulated-plusvibe-key"
	// Username and Password are a partner's login for the same workspaces.
	Username = "partner@agency.example"
	Password = "simulated-plusvibe-password"
)

var firstWorkspaces = []simulate.Workspace{
	{ID: "65f3a1b2c3d4e5f600000001", Name: "Example Outreach"}, {ID: "65f3a1b2c3d4e5f600000002", Name: "Example Recruiting"},
}

type (
	route   = simulate.Route[customer, account, behaviour]
	request = simulate.Request[customer, account, behaviour]
	state   = simulate.State[customer, account, behaviour]
)

// deletePath is the path of the undocumented call that deletes an account. partner is the
// Route.Scope of the calls that need a partner's login.
const (
	deletePath = "/account/delete"
	partner    = "partner"
)

var platform = simulate.Platform[customer, account, behaviour]{
	Name: "plusvibe", Title: "PlusVibe", Prefix: "/api/v1", Workspace: firstWorkspaces[0].ID,
	Fresh: func(time.Time) state {
		return state{
			Keys:   map[string]customer{Key: {firstWorkspaces, Username, Password}},
			Vendor: behaviour{BadKey: http.StatusUnauthorized, DeletePath: deletePath, LinkAt: "data.url"},
		}
	},
	Ready: ready,
	Suite: suite,
	Admit: admit,
	Routes: []route{
		{On: "GET /authenticate", Name: "check", Serve: authenticate},
		{On: "GET /account/list?email", Name: "account", Serve: listAccounts},
		{On: "GET /account/list", Name: "accounts", Serve: listAccounts},
		{On: "POST " + deletePath, Name: "remove", Serve: deleteAccount},
		{On: "POST /webhook/partner-list-workspace", Name: "check", Scope: partner, ReadOnly: true, Serve: partnerWorkspaces},
		{On: "POST /webhook/partner-microsoft-oauth-url", Name: "start_sign_in", Scope: partner, Serve: startOAuth},
	},
	NotFound:     notFound,
	PlannedFault: func(status, _ int) simulate.Answer { return refuse(status, http.StatusText(status)) },
	NewAccount: func(req *request, _, address string) account {
		a := account{ID: fmt.Sprintf("66a0b1c2d3e4f5%010x", req.State.NextSerial()), Email: address, Status: "ACTIVE", Warmup: "INACTIVE", Provider: "MICROSOFT365"}
		a.Created, a.Updated = simulate.FormatTime(req.Now), simulate.FormatTime(req.Now)
		a.Payload.DailyLimit, a.Payload.Tags = 30, []string{}
		return a
	},
	Touch:    func(a *account, now time.Time) { a.Updated = simulate.NextStamp(a.Updated, now) },
	Page:     simulate.Page{Path: "/common/oauth2/v2.0/authorize", Operation: "authorize"}, // as at Microsoft
	SignedIn: signedIn,
	Controls: map[string]func(*request) (any, error){
		"PUT /keys/{key}":    (*request).PutKey,
		"DELETE /keys/{key}": (*request).DeleteKey,
		"POST /behaviour":    setBehaviour,
	},
}

// New returns the handler of the simulator, and the simulate.Ready that it prints when it accepts
// connections. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	return platform.Open(options)
}

func ready(url, host string) simulate.Ready {
	credential := map[string]string{"api_key": Key, "partner_username": Username, "partner_password": Password}
	text, _ := json.Marshal(credential) // cannot fail for a map of strings
	return simulate.Ready{
		Settings: map[string]string{"base_url": url + "/api/v1", "auth_hosts": host, "allow_password_credentials": "true"},
		Secrets:  credential, Sending: &simulate.Sending{APIKey: string(text), Workspaces: firstWorkspaces},
	}
}

// customer is the owner of an API key. Username and Password are the login if the customer is a
// partner.
type customer struct {
	Workspaces []simulate.Workspace `json:"workspaces"`
	Username   string               `json:"partner_username"`
	Password   string               `json:"partner_password"`
}

func (c customer) hasAccessTo(id string) bool {
	return slices.ContainsFunc(c.Workspaces, func(w simulate.Workspace) bool { return w.ID == id })
}

// workspaceDocs returns the workspaces in the format of the API.
func (c customer) workspaceDocs() []map[string]string {
	docs := []map[string]string{}
	for _, w := range c.Workspaces {
		docs = append(docs, map[string]string{"_id": w.ID, "name": w.Name})
	}
	return docs
}

// account is an account with the members of the API.
type account struct {
	ID       string `json:"_id"`
	Email    string `json:"email"`
	Status   string `json:"status"`
	Warmup   string `json:"warmup_status"`
	Provider string `json:"provider"`
	Created  string `json:"timestamp_created"`
	Updated  string `json:"timestamp_updated"`
	Payload  struct {
		Name struct {
			First string `json:"first_name"`
			Last  string `json:"last_name"`
		} `json:"name"`
		DailyLimit int      `json:"daily_limit"`
		SendingGap int      `json:"sending_gap"`
		Signature  string   `json:"signature"`
		Tags       []string `json:"tags"`
	} `json:"payload"`
}

// behaviour has the settings of POST /_control/behaviour.
type behaviour struct {
	// ListLagMS is how many milliseconds an account is invisible after its first sign-in.
	ListLagMS int `json:"list_lag_ms"`
	// BadKey is the status of the answer to an unknown key: 401, 403 or 200.
	BadKey int `json:"bad_key"`
	// DeletePath is the path of the call that deletes an account. With a value other than
	// deletePath, accounts cannot be deleted.
	DeletePath string `json:"delete_path"`
	// LinkAt is the path of the JSON member with the link in the answer to the start of a sign-in,
	// such as data.url. If LinkTo is not empty, it is the link in the answer, instead of a link to
	// the simulator's own page.
	LinkAt string `json:"link_at"`
	LinkTo string `json:"link_to"`
	// IgnoreSkip makes the simulator answer with the first page for every value of skip.
	IgnoreSkip bool `json:"ignore_skip"`
}

// setBehaviour changes the settings that the body of the control call contains.
func setBehaviour(req *request) (any, error) {
	settings := &req.State.Vendor
	if err := req.Read(settings); err != nil {
		return nil, err
	}
	if settings.LinkAt == "" {
		return nil, simulate.BadRequest("link_at must be a path such as data.url")
	}
	return nil, simulate.OneOf("bad_key", settings.BadKey, 200, 401, 403)
}

// refuse returns an error. PlusVibe does not document its form.
func refuse(status int, message string) simulate.Answer {
	return simulate.Answer{Status: status, Body: map[string]string{"status": "error", "message": message}}
}

func notFound(req *request) simulate.Answer {
	return refuse(http.StatusNotFound, "Cannot "+req.HTTP.Method+" "+req.HTTP.URL.Path)
}

// refusePartner refuses a partner call with status 200 and code 0, because the documented answers
// to partners have a code.
func refusePartner(message string) simulate.Answer {
	return simulate.OK(map[string]any{"code": 0, "message": message})
}

// login is the body of every partner call.
type login struct {
	Flow      string `json:"flow"`
	Username  string `json:"pipl_username"`
	Password  string `json:"pipl_password"`
	Workspace string `json:"workspace_id"`
}

// admit accepts a known key, or the login of a partner for partner calls. It refuses an unknown key
// with the status in BadKey.
func admit(req *request) simulate.Answer {
	switch known := false; {
	case req.Route == nil:
		return simulate.Answer{}
	case req.Route.Scope == partner:
		return admitPartner(req)
	default:
		if req.Key, known = req.State.Keys[req.HTTP.Header.Get("X-Api-Key")]; !known {
			return refuse(req.State.Vendor.BadKey, "Invalid API key")
		}
		return simulate.Answer{}
	}
}

func admitPartner(req *request) simulate.Answer {
	var body login
	if req.Decode(&body) != nil || body.Flow != "app_user" {
		return refusePartner("flow must be app_user")
	}
	for _, c := range req.State.Keys {
		if c.Password != "" && c.Username == body.Username && c.Password == body.Password {
			req.Key, req.Workspace = c, body.Workspace
			return simulate.Answer{}
		}
	}
	return refusePartner("Invalid username or password")
}

func authenticate(req *request) simulate.Answer {
	return simulate.OK(map[string]any{"status": "success", "workspaces": req.Key.workspaceDocs()})
}

func partnerWorkspaces(req *request) simulate.Answer {
	return simulate.OK(map[string]any{"code": 1, "message": "success", "data": req.Key.workspaceDocs()})
}

// listAccounts answers with a page of accounts. The parameter "email" matches parts of addresses.
func listAccounts(req *request) simulate.Answer {
	skip, skipIsValid := req.Number("skip", 0)
	limit, limitIsValid := req.Number("limit", 100)
	switch {
	case !req.Key.hasAccessTo(req.Query("workspace_id")):
		return refuse(http.StatusBadRequest, "Invalid workspace_id")
	case !skipIsValid, !limitIsValid, limit < 1, limit > 1000:
		return refuse(http.StatusBadRequest, "Invalid paging")
	}
	if req.State.Vendor.IgnoreSkip {
		skip = 0
	}
	var found []*account
	for _, a := range req.Visible(req.Query("workspace_id")) {
		if strings.Contains(strings.ToLower(a.Email), strings.ToLower(req.Query("email"))) {
			found = append(found, a)
		}
	}
	return simulate.OK(map[string]any{"accounts": simulate.Slice(found, skip, limit)})
}

func deleteAccount(req *request) simulate.Answer {
	var body struct {
		Workspace string `json:"workspace_id"`
		Email     string `json:"email"`
	}
	switch {
	case req.State.Vendor.DeletePath != deletePath:
		return notFound(req)
	case req.Decode(&body) != nil || !req.Key.hasAccessTo(body.Workspace):
		return refuse(http.StatusBadRequest, "Invalid workspace_id")
	case !req.State.Remove(body.Workspace, body.Email):
		return refuse(http.StatusNotFound, "Email account not found")
	}
	return simulate.OK(map[string]string{"status": "success"})
}

// startOAuth answers with a sign-in link, in the JSON member that LinkAt names. PlusVibe does not
// document how long the link is valid.
func startOAuth(req *request) simulate.Answer {
	if !req.Key.hasAccessTo(req.Workspace) {
		return refusePartner("Invalid workspace_id")
	}
	_, link := req.StartSignIn(req.Workspace, 10*time.Minute)
	var doc any = cmp.Or(req.State.Vendor.LinkTo, link)
	path := strings.Split(req.State.Vendor.LinkAt, ".")
	for _, name := range slices.Backward(path) {
		doc = map[string]any{name: doc}
	}
	answer := doc.(map[string]any)
	answer["code"], answer["message"] = 1, "success"
	return simulate.OK(answer)
}

// signedIn connects the account of the mailbox that has signed in.
func signedIn(req *request, workspace, address string) {
	a := req.Account(workspace, address, time.Duration(req.State.Vendor.ListLagMS)*time.Millisecond)
	a.Status, a.Provider = "ACTIVE", "MICROSOFT365"
	a.Payload.Name.First, a.Payload.Name.Last, _ = strings.Cut(simulate.DisplayName(address), " ")
}
