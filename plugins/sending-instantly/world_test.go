// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
)

// world is the simulator, with Instantly's own description held against every
// request and answer.
type world struct {
	server *httptest.Server
	ready  simulate.Ready
	make   func(sdk.Connection) (sdk.SendingPlatform, error)
	t      testing.TB
	hang   atomic.Bool // requests are taken and not answered
	// spoiled answers are planned; no description is held against them.
	spoiled atomic.Bool
}

type m = map[string]any

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{make: newHouse().platform, t: t}
	var handler http.Handler
	w.server = httptest.NewServer(http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) { handler.ServeHTTP(a, r) }))
	t.Cleanup(w.server.Close)
	inner, ready, err := simulator.New(simulate.Options{URL: w.server.URL, DataDir: t.TempDir(), Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	w.ready = ready
	checked := described{rules: rules(t), t: t}.around(inner)
	handler = http.HandlerFunc(func(a http.ResponseWriter, r *http.Request) {
		switch {
		case w.hang.Load():
			<-r.Context().Done()
		case w.spoiled.Load():
			inner.ServeHTTP(a, r)
		default:
			checked.ServeHTTP(a, r)
		}
	})
	return w
}

func (w *world) with(key string) sdk.SendingPlatform {
	p, err := w.make(sdk.Connection{Settings: w.ready.Settings, Secrets: map[string]secret.Text{"api_key": secret.New(key)}})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) platform() sdk.SendingPlatform { return w.with(w.ready.Secrets["api_key"]) }

func (w *world) fault(f m) {
	w.t.Helper()
	w.control(http.MethodPost, "/faults", f, nil)
}

func (w *world) put(address string, a m) {
	w.t.Helper()
	w.control(http.MethodPut, "/accounts/"+url.PathEscape(address), a, nil)
}

// calls counts what was asked under this name.
func (w *world) calls(operation string) int {
	w.t.Helper()
	var all []simulate.Entry
	w.control(http.MethodGet, "/calls", m{}, &all)
	n := 0
	for _, c := range all {
		if c.Operation == operation {
			n++
		}
	}
	return n
}

func (w *world) control(method, path string, in, out any) {
	w.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequest(method, w.server.URL+"/_control"+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || (out != nil && json.Unmarshal(answer, out) != nil) {
		w.t.Fatalf("%s %s: %d %s", method, path, resp.StatusCode, answer)
	}
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
