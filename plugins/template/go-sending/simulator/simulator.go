// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the API of the sending platform Example. Replace its routes and
// documents by the routes and documents of the real API. The tests of the plugin show what else
// must change.
package simulator

import (
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	prefix       = "/v1"
	workspace    = "ws-1"
	pageSize     = 100
	linkLifetime = 10 * time.Minute
	// Key is the key of the simulated customer.
	Key = "simulated-key-of-example"
)

type (
	request = simulate.Request[key, account, struct{}]
	state   = simulate.State[key, account, struct{}]
	route   = simulate.Route[key, account, struct{}]
)

// key is an API key as the platform stores it. PUT /_control/keys/{key} creates a key.
type key struct {
	Workspaces []simulate.Workspace `json:"workspaces"` // the first is the default
	Unpaid     bool                 `json:"unpaid"`     // the plan has ended
}

// The JSON documents of the API.
type (
	account struct {
		ID       string `json:"id"`
		Address  string `json:"address"`
		Name     string `json:"name"`
		State    string `json:"state"`
		Revision int    `json:"revision"`
	}
	link struct {
		ID      string    `json:"id"`
		URL     string    `json:"url"`
		State   string    `json:"state"`
		Address string    `json:"address"`
		Until   time.Time `json:"until"`
	}
)

var defaultWorkspaces = []simulate.Workspace{{ID: workspace, Name: "Workspace"}}

var platform = simulate.Platform[key, account, struct{}]{
	Name: "example", Title: "Example", Prefix: prefix, Workspace: workspace,
	Fresh: func(time.Time) state { return state{Keys: map[string]key{Key: {Workspaces: defaultWorkspaces}}} },
	Ready: func(url, host string) simulate.Ready {
		return simulate.Ready{
			Settings: map[string]string{"base_url": url + prefix, "auth_hosts": "login.example.com, " + host},
			Secrets:  map[string]string{"api_key": Key}, Sending: &simulate.Sending{APIKey: Key},
		}
	},
	// Suite tells the conformance suite how to use this simulator.
	Suite: simulate.Suite{
		Address: "address", Name: map[string]any{"name": "$name"},
		States: []simulate.SuiteState{
			{State: "connected", Members: map[string]any{"state": "ok"}},
			{State: "failed", HasError: true, Members: map[string]any{"state": "failed"}},
			{State: "other", Members: map[string]any{"state": "strange"}},
		},
		Sessions: true, Declines: true,
		Expire: &simulate.SuiteCall{Method: http.MethodPost, Path: "/links/$session/expire"},
		Unpaid: &simulate.SuiteCall{Method: http.MethodPut, Path: "/keys/" + Key, Body: key{Workspaces: defaultWorkspaces, Unpaid: true}},
		Workspaces: &simulate.SuiteWorkspaces{
			ID:     "ws-%d",
			Calls:  []simulate.SuiteCall{{Method: http.MethodPut, Path: "/keys/key-reaching", Body: map[string]any{"workspaces": "$workspaces"}}},
			Values: map[string]string{"api_key": "key-reaching"},
		},
	},
	Admit: admit,
	Routes: []route{
		{On: "GET /workspaces", Name: "list_workspaces", Serve: func(q *request) simulate.Answer {
			return simulate.OK(map[string]any{"workspaces": q.Key.Workspaces})
		}},
		{On: "GET /accounts", Name: "list_accounts", Serve: listAccounts},
		{On: "DELETE /accounts/{id}", Name: "delete_account", Serve: func(q *request) simulate.Answer {
			if !q.State.Remove(q.Workspace, q.Path("id")) {
				return refuse(http.StatusNotFound)
			}
			return simulate.OK(map[string]bool{"removed": true})
		}},
		{On: "POST /links", Name: "create_link", Serve: func(q *request) simulate.Answer {
			id, url := q.StartSignIn(q.Workspace, linkLifetime)
			q.State.SignIns[id].ID = id
			return simulate.OK(link{ID: id, URL: url, State: "pending", Until: q.State.SignIns[id].ExpiresAt})
		}},
		{On: "GET /links/{id}", Name: "get_link", Serve: getLink},
	},
	NotFound:     func(*request) simulate.Answer { return refuse(http.StatusNotFound) },
	PlannedFault: func(status, _ int) simulate.Answer { return refuse(status) },
	NewAccount: func(_ *request, _, address string) account {
		return account{ID: strings.ToLower(address), Address: address, Name: simulate.DisplayName(address), State: "ok"}
	},
	Touch:    func(a *account, _ time.Time) { a.Revision++ },
	Page:     simulate.Page{Path: "/authorize", Operation: "authorize"},
	SignedIn: func(q *request, workspace, address string) { q.Account(workspace, address, 0).State = "ok" },
	Controls: map[string]func(*request) (any, error){
		"PUT /keys/{key}": (*request).PutKey,
		"POST /links/{id}/expire": func(q *request) (any, error) {
			signIn := q.State.SignIns[q.Path("id")]
			if signIn == nil {
				return nil, simulate.NotFound("no such link")
			}
			signIn.ExpiresAt = q.Now
			return nil, nil
		},
	},
}

// New returns the handler of the simulator, and the line that the simulator prints when it is
// ready. It fails if the data folder cannot be used, or if options.URL is invalid.
func New(options simulate.Options) (http.Handler, simulate.Ready, error) {
	return platform.Open(options)
}

// admit checks the key, and selects the workspace in the header X-Workspace or the default
// workspace.
func admit(req *request) simulate.Answer {
	isKnown := false
	if req.Key, isKnown = req.State.Keys[strings.TrimPrefix(req.HTTP.Header.Get("Authorization"), "Bearer ")]; !isKnown {
		return refuse(http.StatusUnauthorized)
	}
	if req.Key.Unpaid {
		return refuse(http.StatusPaymentRequired)
	}
	requested := req.HTTP.Header.Get("X-Workspace")
	for _, w := range req.Key.Workspaces {
		if requested == "" || requested == w.ID {
			req.Workspace = w.ID
			return simulate.Answer{}
		}
	}
	if requested == "" && req.HTTP.URL.Path == prefix+"/workspaces" {
		return simulate.Answer{} // a key without a workspace
	}
	return refuse(http.StatusForbidden)
}

func refuse(status int) simulate.Answer {
	return simulate.Answer{Status: status, Body: map[string]string{"error": http.StatusText(status)}}
}

// listAccounts answers with one page. With the parameter `like`, it lists only the accounts whose
// address contains this text.
func listAccounts(req *request) simulate.Answer {
	var found []*account
	for _, a := range req.Visible(req.Workspace) {
		if strings.Contains(strings.ToLower(a.Address), strings.ToLower(req.Query("like"))) {
			found = append(found, a)
		}
	}
	page, pageIsValid := req.Number("page", 0)
	if !pageIsValid {
		return refuse(http.StatusBadRequest)
	}
	return simulate.OK(map[string]any{
		"page": page, "accounts": simulate.Slice(found, page*pageSize, pageSize), "more": (page+1)*pageSize < len(found),
	})
}

func getLink(req *request) simulate.Answer {
	signIn := req.State.SignIns[req.Path("id")]
	if signIn == nil {
		return refuse(http.StatusNotFound)
	}
	doc := link{ID: req.Path("id"), State: "expired", Address: signIn.Address, Until: signIn.ExpiresAt}
	switch {
	case signIn.Open(req.Now):
		doc.State = "pending"
	case signIn.Used && signIn.Address == "":
		doc.State = "denied"
	case signIn.Used:
		doc.State = "done"
	}
	return simulate.OK(doc)
}
