// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// members are members of an account, or of the body of a control call.
type members = map[string]any

// suite describes the simulator to the conformance suite.
var suite = simulate.Suite{
	Prepare: []simulate.SuiteCall{suiteKey("examined", []simulate.Workspace{firstWorkspaces[0]})},
	Secrets: suiteLogin("examined"), Settings: map[string]string{"workspace_id": firstWorkspaces[0].ID},
	Address: "email", Name: members{"payload": members{"name": members{"first_name": "$first", "last_name": "$last"}}},
	States: []simulate.SuiteState{
		{State: "connected", Members: members{"status": "ACTIVE"}},
		{State: "connected", Paused: true, Members: members{"status": "PAUSED"}},
		{State: "failed", HasError: true, Reason: "connection_error", Members: members{"status": "SMTP_ERROR"}},
		{State: "pending", Members: members{"status": "CONNECTING"}},
		{State: "other", Reason: "unknown_status", Members: members{"status": "CONTEMPLATES"}},
	},
	Workspaces: &simulate.SuiteWorkspaces{
		ID: "65f3a1b2c3d4e5f6%08x", Calls: []simulate.SuiteCall{suiteKey("reaching", "$workspaces")},
		Values: withoutWorkspace(suiteLogin("reaching")),
	},
	Lesser: map[string]string{"partner_username": "", "partner_password": ""},
}

// suiteLogin returns the secrets of a connection with this key.
func suiteLogin(key string) map[string]string {
	return map[string]string{"api_key": key, "partner_username": key + "@agency.example", "partner_password": key + "-password"}
}

func withoutWorkspace(login map[string]string) map[string]string {
	login["workspace_id"] = ""
	return login
}

// suiteKey returns the control call that creates a key with the login of a partner.
func suiteKey(key string, workspaces any) simulate.SuiteCall {
	login := suiteLogin(key)
	return simulate.SuiteCall{Method: http.MethodPut, Path: "/keys/" + key, Body: members{
		"workspaces": workspaces, "partner_username": login["partner_username"], "partner_password": login["partner_password"],
	}}
}
