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

// This file contains guesses about behavior that SalesBlink does not document and that was not
// tested with a real key. The README lists these guesses and the assumptions in other files.

// The possible names of JSON members.
var (
	senderLists  = []string{"senders", "items", "accounts"} // in a folder or in the data
	idNames      = []string{"id", "_id", "sender_id"}
	addressNames = []string{"from_email", "email", "email_address"}
	nameNames    = []string{"from_name", "name"}
	statusNames  = []string{"status", "state"}
	failureNames = []string{"failed", "is_failed", "error", "last_error"} // see hasValue
	changeNames  = []string{"updated_at", "updatedAt", "connected_at", "connectedAt"}

	workspaceIDs   = []string{"id", "_id", "workspace_id"}
	workspaceNames = []string{"name", "workspace_name"}
	workspaceLists = []string{"workspaces"} // used if the data is not a list itself
)

// classification is the meaning of a sender's status.
type classification struct {
	state  sdk.AccountState
	paused bool
}

// statuses maps the assumed statuses of a sender, in lower case, to their meaning. "" stands for a
// sender without a status.
var statuses = map[string]classification{
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

// inWorkspace adds the workspace of the connection to a request: to the query of a GET, and to the
// body of other methods. It returns the query and the body. The body is nil if the request has
// none.
func (p *platform) inWorkspace(method string, query url.Values) (url.Values, any) {
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

// members maps the names of a JSON object's members to their values.
type members map[string]json.RawMessage

// text returns the value of the first of these members that is a non-empty string or a number, or
// "".
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

// list returns the value of the first of these members that is an array.
func (m members) list(names []string) ([]json.RawMessage, bool) {
	for _, name := range names {
		var entries []json.RawMessage
		if json.Unmarshal(m[name], &entries) == nil && entries != nil {
			return entries, true
		}
	}
	return nil, false
}

// hasValue reports whether one of these members exists and is not null, false, zero or empty.
func (m members) hasValue(names []string) bool {
	for _, name := range names {
		switch strings.TrimSpace(cmp.Or(string(m[name]), "null")) {
		case "null", "false", `""`, "0", "{}", "[]":
		default:
			return true
		}
	}
	return false
}
