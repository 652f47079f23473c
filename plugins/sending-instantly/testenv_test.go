// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
)

// testEnv is a simulated Instantly. Unless unchecked is true, it checks the requests and answers of
// the API against Instantly's OpenAPI document.
type testEnv struct {
	*conformance.SendingTest
	unchecked bool // for tests in which the answers imitate a proxy
	t         conformance.T
}

type (
	jsonObject = map[string]any    // a JSON object
	texts      = map[string]string // settings or secrets by name
)

func newTestEnv(t conformance.T) *testEnv {
	t.Helper()
	env := &testEnv{t: t}
	env.SendingTest = conformance.SimulateSending(t, func(options simulate.Options) (http.Handler, simulate.Ready, error) {
		inner, ready, err := simulator.New(options)
		checked := openAPIChecker{document: instantlyDocument(t), t: t}.checking(inner)
		return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
			if env.unchecked {
				inner.ServeHTTP(answer, r)
				return
			}
			checked.ServeHTTP(answer, r)
		}), ready, err
	}, newProcessState().newPlatform)
	return env
}
