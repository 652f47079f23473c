// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// This file contains guesses about behavior that PlusVibe does not document and that was not
// tested with a real key. The README lists these guesses and the assumptions in other files.

// deletePath is the path of a POST with {"workspace_id", "email"}. PlusVibe documents that accounts
// can be deleted, but neither the path nor the body.
const deletePath = "/account/delete"

// linkPaths are the paths at which the link may be in the JSON answer to the start of a sign-in.
// Each path consists of member names. PlusVibe documents only the form of the answer to a related
// call: {"code": 1, "message": ...}.
var linkPaths = [][]string{{"data", "url"}, {"data", "auth_url"}, {"url"}, {"auth_url"}, {"oauth_url"}}

// classification is the meaning of an account's status.
type classification struct {
	state  sdk.AccountState
	paused bool
}

// statuses maps the known statuses of an account to their meaning. All statuses except ACTIVE are
// assumed.
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

// failedSuffix is the end of a status such as SMTP_ERROR, which means that the connection by that
// protocol has failed.
const failedSuffix = "_ERROR"

// classify returns the meaning of a status. known is false if the status is not in statuses and
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
