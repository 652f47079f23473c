// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// What SalesBlink's guide does not say, and nobody has tried with a real key yet.
// All of it is here, so that who has tried changes one file; the README lists it.

// The names that a member may have; the first that is there counts.
var (
	groupNames   = []string{"senders", "items", "accounts"} // of a folder, or of the data
	idNames      = []string{"id", "_id", "sender_id"}
	addressNames = []string{"from_email", "email", "email_address"}
	nameNames    = []string{"from_name", "name"}
	statusNames  = []string{"status", "state"}
	failureNames = []string{"failed", "is_failed", "error", "last_error"} // true, or a text
	changeNames  = []string{"updated_at", "updatedAt", "connected_at", "connectedAt"}

	workspaceIDs   = []string{"id", "_id", "workspace_id"}
	workspaceNames = []string{"name", "workspace_name"}
	workspaceLists = []string{"workspaces"} // unless the data is the list
)

// standing is what a status of a sender means.
type standing struct {
	state  sdk.AccountState
	paused bool
}

// statuses are those that a sender may have, in lower case.
var statuses = map[string]standing{
	"":             {state: sdk.AccountConnected},
	"active":       {state: sdk.AccountConnected},
	"connected":    {state: sdk.AccountConnected},
	"paused":       {state: sdk.AccountConnected, paused: true},
	"inactive":     {state: sdk.AccountConnected, paused: true},
	"pending":      {state: sdk.AccountPending},
	"connecting":   {state: sdk.AccountPending},
	"failed":       {state: sdk.AccountFailed},
	"error":        {state: sdk.AccountFailed},
	"disconnected": {state: sdk.AccountFailed},
}

// inWorkspace puts the workspace where SalesBlink may look for it: into the
// query of a GET, and into the body otherwise.
func (p *provider) inWorkspace(method string, query url.Values) (url.Values, any) {
	switch {
	case p.workspace == "":
		return query, nil
	case method != http.MethodGet:
		return query, map[string]string{"workspace_id": p.workspace}
	}
	if query == nil {
		query = url.Values{}
	}
	query.Set("workspace_id", p.workspace)
	return query, nil
}

// members are those of a JSON object.
type members map[string]json.RawMessage

// text is the first of the members that is there, as a text.
func (m members) text(names []string) string {
	for _, name := range names {
		var text string
		var number json.Number
		switch raw := m[name]; {
		case json.Unmarshal(raw, &text) == nil && text != "":
			return strings.TrimSpace(text)
		case json.Unmarshal(raw, &number) == nil && number != "":
			return number.String()
		}
	}
	return ""
}

// list is the first of the members that is a list.
func (m members) list(names []string) ([]json.RawMessage, bool) {
	for _, name := range names {
		var all []json.RawMessage
		if json.Unmarshal(m[name], &all) == nil && all != nil {
			return all, true
		}
	}
	return nil, false
}

// says reports whether one of the members is there and says something.
func (m members) says(names []string) bool {
	for _, name := range names {
		switch strings.TrimSpace(cmp.Or(string(m[name]), "null")) {
		case "null", "false", `""`, "0", "{}", "[]":
		default:
			return true
		}
	}
	return false
}
