// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
)

// world is the simulator, with Instantly's own description held against every
// request and answer.
type world struct {
	*conformance.Simulator
	settings  map[string]string
	unchecked bool // the answers are to be none of Instantly's
	t         testing.TB
}

type m = map[string]any

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t}
	w.Simulator = conformance.Simulate(t, func(o simulate.Options) (http.Handler, simulate.Ready, error) {
		inner, ready, err := simulator.New(o)
		checked := described{rules: rules(t), t: t}.around(inner)
		return http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
			if w.unchecked {
				inner.ServeHTTP(a, r)
				return
			}
			checked.ServeHTTP(a, r)
		}), ready, err
	})
	return w
}

func (w *world) with(key string) sdk.SendingPlatform {
	p, err := newHouse().platform(w.Connection(w.settings, map[string]string{"api_key": key}))
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) platform() sdk.SendingPlatform { return w.with(simulator.Key) }

func (w *world) put(address string, a m) {
	w.t.Helper()
	w.control(http.MethodPut, "/accounts/"+url.PathEscape(address), a)
}

func (w *world) control(method, path string, in any) {
	w.t.Helper()
	w.Control(w.t, method, path, in, nil)
}

// decide posts the page of a link, as whoever is there.
func (w *world) decide(link, username, decision string) int {
	w.t.Helper()
	resp, err := http.PostForm(link, url.Values{"username": {username}, "decision": {decision}})
	if err != nil {
		w.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// page reads the page of a link.
func (w *world) page(link string) string {
	w.t.Helper()
	resp, err := http.Get(link)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(body))
}
