// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// hangTimeout is the timeout of calls that return much earlier, even on a slow machine.
const hangTimeout = 4 * time.Minute

// sharedApplication is the app registration that all simulators in the tests of this package share,
// because generating its key is slow.
var sharedApplication struct {
	sync.Mutex
	saved []byte // content of app.json, nil until the first simulator has started
}

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

// control sends a control request to the simulator and returns the JSON object in the answer.
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

type options = map[string]any

// noDelays makes the simulator finish all delayed work at once.
var noDelays = options{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0}

// setBehaviour changes settings of a tenant in the simulator. It does nothing if changes is nil.
func (env *testEnv) setBehaviour(t conformance.T, id tenant.GUID, changes options) {
	t.Helper()
	if changes == nil {
		return
	}
	env.control(t, http.MethodPost, "/tenants/"+string(id)+"/behaviour", changes)
}

// busyOnce returns a value for the simulator's setting "cmdlets". With this value, the next run of
// cmdlet fails with status 400 and ServerBusyException.
func busyOnce(cmdlet string) options {
	return options{cmdlet: options{"times": 1, "exception": options{"type": "Microsoft.ServerBusyException", "text": "Please try again."}}}
}

// consentedTenant creates a tenant whose administrator has given consent. consentedTenant first
// switches off all delays of the tenant. After the consent, it applies changes, which may set
// delays again.
func (env *testEnv) consentedTenant(t conformance.T, setup contract.Setup, changes options) (contract.Tenant, sdk.MailTenant) {
	t.Helper()
	tenantInfo := env.NewTenant(t, setup)
	env.setBehaviour(t, tenantInfo.GUID, noDelays)
	page, err := env.platform.ConsentURL(t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := env.platform.Granted(t.Context(), env.Visit(t, page, tenantInfo.Admin, true)); err != nil || id != tenantInfo.GUID {
		t.Fatalf("the consent is for %q, %v, want %q", id, err, tenantInfo.GUID)
	}
	env.setBehaviour(t, tenantInfo.GUID, changes)
	return tenantInfo, env.platform.For(tenantInfo.GUID)
}

// preparedTenant creates a tenant whose bootstrap is complete, and then makes the changes of
// settings.
func (env *testEnv) preparedTenant(t conformance.T, changes options) (contract.Tenant, sdk.MailTenant) {
	t.Helper()
	tenantInfo, client := env.consentedTenant(t, contract.Setup{}, nil)
	if progress, err := client.Bootstrap(t.Context()); err != nil || progress.Status != tenant.BootstrapReady {
		t.Fatalf("the bootstrap is %+v, %v, want ready", progress, err)
	}
	env.setBehaviour(t, tenantInfo.GUID, changes)
	return tenantInfo, client
}

// mailDomain adds and verifies a domain, enables mail for it, and returns its name.
func (env *testEnv) mailDomain(t conformance.T, client sdk.MailTenant) string {
	t.Helper()
	domainName := env.NewZone(t)
	if _, err := client.AddDomain(t.Context(), domainName); err != nil {
		t.Fatal(err)
	}
	records, err := client.Records(t.Context(), domainName)
	if err != nil {
		t.Fatal(err)
	}
	env.Publish(t, domainName, records.Verification[0])
	if _, err := client.VerifyDomain(t.Context(), domainName); err != nil {
		t.Fatal(err)
	}
	if err := client.EnableMail(t.Context(), domainName); err != nil {
		t.Fatal(err)
	}
	return domainName
}

// calls returns the number of requests that the simulator received, keyed by operation (for
// Exchange, the cmdlet), and also by method and path.
func (env *testEnv) calls(t conformance.T) map[string]int {
	t.Helper()
	var recorded []struct{ Method, Path, Operation string }
	env.Control(t, http.MethodGet, "/calls", nil, &recorded)
	counts := map[string]int{}
	for _, request := range recorded {
		if request.Operation != "" {
			counts[request.Operation]++
		}
		counts[request.Method+" "+request.Path]++
	}
	return counts
}

// injectFault makes the simulator fail the next calls that match. All faults are deleted at the end
// of the test.
func (env *testEnv) injectFault(t conformance.T, planned options) {
	t.Helper()
	env.control(t, http.MethodPost, "/faults", planned)
	t.Cleanup(func() { env.control(t, http.MethodDelete, "/faults", nil) })
}

// expectOutcome checks the kind of the outcome of err and, if code is not empty, its error code.
func expectOutcome(t conformance.T, err error, kind outcome.Kind, code fault.Code) {
	t.Helper()
	if outcome.KindOf(err) != kind || (code.Name != "" && !errors.Is(err, code)) {
		t.Fatalf("got %v, want %s %s", err, kind, code.Name)
	}
}

// expectEqual checks that the error err of a call is nil, and that got, its result or its effect,
// is want.
func expectEqual(t *testing.T, err error, got, want any) {
	t.Helper()
	if err != nil || !cmp.Equal(got, want) {
		t.Fatalf("got the error %v, want none; difference (-want +got):\n%s", err, cmp.Diff(want, got))
	}
}
