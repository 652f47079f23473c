// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// account is an account as the API shows it.
type account struct {
	Email         string `json:"email"`
	Created       string `json:"timestamp_created"`
	Updated       string `json:"timestamp_updated"`
	FirstName     string `json:"first_name"`
	LastName      string `json:"last_name"`
	Organization  string `json:"organization"`
	Status        int    `json:"status"`
	WarmupStatus  int    `json:"warmup_status"`
	ProviderCode  int    `json:"provider_code"`
	SetupPending  bool   `json:"setup_pending"`
	Managed       bool   `json:"is_managed_account"`
	DailyLimit    *int   `json:"daily_limit"`
	AutofixFailed *bool  `json:"autofix_failed"`
}

// newAccount returns an account with the values that Instantly sets. The provider code 3 stands for
// accounts that sign in with Microsoft.
func newAccount(req *request, workspace, address string) account {
	now := simulate.FormatTime(req.Now)
	a := account{Email: address, Created: now, Updated: now, Organization: workspace, Status: 1, ProviderCode: 3, DailyLimit: new(30), AutofixFailed: new(false)}
	a.setName(simulate.DisplayName(address))
	return a
}

func (a *account) setName(name string) { a.FirstName, a.LastName, _ = strings.Cut(name, " ") }

// attach connects an account, or connects it again.
func attach(req *request, workspace, email, name string) {
	workspaceOf(req, workspace)
	a := req.Account(workspace, email, time.Duration(req.State.Vendor.Behaviour.ListLagMS)*time.Millisecond)
	a.setName(name)
	a.Status, a.AutofixFailed, a.SetupPending = 1, new(false), false
}

func currentWorkspace(req *request) simulate.Answer {
	workspace := req.State.Vendor.Workspaces[req.Workspace]
	return simulate.OK(map[string]any{
		"id": req.Workspace, "name": workspace.Name, "owner": "019ffad2-5cac-7fb9-a336-43e00eee8acc",
		"timestamp_created": simulate.FormatTime(workspace.Created), "timestamp_updated": simulate.FormatTime(workspace.Created),
		"plan_id": "pid_hg_v1", "org_logo_url": nil, "org_client_domain": nil,
	})
}

// readListing checks the parameters of a list and returns the limit. problem is the message of a
// 400 answer, or "".
func readListing(query url.Values) (limit int, problem string) {
	for name := range query {
		if !slices.Contains([]string{"limit", "starting_after", "search", "status", "provider_code"}, name) {
			return 0, "querystring/" + name + " is not simulated"
		}
	}
	limit, err := strconv.Atoi(cmp.Or(query.Get("limit"), "10"))
	if err != nil || limit < 1 || limit > 100 {
		return 0, "querystring/limit must be <= 100 and >= 1"
	}
	created, _, _ := strings.Cut(query.Get("starting_after"), "&")
	if _, err := time.Parse(time.RFC3339, created); query.Get("starting_after") != "" && err != nil {
		return 0, "Invalid starting_after"
	}
	return limit, ""
}

func (a *account) matchesFilters(query url.Values) bool {
	status, provider := query.Get("status"), query.Get("provider_code")
	return (status == "" || status == strconv.Itoa(a.Status)) && (provider == "" || provider == strconv.Itoa(a.ProviderCode)) &&
		strings.Contains(strings.ToLower(a.Email), strings.ToLower(query.Get("search")))
}

// isAfter reports whether an account comes after a cursor. Instantly also accepts cursors in an
// older format, which contain only a time.
func (a *account) isAfter(cursor string) bool {
	created, email, hasEmail := strings.Cut(cursor, "&")
	return a.Created > created || hasEmail && a.Created == created && a.Email > email
}

// listAccounts answers with a page of accounts, oldest first. A page with accounts has a cursor,
// except for the last page if behaviour.NoCursor is set.
func listAccounts(req *request) simulate.Answer {
	query, behaviour := req.HTTP.URL.Query(), req.State.Vendor.Behaviour
	limit, problem := readListing(query)
	if problem != "" {
		return refuse(http.StatusBadRequest, problem)
	}
	var found []*account
	for _, a := range req.Visible(req.Workspace) {
		if a.matchesFilters(query) && (behaviour.RepeatPage || a.isAfter(query.Get("starting_after"))) {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b *account) int {
		return cmp.Or(strings.Compare(a.Created, b.Created), strings.Compare(a.Email, b.Email))
	})
	items := simulate.Slice(found, 0, limit)
	doc := map[string]any{"items": items}
	if len(items) > 0 && !(behaviour.NoCursor && len(items) == len(found)) {
		last := items[len(items)-1]
		doc["next_starting_after"] = last.Created + "&" + last.Email
	}
	return simulate.OK(doc)
}

func getAccount(req *request) simulate.Answer {
	for _, a := range req.Visible(req.Workspace) {
		if a.Email == req.Path("email") {
			return simulate.OK(a)
		}
	}
	return refuse(http.StatusNotFound, "Account not found")
}

func deleteAccount(req *request) simulate.Answer {
	a := req.State.Find(req.Workspace, req.Path("email"))
	if a == nil || a.Address != req.Path("email") {
		return refuse(http.StatusNotFound, "Account not found")
	}
	req.State.Remove(a.Workspace, a.Address)
	return simulate.OK(a.Doc)
}

// accountChange is the body, or an element of the body, of a control call that creates or changes
// an account. Missing fields stay unchanged.
type accountChange struct {
	Email         string `json:"email"`
	Name          string `json:"name"`
	Workspace     string `json:"workspace"`
	Status        *int   `json:"status"`
	SetupPending  *bool  `json:"setup_pending"`
	ProviderCode  *int   `json:"provider_code"`
	AutofixFailed *bool  `json:"autofix_failed"`
	// Reconnecting sets autofix_failed to null.
	Reconnecting bool `json:"reconnecting"`
}

// applyTo creates or changes the account in the state.
func (c accountChange) applyTo(req *request) {
	workspace := cmp.Or(c.Workspace, Workspace)
	workspaceOf(req, workspace)
	target := req.Account(workspace, c.Email, 0)
	if c.Name != "" {
		target.setName(c.Name)
	}
	setIfPresent(&target.Status, c.Status)
	setIfPresent(&target.SetupPending, c.SetupPending)
	setIfPresent(&target.ProviderCode, c.ProviderCode)
	if c.AutofixFailed != nil || c.Reconnecting {
		target.AutofixFailed = c.AutofixFailed
	}
}

func setIfPresent[T any](target, value *T) {
	if value != nil {
		*target = *value
	}
}

func putAccount(req *request) (any, error) {
	var c accountChange
	err := req.Read(&c)
	c.Email = req.Path("address")
	c.applyTo(req)
	return nil, err
}

func putAccounts(req *request) (any, error) {
	var list []accountChange
	err := req.Read(&list)
	for _, c := range list {
		c.applyTo(req)
	}
	return nil, err
}
