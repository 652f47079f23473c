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

type (
	m     = map[string]any
	texts = map[string]string
)

// world is the simulator in this process.
type world struct {
	*conformance.Simulator
	t testing.TB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{conformance.Simulate(t, simulator.New), t}
}

// connection is the simulator's in its first workspace, with what is given in
// place of its own: settings and secrets by their names, "" for none.
func (w *world) connection(given texts) sdk.Connection {
	settings, secrets := texts{"workspace_id": w.Ready.Sending.Workspaces[0].ID}, texts{}
	for name, value := range given {
		if _, hidden := w.Ready.Secrets[name]; hidden {
			secrets[name] = value
		} else {
			settings[name] = value
		}
	}
	return w.Connection(settings, secrets)
}

func (w *world) with(given texts) sdk.SendingPlatform {
	w.t.Helper()
	p, err := newHouse().provider(w.connection(given))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// key makes a partner's key that reaches so many workspaces.
func (w *world) key(name string, workspaces int) texts {
	w.t.Helper()
	all := []simulate.Workspace{}
	for i := range workspaces {
		all = append(all, simulate.Workspace{ID: fmt.Sprintf("65f3a1b2c3d4e5f6%08x", 0x100+i), Name: fmt.Sprint("Workspace ", i)})
	}
	given := texts{"api_key": name, "partner_username": name + "@agency.example", "partner_password": name + "-password", "workspace_id": ""}
	w.control(http.MethodPut, "/keys/"+name, m{
		"workspaces": all, "partner_username": given["partner_username"], "partner_password": given["partner_password"],
	})
	if workspaces == 1 {
		given["workspace_id"] = all[0].ID
	}
	return given
}

func merged(all ...texts) texts {
	out := texts{}
	for _, some := range all {
		maps.Copy(out, some)
	}
	return out
}

func (w *world) put(address string, a m) {
	w.t.Helper()
	w.control(http.MethodPut, "/accounts/"+url.PathEscape(address), a)
}

func (w *world) behave(knobs m) {
	w.t.Helper()
	w.control(http.MethodPost, "/behaviour", knobs)
}

func (w *world) fault(f m) {
	w.t.Helper()
	f["times"] = 1
	w.control(http.MethodPost, "/faults", f)
}

func (w *world) control(method, path string, in any) {
	w.t.Helper()
	w.Control(w.t, method, path, in, nil)
}

// held are the accounts of a workspace, as PlusVibe shows them.
func (w *world) held(workspace string) (all []m) {
	w.t.Helper()
	w.Control(w.t, http.MethodGet, "/accounts?workspace_id="+workspace, nil, &all)
	return all
}

// asked is what the simulator was asked, by path without the host's prefix.
func (w *world) asked() []string {
	w.t.Helper()
	var all []simulate.Entry
	w.Control(w.t, http.MethodGet, "/calls", nil, &all)
	out := []string{}
	for _, e := range all {
		out = append(out, e.Method+" "+strings.TrimPrefix(e.Path, "/api/v1"))
	}
	return out
}

// page opens a link, decide presses a button there.
func (w *world) page(link string) (status int, text string) {
	w.t.Helper()
	return w.read(http.Get(link))
}

func (w *world) decide(link, username, decision string) (status int, text string) {
	w.t.Helper()
	return w.read(http.PostForm(link, url.Values{"username": {username}, "decision": {decision}}))
}

func (w *world) read(resp *http.Response, err error) (status int, text string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}
