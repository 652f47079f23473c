// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// members are the JSON members of the body of a control call.
type members = map[string]any

// suite describes the simulator to the conformance suite.
var suite = simulate.Suite{
	Address: "email", Name: members{"name": "$name"},
	States: []simulate.SuiteState{
		{State: "connected", Members: members{"status": 1}},
		{State: "connected", Paused: true, Members: members{"status": 2}},
		{State: "pending", Members: members{"status": 1, "setup_pending": true}},
		{State: "failed", HasError: true, Reason: "connection_error", Members: members{"status": -1}},
		{State: "other", HasError: true, Reason: "reconnecting", Members: members{"status": -1, "reconnecting": true}},
		{State: "connected", HasError: true, Reason: "soft_bounce_error", Members: members{"status": -2}},
		{State: "connected", HasError: true, Reason: "sending_error", Members: members{"status": -3}},
	},
	Sessions: true, Declines: true,
	Expire: &simulate.SuiteCall{Method: http.MethodPost, Path: "/sessions/$session/expire"},
	Unpaid: &simulate.SuiteCall{Method: http.MethodPut, Path: "/workspaces/" + Workspace, Body: members{"inactive": true}},
}
