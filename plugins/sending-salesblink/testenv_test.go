// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-salesblink/simulator"
)

// m is a JSON object; texts are settings or secrets by name.
type (
	m     = map[string]any
	texts = map[string]string
)

// testEnv is a simulated SalesBlink, and the process state of the plugin that calls it.
type testEnv struct {
	*conformance.Simulator
	process *processState
	t       testing.TB
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	return &testEnv{conformance.Simulate(t, simulator.New), newProcessState(), t}
}

// connection returns a connection to the simulator. given replaces settings and secrets by name; an
// empty value removes one.
func (env *testEnv) connection(given texts) sdk.Connection {
	settings, secrets := texts{}, texts{}
	for name, value := range given {
		if name == "api_key" {
			secrets[name] = value
		} else {
			settings[name] = value
		}
	}
	return env.Connection(settings, secrets)
}

// with returns the platform of connection(given).
func (env *testEnv) with(given texts) sdk.SendingPlatform {
	env.t.Helper()
	p, err := env.process.newPlatform(env.connection(given))
	if err != nil {
		env.t.Fatal(err)
	}
	return p
}

// key creates an API key with a role that reaches a number of workspaces, and returns their ids.
// The first is the workspace that exists from the start.
func (env *testEnv) key(name, role string, workspaces int) (ids []string) {
	env.t.Helper()
	all := []simulate.Workspace{}
	for i := range workspaces {
		ids = append(ids, fmt.Sprintf("5b1e0000-0000-4000-8000-%012x", i+1))
		all = append(all, simulate.Workspace{ID: ids[i], Name: fmt.Sprint("Workspace ", i)})
	}
	env.control(http.MethodPut, "/keys/"+name, m{"workspaces": all, "role": role})
	return ids
}

// put creates or changes a sender at SalesBlink.
func (env *testEnv) put(address string, fields m) {
	env.t.Helper()
	env.control(http.MethodPut, "/accounts/"+url.PathEscape(address), fields)
}

func (env *testEnv) behave(knobs m) {
	env.t.Helper()
	env.control(http.MethodPost, "/behaviour", knobs)
}

// fault plans a fault of the simulator for one call.
func (env *testEnv) fault(f m) {
	env.t.Helper()
	f["times"] = 1
	env.control(http.MethodPost, "/faults", f)
}

func (env *testEnv) control(method, path string, in any) {
	env.t.Helper()
	env.Control(env.t, method, path, in, nil)
}

// listing returns the accounts of all pages.
func (env *testEnv) listing(p sdk.SendingPlatform) (all []sdk.Account, err error) {
	for at := ""; ; {
		page, err := p.Accounts(env.t.Context(), at)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Accounts...)
		if at = page.Next; at == "" {
			return all, nil
		}
	}
}

// page requests the sign-in page of a link.
func (env *testEnv) page(link string) (status int, text string) {
	env.t.Helper()
	return env.read(http.Get(link))
}

// decide submits the sign-in page of a link.
func (env *testEnv) decide(link, username, decision string) (status int, text string) {
	env.t.Helper()
	return env.read(http.PostForm(link, url.Values{"username": {username}, "decision": {decision}}))
}

func (env *testEnv) read(resp *http.Response, err error) (status int, text string) {
	env.t.Helper()
	if err != nil {
		env.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		env.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}
