// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-plusvibe/simulator"
)

// jsonObject is a JSON object. texts are settings or secrets by name.
type (
	jsonObject = map[string]any
	texts      = map[string]string
)

// testEnv is a simulated PlusVibe. Its connections use the first workspace of the simulator.
type testEnv struct {
	*conformance.SendingTest
	t conformance.T
}

func newTestEnv(t conformance.T) *testEnv {
	t.Helper()
	env := &testEnv{conformance.SimulateSending(t, simulator.New, newProcessState().newPlatform), t}
	env.Ready.Settings["workspace_id"] = env.Ready.Sending.Workspaces[0].ID
	return env
}

// createKey creates an API key for this number of workspaces, with the login of a partner. It
// returns the secrets with which the plugin uses the key.
func (env *testEnv) createKey(name string, workspaces int) texts {
	env.t.Helper()
	reachable := []simulate.Workspace{}
	for i := range workspaces {
		reachable = append(reachable, simulate.Workspace{ID: fmt.Sprintf("65f3a1b2c3d4e5f6%08x", i+1), Name: fmt.Sprint("Workspace ", i)})
	}
	login := texts{"partner_username": name + "@agency.example", "partner_password": name + "-password"}
	env.Send(http.MethodPut, "/keys/"+name, jsonObject{"workspaces": reachable, "partner_username": login["partner_username"], "partner_password": login["partner_password"]})
	login["api_key"] = name
	return login
}

// receivedRequests returns the method and the path below /api/v1 of each request that the simulator
// received.
func (env *testEnv) receivedRequests() []string {
	env.t.Helper()
	requests := []string{}
	for _, entry := range env.Requests() {
		requests = append(requests, entry.Method+" "+strings.TrimPrefix(entry.Path, "/api/v1"))
	}
	return requests
}
