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

type (
	m     = map[string]any
	texts = map[string]string
)

// world is the simulator in this process.
type world struct {
	*conformance.Simulator
	house *house
	t     testing.TB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{conformance.Simulate(t, simulator.New), newHouse(), t}
}

// connection is the simulator's, with what is given in place of its own.
func (w *world) connection(given texts) sdk.Connection {
	settings, secrets := texts{}, texts{}
	for name, value := range given {
		if name == "api_key" {
			secrets[name] = value
		} else {
			settings[name] = value
		}
	}
	return w.Connection(settings, secrets)
}

func (w *world) with(given texts) sdk.SendingPlatform {
	w.t.Helper()
	p, err := w.house.provider(w.connection(given))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// key makes a key with this role that reaches so many workspaces. The first is
// the one in which the simulator begins.
func (w *world) key(name, role string, workspaces int) (ids []string) {
	w.t.Helper()
	all := []simulate.Workspace{}
	for i := range workspaces {
		ids = append(ids, fmt.Sprintf("5b1e0000-0000-4000-8000-%012x", i+1))
		all = append(all, simulate.Workspace{ID: ids[i], Name: fmt.Sprint("Workspace ", i)})
	}
	w.control(http.MethodPut, "/keys/"+name, m{"workspaces": all, "role": role})
	return ids
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

// listing follows the pages to their end.
func (w *world) listing(p sdk.SendingPlatform) (all []sdk.Account, err error) {
	for at := ""; ; {
		page, err := p.Accounts(w.t.Context(), at)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Accounts...)
		if at = page.Next; at == "" {
			return all, nil
		}
	}
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
