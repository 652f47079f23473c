// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// members are members of a sender, or of the body of a control call.
type members = map[string]any

// suite describes the simulator to the conformance suite.
var suite = simulate.Suite{
	Address: "from_email", Name: members{"from_name": "$name", "folder": "Folder $third"},
	States: []simulate.SuiteState{
		{State: "connected", Members: members{"status": "active"}},
		{State: "connected", Paused: true, Members: members{"status": "Paused"}},
		{State: "failed", HasError: true, Reason: "connection_error", Members: members{"status": "active", "error": "invalid_grant"}},
		{State: "pending", Members: members{"status": "connecting"}},
		{State: "other", Reason: "unknown_status", Members: members{"status": "contemplates"}},
	},
	Workspaces: &simulate.SuiteWorkspaces{
		ID: "5b1e0000-0000-4000-8000-%012x",
		Calls: []simulate.SuiteCall{{Method: http.MethodPut, Path: "/keys/key-reaching", Body: members{
			"workspaces": "$workspaces", "role": "owner",
		}}},
		Values: map[string]string{"api_key": "key-reaching"},
	},
	LeastWaitSeconds: 60, // SalesBlink's guide requires a minute without calls after a 429
}
