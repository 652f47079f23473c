// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-salesblink/simulator"
)

// jsonObject is a JSON object. texts are settings or secrets by name.
type (
	jsonObject = map[string]any
	texts      = map[string]string
)

// testEnv is a simulated SalesBlink, and the process state of the plugin that calls it.
type testEnv struct {
	*conformance.SendingTest
	process *processState
	t       conformance.T
}

func newTestEnv(t conformance.T) *testEnv {
	t.Helper()
	process := newProcessState()
	return &testEnv{conformance.SimulateSending(t, simulator.New, process.newPlatform), process, t}
}

// createKey creates an API key with a role and with access to a number of workspaces, and returns
// the ids of the workspaces. The first workspace is the workspace of a new simulator.
func (env *testEnv) createKey(name, role string, workspaces int) (ids []string) {
	env.t.Helper()
	reachable := []simulate.Workspace{}
	for i := range workspaces {
		ids = append(ids, fmt.Sprintf("5b1e0000-0000-4000-8000-%012x", i+1))
		reachable = append(reachable, simulate.Workspace{ID: ids[i], Name: fmt.Sprint("Workspace ", i)})
	}
	env.Send(http.MethodPut, "/keys/"+name, jsonObject{"workspaces": reachable, "role": role})
	return ids
}
