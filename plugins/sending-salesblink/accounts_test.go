// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// TestAccountStatesOfSenderForms covers several names of members and values of a status.
func TestAccountStatesOfSenderForms(t *testing.T) {
	for doc, want := range map[string]sdk.Account{
		`{"id": "1", "from_email": "a@a.example"}`:                                              {State: sdk.AccountConnected},
		`{"_id": 1, "email": "a@a.example", "status": "ACTIVE", "error": null}`:                 {State: sdk.AccountConnected},
		`{"sender_id": "1", "email_address": "a@a.example", "state": "inactive", "error": ""}`:  {State: sdk.AccountConnected, Paused: true},
		`{"id": "1", "email": "a@a.example", "status": "failed"}`:                               {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
		`{"id": "1", "email": "a@a.example", "failed": true}`:                                   {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
		`{"id": "1", "email": "a@a.example", "status": "paused", "error": {"code": 7}}`:         {State: sdk.AccountFailed, HasError: true, Reason: "connection_error"},
		`{"id": "1", "email": "a@a.example", "failed": false, "last_error": [], "status": "x"}`: {State: sdk.AccountOther, Reason: "unknown_status"},
	} {
		accounts, err := decodeSenders(json.RawMessage("[" + doc + "]"))
		if err != nil || len(accounts) != 1 {
			t.Errorf("%s: %d accounts, %v, want one", doc, len(accounts), err)
			continue
		}
		want.ID, want.Address, want.Stamp = "1", "a@a.example", accounts[0].Stamp
		if accounts[0] != want {
			t.Errorf("%s: %+v, want %+v", doc, accounts[0], want)
		}
	}
}

// TestOnlyKnownFormsOfListsAreAccepted checks the forms of lists of senders and workspaces. In an
// unknown form the plugin could overlook a sender, and the host would conclude that this sender was
// removed. A negative number in a table means Broken.
func TestOnlyKnownFormsOfListsAreAccepted(t *testing.T) {
	const sender = `{"id": "1", "email": "a@a.example"}`
	for data, want := range map[string]int{
		`[]`: 0, `{}`: 0, `[` + sender + `]`: 1, `{"senders": [` + sender + `, ` + sender + `]}`: 2,
		`[{"folder": {"id": "f", "name": "Default"}, "senders": [` + sender + `]}, {"folder": null, "senders": []}]`: 1,
		`{"Default": [` + sender + `], "Other": [` + sender + `]}`:                                                   2,
		`null`: -1, `"no"`: -1, `7`: -1, `{"total": 5}`: -1, `[7]`: -1, `[{"id": "1", "mail": "a@a.example"}]`: -1,
		`[{"email": "a@a.example"}]`: -1, `[{"id": "1", "email": "Anna"}]`: -1, `{"Default": [[]]}`: -1,
	} {
		accounts, err := decodeSenders(json.RawMessage(data))
		if (want < 0) != (sdk.OutcomeOf(err).Kind == sdk.Broken) || want >= 0 && len(accounts) != want {
			t.Errorf("%s: %d senders, %v, want %d, or broken if negative", data, len(accounts), err, want)
		}
	}
	for data, want := range map[string]int{
		`[]`: 0, `[{"id": "1", "name": "A"}, {"_id": "2"}]`: 2, `{"workspaces": [{"workspace_id": 3}]}`: 1, `null`: -1, `{}`: -1, `[{"name": "A"}]`: -1, `[1]`: -1,
	} {
		reach, err := decodeWorkspaces(json.RawMessage(data))
		if (want < 0) != (sdk.OutcomeOf(err).Kind == sdk.Broken) || want >= 0 && len(reach.Workspaces) != want {
			t.Errorf("%s: %+v, %v, want %d workspaces, or broken if negative", data, reach, err, want)
		}
	}
}
