// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sending-plusvibe/simulator"
)

func TestCheckReturnsTheWorkspacesOfTheKey(t *testing.T) {
	env := newTestEnv(t)
	for _, n := range []int{0, 1, 3} {
		reach, err := env.With(env.createKey("some", n), texts{"workspace_id": ""}).Check(t.Context())
		if err != nil || len(reach.Workspaces) != n || reach.SelectedWorkspaceOnly {
			t.Errorf("a key for %d workspaces: %+v, %v, want this number of workspaces", n, reach, err)
		}
	}
	env.Send(http.MethodDelete, "/keys/some", nil)
	if _, err := env.With(texts{"api_key": "some"}).Check(t.Context()); err == nil {
		t.Error("a deleted key is accepted, want an error")
	}
}

func TestSimulatorServesLinksAndKeepsItsState(t *testing.T) {
	conformance.SendingSimulator(t, simulator.New, plugin(), `{"bad_key": 500}`)
}

func TestAccountsHaveTheFormOfPlusVibe(t *testing.T) {
	env := newTestEnv(t)
	env.Put("anna@a.example", jsonObject{})
	if accounts := env.Held(""); len(accounts) != 1 || accounts[0]["provider"] != "MICROSOFT365" || len(accounts[0]["_id"].(string)) != 24 {
		t.Errorf("the platform has %v, want one account of MICROSOFT365 with an id of 24 characters", accounts)
	}
}

func TestTestsInTheReadmeExist(t *testing.T) { conformance.ReadmeNamesTests(t, 10) }

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}
