// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// What PlusVibe's public pages do not say, and nobody has tried with a real key
// yet. All of it is here, so that who has tried changes one file; the README
// lists it.

// deletePath takes {"workspace_id", "email"} by POST. That there is such a call is
// published, its path and body are not.
const deletePath = "/account/delete"

// linkPlaces are where the answer to a sign-in's start may have its link. Only
// its sibling's form is published: {"code": 1, "message": ...}.
var linkPlaces = [][]string{{"data", "url"}, {"data", "auth_url"}, {"url"}, {"auth_url"}, {"oauth_url"}}

// standing is what a status of an account means.
type standing struct {
	state  sdk.AccountState
	paused bool
}

// statuses are those that an account may have. Only ACTIVE was seen.
var statuses = map[string]standing{
	"ACTIVE":       {state: sdk.AccountConnected},
	"INACTIVE":     {state: sdk.AccountConnected, paused: true},
	"PAUSED":       {state: sdk.AccountConnected, paused: true},
	"ERROR":        {state: sdk.AccountFailed},
	"DISCONNECTED": {state: sdk.AccountFailed},
	"FAILED":       {state: sdk.AccountFailed},
	"PENDING":      {state: sdk.AccountPending},
	"CONNECTING":   {state: sdk.AccountPending},
}

// failedSuffix ends statuses that name what failed, as in SMTP_ERROR.
const failedSuffix = "_ERROR"

// standingOf reads a status; known is false for one that nobody foresaw.
func standingOf(status string) (s standing, known bool) {
	status = strings.ToUpper(strings.TrimSpace(status))
	if s, known = statuses[status]; known {
		return s, true
	}
	if strings.HasSuffix(status, failedSuffix) {
		return standing{state: sdk.AccountFailed}, true
	}
	return standing{state: sdk.AccountOther}, false
}
