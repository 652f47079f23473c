// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of SalesBlink's API that concerns mailboxes: API keys,
// workspaces, senders in folders, and the start of a Microsoft sign-in. Settings select between
// possible forms of answers that SalesBlink does not document. New is the entry point. The variable
// platform is a simulate.Platform, which lists the routes and the other properties of the API.
package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// Key is the API key of an owner with one workspace.
const Key = "key-simulated-salesblink"

var firstWorkspace = simulate.Workspace{ID: "5b1e0000-0000-4000-8000-000000000001", Name: "Example Outreach"}

type (
	route   = simulate.Route[customer, sender, behaviour]
	request = simulate.Request[customer, sender, behaviour]
	state   = simulate.State[customer, sender, behaviour]
)

var platform = simulate.Platform[customer, sender, behaviour]{
	Name: "salesblink", Title: "SalesBlink", Prefix: "/api/public/v1.0.0", Workspace: firstWorkspace.ID,
	Fresh: func(time.Time) state {
		return state{
			Keys:   map[string]customer{Key: {[]simulate.Workspace{firstWorkspace}, "owner"}},
			Vendor: behaviour{Skip: "offset", PastEnd: "empty", Shape: "grouped", Search: true, Limits: true},
		}
	},
	Ready: func(url, host string) simulate.Ready {
		return simulate.Ready{
			Settings: map[string]string{"base_url": url + "/api/public/v1.0.0", "auth_hosts": host},
			Secrets:  map[string]string{"api_key": Key}, Sending: &simulate.Sending{APIKey: Key},
		}
	},
	Suite: suite,
	Admit: admit,
	Routes: []route{
		{On: "GET /workspaces", Name: "check", Serve: listWorkspaces},
		{On: "GET /senders?skip&search", Name: "account", Serve: listSenders},
		{On: "GET /senders?skip", Name: "accounts", Serve: listSenders},
		{On: "GET /senders", Name: "check", Serve: listSenders},
		{On: "POST /oauth/outlook", Name: "start_sign_in", Serve: startOAuth},
	},
	NotFound:     func(*request) simulate.Answer { return refuse(http.StatusNotFound, "Not found") },
	PlannedFault: func(status, _ int) simulate.Answer { return refuse(status, http.StatusText(status)) },
	NewAccount: func(req *request, _, address string) sender {
		now := simulate.FormatTime(req.Now)
		return sender{ID: nextID(req), Email: address, Status: "active", Provider: "outlook", Folder: "Default", Created: now, Updated: now}
	},
	Touch:    func(a *sender, now time.Time) { a.Updated = simulate.NextStamp(a.Updated, now) },
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

// customer is the owner of an API key.
type customer struct {
	Workspaces []simulate.Workspace `json:"workspaces"` // the first is the default
	Role       string               `json:"role"`       // only "owner" may list workspaces
}

// sender is an account in the format of the API. SalesBlink does not document the names of its JSON
// members.
type sender struct {
	ID       string  `json:"id"`
	Email    string  `json:"from_email"`
	Name     string  `json:"from_name"`
	Status   string  `json:"status"`
	Error    *string `json:"error"`
	Provider string  `json:"provider"`
	Folder   string  `json:"folder"`
	Created  string  `json:"created_at"`
	Updated  string  `json:"updated_at"`
}

// behaviour has the settings of POST /_control/behaviour.
type behaviour struct {
	ListLagMS int    `json:"list_lag_ms"` // how many milliseconds a sender is invisible after its first sign-in
	Skip      string `json:"skip"`        // the meaning of the parameter skip: offset, page or ignored
	PastEnd   string `json:"past_end"`    // the answer after the last page: "empty", or "repeat" for the last page again
	Shape     string `json:"shape"`       // the form of a list: grouped, folders or flat (see format)
	Search    bool   `json:"search"`      // whether the parameter search has an effect
	LinkTo    string `json:"link_to"`     // the sign-in link, empty for the simulator's own page
	Limits    bool   `json:"limits"`      // whether the rate limits apply
}

// setBehaviour changes the settings that the body of the control call contains.
func setBehaviour(req *request) (any, error) {
	settings := &req.State.Vendor
	err := req.Read(settings)
	return nil, cmp.Or(err, simulate.OneOf("skip", settings.Skip, "offset", "page", "ignored"),
		simulate.OneOf("past_end", settings.PastEnd, "empty", "repeat"), simulate.OneOf("shape", settings.Shape, "grouped", "folders", "flat"))
}

// refuse returns an error in SalesBlink's envelope.
func refuse(status int, message string) simulate.Answer {
	return simulate.Answer{Status: status, Body: map[string]any{"success": false, "message": message}}
}

// dataAnswer returns an answer in SalesBlink's envelope.
func dataAnswer(v any) simulate.Answer {
	return simulate.OK(map[string]any{"success": true, "data": v})
}

// admit accepts a known key that has not exceeded its limits, 30 reads and 15 writes per minute.
// The value of the header Authorization is only the key, without the word Bearer. The limits use
// the machine's clock, not the clock of the sandbox, which tests and people can move.
func admit(req *request) simulate.Answer {
	key, known := req.HTTP.Header.Get("Authorization"), false
	if req.Key, known = req.State.Keys[key]; !known {
		return refuse(http.StatusUnauthorized, "Invalid API key")
	}
	rate := simulate.Rate{Calls: 15, Window: time.Minute}
	if req.HTTP.Method == http.MethodGet {
		rate.Calls = 30
	}
	if req.State.Vendor.Limits && req.Count(req.HTTP.Method+" "+key, time.Now(), rate).Wait > 0 {
		return refuse(http.StatusTooManyRequests, "Too many requests, wait a minute")
	}
	return simulate.Answer{}
}

// nextID returns a unique id in the form of a version 4 UUID.
func nextID(req *request) string {
	return fmt.Sprintf("5b1e0000-0000-4000-8001-%012x", req.State.NextSerial())
}

func listWorkspaces(req *request) simulate.Answer {
	if req.Key.Role != "owner" {
		return refuse(http.StatusForbidden, "Only the owner can list workspaces")
	}
	return dataAnswer(append([]simulate.Workspace{}, req.Key.Workspaces...))
}

// workspaceOf returns the id of the workspace that the query of a GET or the body of a POST names.
// If the request names no workspace, it returns the id of the key's default workspace. It returns
// "" if the key has no access to the workspace.
func workspaceOf(req *request) string {
	body := struct {
		Workspace string `json:"workspace_id"`
	}{req.Query("workspace_id")}
	if req.HTTP.Method != http.MethodGet {
		body.Workspace = ""
		_ = req.Decode(&body) // the body may be empty
	}
	for _, workspace := range req.Key.Workspaces {
		if body.Workspace == "" || body.Workspace == workspace.ID {
			return workspace.ID
		}
	}
	return ""
}

// refuseWorkspace returns the answer for a workspace to which the key has no access. Its status is
// 200.
func refuseWorkspace() simulate.Answer { return refuse(http.StatusOK, "Workspace not found") }

// listSenders answers with a page of senders, sorted by folder.
func listSenders(req *request) simulate.Answer {
	workspace, settings := workspaceOf(req), req.State.Vendor
	if workspace == "" {
		return refuseWorkspace()
	}
	skip, skipIsValid := req.Number("skip", 0)
	limit, limitIsValid := req.Number("limit", 20)
	if !skipIsValid || !limitIsValid || limit < 1 || limit > 100 {
		return refuse(http.StatusBadRequest, "skip must be a number, and limit must be between 1 and 100")
	}
	var found []*sender
	for _, a := range req.Visible(workspace) {
		if !settings.Search || strings.Contains(strings.ToLower(a.Email), strings.ToLower(req.Query("search"))) {
			found = append(found, a)
		}
	}
	slices.SortStableFunc(found, func(a, b *sender) int { return strings.Compare(a.Folder, b.Folder) })
	return dataAnswer(settings.format(settings.slicePage(found, skip, limit)))
}

func (b behaviour) slicePage(senders []*sender, skip, limit int) []*sender {
	switch b.Skip {
	case "page":
		skip *= limit
	case "ignored":
		skip = 0
	}
	if skip >= len(senders) && len(senders) > 0 && b.PastEnd == "repeat" {
		skip = (len(senders) - 1) / limit * limit
	}
	return simulate.Slice(senders, skip, limit)
}

// format returns a page in the form that the setting Shape selects. grouped is a list of folders
// with their senders. folders is an object with a list for each folder. flat is a list of senders.
func (b behaviour) format(page []*sender) any {
	folders := map[string][]*sender{}
	groups := []map[string]any{}
	for _, a := range page {
		folders[a.Folder] = append(folders[a.Folder], a)
	}
	switch b.Shape {
	case "flat":
		return page
	case "folders":
		return folders
	}
	for i, a := range page { // the page is sorted by folder
		if i == 0 || page[i-1].Folder != a.Folder {
			groups = append(groups, map[string]any{"folder": map[string]string{"name": a.Folder}, "senders": folders[a.Folder]})
		}
	}
	return groups
}

// startOAuth answers with a sign-in link. SalesBlink does not document how long the link is valid.
func startOAuth(req *request) simulate.Answer {
	workspace := workspaceOf(req)
	if workspace == "" {
		return refuseWorkspace()
	}
	_, link := req.StartSignIn(workspace, 10*time.Minute)
	return dataAnswer(map[string]string{"auth_url": cmp.Or(req.State.Vendor.LinkTo, link)})
}

// signedIn connects the sender of the mailbox that has signed in.
func signedIn(req *request, workspace, address string) {
	a := req.Account(workspace, address, time.Duration(req.State.Vendor.ListLagMS)*time.Millisecond)
	a.Name, a.Status, a.Error, a.Provider = simulate.DisplayName(address), "active", nil, "outlook"
}
