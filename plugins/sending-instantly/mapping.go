// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// accountDoc is what we read of an account. There is no id but the address.
type accountDoc struct {
	Email        string   `json:"email"`
	FirstName    string   `json:"first_name"`
	LastName     string   `json:"last_name"`
	Organization string   `json:"organization"`
	Status       *float64 `json:"status"`
	SetupPending bool     `json:"setup_pending"`
	Updated      string   `json:"timestamp_updated"`
	// AutofixFailed is null while Instantly tries to reconnect by itself.
	AutofixFailed json.RawMessage `json:"autofix_failed"`
}

// Instantly's statuses.
const (
	active      = 1
	paused      = 2
	maintenance = 3 // resumes by itself
	noLogin     = -1
	softBounces = -2
	noSending   = -3
)

func (a accountDoc) account() sdk.Account {
	out := sdk.Account{
		ID: a.Email, Address: a.Email, Name: strings.TrimSpace(a.FirstName + " " + a.LastName), Stamp: a.Updated,
	}
	switch {
	case a.SetupPending:
		out.State = sdk.AccountPending
	case a.Status == nil:
		out.State, out.Reason = sdk.AccountOther, "unknown_status"
	default:
		a.judge(&out)
	}
	return out
}

// judge reads the status: what impairs sending leaves the grant as it is.
func (a accountDoc) judge(out *sdk.Account) {
	out.State = sdk.AccountConnected
	switch *a.Status {
	case active, maintenance:
	case paused:
		out.Paused = true
	case softBounces:
		out.HasError, out.Reason = true, "soft_bounce_error"
	case noSending:
		out.HasError, out.Reason = true, "sending_error"
	case noLogin:
		out.State, out.HasError, out.Reason = sdk.AccountFailed, true, "connection_error"
		if string(a.AutofixFailed) == "null" {
			out.State, out.Reason = sdk.AccountOther, "reconnecting"
		}
	default:
		out.State, out.Reason = sdk.AccountOther, "unknown_status"
	}
}
