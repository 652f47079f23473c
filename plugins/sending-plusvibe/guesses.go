// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// This file holds what PlusVibe does not document and what was not tested with a real key. The
// README lists it. A correction changes only this file.

// deletePath is the path of a POST with {"workspace_id", "email"}. PlusVibe documents that accounts
// can be deleted, but neither the path nor the body.
const deletePath = "/account/delete"

// linkPaths are the places in the JSON answer to the start of a sign-in that may have the link.
// Each place is a path of member names. PlusVibe documents only the form of a related call:
// {"code": 1, "message": ...}.
var linkPaths = [][]string{{"data", "url"}, {"data", "auth_url"}, {"url"}, {"auth_url"}, {"oauth_url"}}

// classification is what a status of an account means.
type classification struct {
	state  sdk.AccountState
	paused bool
}

// statuses are the known statuses of an account. Only ACTIVE was observed.
var statuses = map[string]classification{
	"ACTIVE":       {state: sdk.AccountConnected},
	"INACTIVE":     {state: sdk.AccountConnected, paused: true},
	"PAUSED":       {state: sdk.AccountConnected, paused: true},
	"ERROR":        {state: sdk.AccountFailed},
	"DISCONNECTED": {state: sdk.AccountFailed},
	"FAILED":       {state: sdk.AccountFailed},
	"PENDING":      {state: sdk.AccountPending},
	"CONNECTING":   {state: sdk.AccountPending},
}

// failedSuffix is the end of a status that names the protocol that failed, such as SMTP_ERROR.
const failedSuffix = "_ERROR"

// classify returns what a status means. known is false for a status that is not in statuses and
// does not end in failedSuffix.
func classify(status string) (s classification, known bool) {
	status = strings.ToUpper(strings.TrimSpace(status))
	if s, known = statuses[status]; known {
		return s, true
	}
	if strings.HasSuffix(status, failedSuffix) {
		return classification{state: sdk.AccountFailed}, true
	}
	return classification{state: sdk.AccountOther}, false
}
