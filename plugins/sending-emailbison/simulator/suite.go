// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// members are the JSON members of a sender or of the body of a control call.
type members = map[string]any

// superAdmin is a token that the suite creates with the type super-admin.
const superAdmin = "2|simulatedSuperAdmin"

// suite describes the simulator to the conformance suite. Its api_key contains only the token,
// because instance_url contains the instance.
var suite = simulate.Suite{
	Settings: map[string]string{"instance_url": "$url"}, Secrets: map[string]string{"api_key": Token},
	Address: "email", Name: members{"name": "$name"},
	States: []simulate.SuiteState{
		{State: "connected", Members: members{"status": "Connected"}},
		{State: "failed", HasError: true, Reason: "disconnected", Members: members{"status": "Not connected"}},
		{State: "other", Members: members{"status": "Pending move"}},
	},
	Workspaces: &simulate.SuiteWorkspaces{
		NumericID: true,
		Calls: []simulate.SuiteCall{
			{Method: http.MethodPut, Path: "/workspaces", Body: "$workspaces"},
			{Method: http.MethodPut, Path: "/tokens", Body: members{"token": superAdmin, "type": "super-admin"}},
		},
		Values: map[string]string{"api_key": superAdmin},
	},
}
