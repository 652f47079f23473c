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

// testEnv is a simulated Instantly. It checks every request and answer against Instantly's OpenAPI
// document.
type testEnv struct {
	*conformance.Simulator
	settings  map[string]string // replace the settings of the simulator
	unchecked bool              // do not check: the answers imitate a proxy
	t         testing.TB
}

// m is a JSON object.
type m = map[string]any

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	env := &testEnv{t: t}
	env.Simulator = conformance.Simulate(t, func(o simulate.Options) (http.Handler, simulate.Ready, error) {
		inner, ready, err := simulator.New(o)
		checked := openAPIChecker{document: instantlyDocument(t), t: t}.wrap(inner)
		return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
			if env.unchecked {
				inner.ServeHTTP(answer, r)
				return
			}
			checked.ServeHTTP(answer, r)
		}), ready, err
	})
	return env
}

// with returns the platform of an API key.
func (env *testEnv) with(key string) sdk.SendingPlatform {
	p, err := newProcessState().newPlatform(env.Connection(env.settings, map[string]string{"api_key": key}))
	if err != nil {
		env.t.Fatal(err)
	}
	return p
}

func (env *testEnv) platform() sdk.SendingPlatform { return env.with(simulator.Key) }

func (env *testEnv) put(address string, fields m) {
	env.t.Helper()
	env.control(http.MethodPut, "/accounts/"+url.PathEscape(address), fields)
}

func (env *testEnv) control(method, path string, in any) {
	env.t.Helper()
	env.Control(env.t, method, path, in, nil)
}

// decide submits the sign-in page of a link and returns the status of the answer.
func (env *testEnv) decide(link, username, decision string) int {
	env.t.Helper()
	resp, err := http.PostForm(link, url.Values{"username": {username}, "decision": {decision}})
	if err != nil {
		env.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// page returns the HTML of the sign-in page of a link.
func (env *testEnv) page(link string) string {
	env.t.Helper()
	resp, err := http.Get(link)
	if err != nil {
		env.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(body))
}
