// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// hangTimeout is the timeout of calls that end much earlier, even on a slow machine.
const hangTimeout = 4 * time.Minute

// sharedApplication is the app registration that all simulators of this package share, because
// generating its key is slow.
var sharedApplication struct {
	sync.Mutex
	saved []byte
}

// startSimulator starts a simulator with the shared app registration.
func startSimulator(options simulate.Options) (http.Handler, simulate.Ready, error) {
	sharedApplication.Lock()
	defer sharedApplication.Unlock()
	path := filepath.Join(options.DataDir, "app.json")
	if sharedApplication.saved != nil {
		if err := os.WriteFile(path, sharedApplication.saved, 0o600); err != nil {
			return nil, simulate.Ready{}, err
		}
	}
	handler, ready, err := simulator.New(options)
	if err == nil && sharedApplication.saved == nil {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/login/organizations/discovery/v2.0/keys", http.NoBody)) // generates the key
		sharedApplication.saved, err = os.ReadFile(path)
	}
	return handler, ready, err
}

// testEnv is a platform of the plugin and its simulator. The contract suite (package
// ports/contract) runs in it.
type testEnv struct {
	*conformance.MailTest
	platform sdk.MailPlatform
}

// newTestEnv returns an environment whose platform runs in the test process.
func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnvWith(t, func(connection sdk.Connection) sdk.MailPlatform {
		state := newProcessState()
		state.retry = call.RetryPolicy{MaxAttempts: 3, BaseDelay: 20 * time.Millisecond}
		state.httpClient.Transport = graphValidator{next: state.httpClient.Transport, base: connection.Settings["graph_url"], t: t}
		platform, err := state.newPlatform(connection)
		if err != nil {
			t.Fatal(err)
		}
		return platform
	})
}

func newTestEnvWith(t conformance.T, newPlatform func(sdk.Connection) sdk.MailPlatform) *testEnv {
	t.Helper()
	env := &testEnv{MailTest: conformance.SimulateMail(t, startSimulator, newPlatform)}
	env.platform = env.Platform()
	return env
}

// control calls the simulator's control interface.
func (env *testEnv) control(t conformance.T, method, path string, body any) (values map[string]any) {
	t.Helper()
	env.Control(t, method, path, body, &values)
	return values
}

// TestContract runs the contract suite of a mail platform with the plugin and its simulator.
func TestContract(t *testing.T) {
	t.Parallel()
	env := newTestEnv(t)
	contract.MailPlatform(t, func(conformance.T) contract.MailPlatformEnv { return env })
}

// TestBinary runs the suites of a mail platform with the built plugin. It mostly waits, because the
// built plugin pauses for seconds before it repeats a call.
func TestBinary(t *testing.T) {
	t.Parallel()
	path := testserver.Program(t, "release/plugins/mail-microsoft365")
	connect := func(base string) sdk.Connection {
		return sdk.Connection{
			Settings: map[string]string{
				"login_url": base + "/login", "graph_url": base + "/graph", "exchange_url": base + "/exchange",
				"client_id": "11111111-1111-4111-8111-111111111111", "pacing": "0",
			},
			Secrets: map[string]secret.Text{"client_secret": secret.New("not-a-real-one")},
		}
	}
	conformance.Mail(t, conformance.Binary{Path: path, Connect: connect}, func(t conformance.T, newPlatform func(sdk.Connection) sdk.MailPlatform) contract.MailPlatformEnv {
		return newTestEnvWith(t, newPlatform)
	})
}
