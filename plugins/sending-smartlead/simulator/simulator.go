// SPDX-License-Identifier: Apache-2.0

// Package simulator simulates the part of Smartlead's API that concerns mail accounts. It has the
// error formats, the rate limits and the dashboard page on which people connect mailboxes. New is
// the entry point. The variable platform is a simulate.Platform, which lists the routes and the
// other properties of the API.
//
//   - simulator.go: the variable platform, the state, the check of keys and rate limits, and
//     the error formats.
//   - accounts.go: the accounts and the operations of the API.
//   - suite.go: the variable suite, which describes the simulator to the conformance suite.
package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

const (
	prefix      = "/api/v1"
	connectPath = "/dashboard/email-accounts/connect"
	// Key is the API key of the sandbox. It belongs to the user FirstUser.
	Key       = "5f3c1a90-7d1e-4b7a-9c55-simulated_x1y2z3a"
	FirstUser = 4001
)

type (
	route   = simulate.Route[keyOwner, account, vendorState]
	request = simulate.Request[keyOwner, account, vendorState]
	state   = simulate.State[keyOwner, account, vendorState]
)

var platform = simulate.Platform[keyOwner, account, vendorState]{
	Name: "smartlead", Title: "Smartlead", Prefix: prefix, TrailingSlash: true, Workspace: strconv.Itoa(FirstUser),
	Fresh: func(time.Time) state {
		return state{Serial: 139918, Keys: map[string]keyOwner{Key: {UserID: FirstUser}}, Vendor: vendorState{Plan: "standard"}}
	},
	Ready: func(url, _ string) simulate.Ready {
		return simulate.Ready{
			Settings: map[string]string{"base_url": url + prefix},
			Secrets:  map[string]string{"api_key": Key}, Sending: &simulate.Sending{APIKey: Key},
		}
	},
	Suite: suite,
	Admit: admit,
	Routes: []route{
		{On: "GET /email-accounts", Name: "listAccounts", Serve: listAccounts},
		{On: "GET /email-accounts/{id}", Name: "getAccount", Serve: getAccount},
		{On: "DELETE /email-accounts/{id}", Name: "deleteAccount", Serve: deleteAccount},
		{On: "PUT /email-accounts/suspend/{id}", Name: "suspendAccount", Serve: setSuspended},
		{On: "DELETE /email-accounts/unsuspend/{id}", Name: "unsuspendAccount", Serve: setSuspended},
		{On: "POST /email-accounts/save-oauth", Name: "saveOAuth", Serve: saveOAuth},
		{On: "GET /client", Name: "listClients", Serve: listClients},
	},
	NotFound:     func(*request) simulate.Answer { return errorAnswer(http.StatusNotFound, "Not Found") },
	PlannedFault: plannedFault,
	NewKey:       func() keyOwner { return keyOwner{UserID: FirstUser} },
	NewAccount:   newAccount,
	Touch:        func(a *account, now time.Time) { a.Updated = simulate.FormatTime(now) },
	WorkspaceOf:  func(a *account) int { return a.UserID },
	Page:         simulate.Page{Path: connectPath, Operation: "dashboard", Workspace: strconv.Itoa(FirstUser)},
	SignedIn:     func(req *request, user, address string) { attach(req, user, address) },
	Controls: map[string]func(*request) (any, error){
		"PUT /keys/{key}": (*request).PutKey,
		"PUT /clients": func(req *request) (any, error) {
			req.State.Vendor.Clients = nil
			err := req.Read(&req.State.Vendor.Clients)
			for i, c := range req.State.Vendor.Clients {
				if c.UserID == 0 {
					req.State.Vendor.Clients[i].UserID = FirstUser
				}
			}
			return nil, err
		},
		"PUT /plan": func(req *request) (any, error) {
			var body struct {
				Plan string `json:"plan"`
			}
			err := req.Read(&body)
			req.State.Vendor.Plan = body.Plan
			return nil, cmp.Or(err, simulate.OneOf("plan", body.Plan, "standard", "pro", "enterprise"))
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

// keyOwner is the user of an API key.
type keyOwner struct {
	UserID  int  `json:"user_id"`
	Revoked bool `json:"revoked"`
}

// vendorState is the part of the simulator's state that is specific to Smartlead.
type vendorState struct {
	Clients []client `json:"clients"`
	Quirks  quirks   `json:"quirks"`
	Plan    string   `json:"plan"`
}

// client is a client of an agency.
type client struct {
	ID      int    `json:"id"`
	Name    string `json:"name"`
	Email   string `json:"email"`
	Created string `json:"created_at"`
	UserID  int    `json:"user_id"`
}

// quirks are properties of Smartlead that differ from its documentation.
type quirks struct {
	NumbersAsStrings bool `json:"numbers_as_strings"`
	Envelope         bool `json:"envelope"`         // lists have the form {"success": true, "data": […]}
	LagSeconds       int  `json:"lag_seconds"`      // how many seconds a new account is missing from lists
	ErrorOnSuccess   bool `json:"error_on_success"` // every answer to an accepted request is an error with status 200
}

// plans maps each plan to the published limits of a key: per minute, per hour and per second. The
// headers of an answer show the limit per minute. The plan enterprise has no limits here, because
// Smartlead agrees them with each customer.
var plans = map[string][]simulate.Rate{
	"standard":   {{Calls: 60, Window: time.Minute}, {Calls: 1000, Window: time.Hour}, {Calls: 10, Window: time.Second}},
	"pro":        {{Calls: 120, Window: time.Minute}, {Calls: 3000, Window: time.Hour}, {Calls: 20, Window: time.Second}},
	"enterprise": nil,
}

// admit accepts a request whose query contains a known key, if the key has not exceeded the limits
// of its plan.
func admit(req *request) simulate.Answer {
	text, plan := req.Query("api_key"), plans[req.State.Vendor.Plan]
	owner, known := req.State.Keys[text]
	if !known || owner.Revoked {
		return errorAnswer(http.StatusUnauthorized, "Invalid API Key")
	}
	req.Key, req.Workspace = owner, strconv.Itoa(owner.UserID)
	now := time.Now()
	usage := req.Count(text, now, plan...)
	if len(plan) > 0 {
		req.Header.Set("X-RateLimit-Limit", strconv.Itoa(plan[0].Calls))
		req.Header.Set("X-RateLimit-Remaining", strconv.Itoa(usage.Left))
		req.Header.Set("X-RateLimit-Reset", strconv.FormatInt(now.Add(usage.Reset).Unix(), 10))
	}
	switch {
	case usage.Wait > 0:
		return tooManyRequests(req.RetryAfter(usage.Wait))
	case req.State.Vendor.Quirks.ErrorOnSuccess:
		return errorWithCode(http.StatusOK, "INTERNAL_ERROR", "Something went wrong")
	}
	return simulate.Answer{}
}

// errorAnswer returns an error in the format that Smartlead uses most.
func errorAnswer(status int, message string) simulate.Answer {
	return simulate.Answer{Status: status, Body: map[string]any{"message": message}}
}

// errorWithCode returns an error in the format with an error code.
func errorWithCode(status int, code, message string) simulate.Answer {
	return simulate.Answer{Status: status, Body: map[string]any{"success": false, "error": map[string]string{"code": code, "message": message}}}
}

// badRequest returns the error for an invalid parameter, or for a body that is not JSON.
func badRequest(message string) simulate.Answer {
	return simulate.Answer{Status: http.StatusBadRequest, Body: map[string]string{"error": "Bad Request", "message": message}}
}

// invalidValue returns the error for a body with a missing or invalid field.
func invalidValue(message string) simulate.Answer {
	return simulate.Answer{Status: http.StatusUnprocessableEntity, Body: map[string]any{"error": message}}
}

func tooManyRequests(seconds int) simulate.Answer {
	return simulate.Answer{Status: http.StatusTooManyRequests, Body: map[string]any{"error": map[string]any{
		"code": "RATE_LIMIT_EXCEEDED", "message": fmt.Sprintf("Rate limit exceeded. Try again in %d seconds", seconds), "retry_after": seconds,
	}}}
}

func plannedFault(status, retryAfter int) simulate.Answer {
	switch {
	case status == http.StatusTooManyRequests && retryAfter > 0:
		return tooManyRequests(retryAfter)
	case status == http.StatusTooManyRequests:
		return simulate.Answer{Status: status, Body: map[string]any{"error": map[string]any{"code": "RATE_LIMIT_EXCEEDED", "message": "Rate limit exceeded", "retry_after": 30}}}
	case status == http.StatusBadRequest:
		return badRequest("the request is invalid")
	case status == http.StatusUnprocessableEntity:
		return invalidValue("a field is invalid")
	case status >= http.StatusInternalServerError:
		return errorWithCode(status, "INTERNAL_ERROR", http.StatusText(status))
	}
	return errorAnswer(status, http.StatusText(status))
}
