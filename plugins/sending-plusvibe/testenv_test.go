// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-plusvibe/simulator"
)

// m is a JSON object; texts are settings or secrets by name.
type (
	m     = map[string]any
	texts = map[string]string
)

// testEnv is a simulated PlusVibe.
type testEnv struct {
	*conformance.Simulator
	t testing.TB
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	return &testEnv{conformance.Simulate(t, simulator.New), t}
}

// connection returns a connection to the first workspace of the simulator. given replaces settings
// and secrets by name; an empty value removes one.
func (env *testEnv) connection(given texts) sdk.Connection {
	settings, secrets := texts{"workspace_id": env.Ready.Sending.Workspaces[0].ID}, texts{}
	for name, value := range given {
		if _, hidden := env.Ready.Secrets[name]; hidden {
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
	p, err := newProcessState().newPlatform(env.connection(given))
	if err != nil {
		env.t.Fatal(err)
	}
	return p
}

// key creates an API key with a partner's login that reaches a number of workspaces. It returns the
// settings and secrets to use it.
func (env *testEnv) key(name string, workspaces int) texts {
	env.t.Helper()
	all := []simulate.Workspace{}
	for i := range workspaces {
		all = append(all, simulate.Workspace{ID: fmt.Sprintf("65f3a1b2c3d4e5f6%08x", 0x100+i), Name: fmt.Sprint("Workspace ", i)})
	}
	given := texts{"api_key": name, "partner_username": name + "@agency.example", "partner_password": name + "-password", "workspace_id": ""}
	env.control(http.MethodPut, "/keys/"+name, m{
		"workspaces": all, "partner_username": given["partner_username"], "partner_password": given["partner_password"],
	})
	if workspaces == 1 {
		given["workspace_id"] = all[0].ID
	}
	return given
}

func merged(all ...texts) texts {
	out := texts{}
	for _, values := range all {
		maps.Copy(out, values)
	}
	return out
}

// put creates or changes an account at PlusVibe.
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

// held returns the accounts of a workspace as the API shows them. An empty workspace is the first
// one.
func (env *testEnv) held(workspace string) (all []m) {
	env.t.Helper()
	env.Control(env.t, http.MethodGet, "/accounts?workspace_id="+workspace, nil, &all)
	return all
}

// requests returns the requests that the simulator received, as a method and a path below /api/v1.
func (env *testEnv) requests() []string {
	env.t.Helper()
	var all []simulate.Entry
	env.Control(env.t, http.MethodGet, "/calls", nil, &all)
	out := []string{}
	for _, e := range all {
		out = append(out, e.Method+" "+strings.TrimPrefix(e.Path, "/api/v1"))
	}
	return out
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
