// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// latency is how long a request of throttledEnv takes to reach the simulator.
const latency = 150 * time.Millisecond

// throttledEnv is a tenant of a simulator that is called without a network, in a bubble of package
// testing/synctest. Time in the bubble passes only while all goroutines wait, so the speed of the
// machine does not matter.
type throttledEnv struct {
	t          *testing.T
	handler    http.Handler
	connection sdk.Connection
	id         tenant.GUID
	domain     string
}

// RoundTrip implements http.RoundTripper. It passes the request to the simulator after latency.
func (env *throttledEnv) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(latency):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	recorder := httptest.NewRecorder()
	env.handler.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

func newThrottledEnv(t *testing.T) *throttledEnv {
	t.Helper()
	handler, ready, err := startSimulator(simulate.Options{URL: "http://platform.test", DataDir: t.TempDir(), Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	env := &throttledEnv{t: t, handler: handler, connection: sdk.Connection{Settings: ready.Settings, Secrets: map[string]secret.Text{}}}
	for name, value := range ready.Secrets {
		env.connection.Secrets[name] = secret.New(value)
	}
	env.id, env.domain = env.addTenant("Throttled")
	return env
}

// addTenant creates a tenant, connects it and prepares its mail server. It returns the id and the
// initial domain of the tenant.
func (env *throttledEnv) addTenant(name string) (id tenant.GUID, initialDomain string) {
	env.t.Helper()
	created := env.control(http.MethodPost, "/tenants", options{"name": name}).(map[string]any)
	id = tenant.GUID(created["tenant_id"].(string))
	_, initialDomain, _ = strings.Cut(created["admin"].(string), "@")
	env.control(http.MethodPost, "/tenants/"+string(id)+"/behaviour", noDelays)
	env.consent(created["admin"].(string))
	if progress, err := env.platform(nil).For(id).Bootstrap(env.t.Context()); err != nil || progress.Status != tenant.BootstrapReady {
		env.t.Fatalf("the bootstrap is %+v, %v, want ready", progress, err)
	}
	return id, initialDomain
}

// consent gives consent as the administrator of a tenant.
func (env *throttledEnv) consent(admin string) {
	env.t.Helper()
	page, err := env.platform(nil).ConsentURL(env.t.Context(), "s", "http://127.0.0.1:8080/connect/microsoft365/callback")
	if err != nil {
		env.t.Fatal(err)
	}
	form := url.Values{"username": {admin}, "decision": {"accept"}}
	r := httptest.NewRequest(http.MethodPost, page, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	recorder := httptest.NewRecorder()
	if env.handler.ServeHTTP(recorder, r); recorder.Code != http.StatusFound {
		env.t.Fatalf("the consent page answers %d: %s; want 302", recorder.Code, recorder.Body)
	}
}

// control sends a control request to the simulator and returns the JSON in the answer.
func (env *throttledEnv) control(method, path string, requestBody any) (answer any) {
	env.t.Helper()
	body, err := json.Marshal(requestBody)
	if err != nil {
		env.t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	env.handler.ServeHTTP(recorder, httptest.NewRequest(method, "/_control"+path, bytes.NewReader(body)))
	if recorder.Code != http.StatusOK || json.Unmarshal(recorder.Body.Bytes(), &answer) != nil {
		env.t.Fatalf("%s %s: %d %s, want 200 with JSON", method, path, recorder.Code, recorder.Body)
	}
	return answer
}

// newProcess returns the client of the tenant in a new process of the plugin. Processes that get
// the same memoryWaits share their waits.
func (env *throttledEnv) newProcess(shared *memoryWaits) sdk.MailTenant {
	return env.platform(shared).For(env.id)
}

// platform returns the platform of a new process of the plugin. The process keeps its waits to
// itself if shared is nil.
func (env *throttledEnv) platform(shared *memoryWaits) sdk.MailPlatform {
	env.t.Helper()
	state := newProcessState()
	state.httpClient.Transport = env
	if shared != nil {
		state.waits.Share(shared)
	}
	mailPlatform, err := state.newPlatform(env.connection)
	if err != nil {
		env.t.Fatal(err)
	}
	return mailPlatform
}

// provision creates a mailbox and opens it for sign-in and submission.
func (env *throttledEnv) provision(client sdk.MailTenant, name string) error {
	ctx, cancel := context.WithTimeout(env.t.Context(), time.Minute)
	defer cancel()
	address := name + "@" + env.domain
	created, err := client.CreateMailbox(ctx, mailbox.Spec{DisplayName: name, Address: address})
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := client.OpenSignIn(ctx, created.ObjectID, address, secret.New("Corr3ct-horse-battery")); err != nil {
		return fmt.Errorf("open sign-in: %w", err)
	}
	if err := client.OpenSubmission(ctx, address); err != nil {
		return fmt.Errorf("open submission: %w", err)
	}
	return nil
}

// planThrottling makes a host answer 429 to the second and to the seventh matching call.
func (env *throttledEnv) planThrottling(method, path string) {
	env.t.Helper()
	for _, skip := range []int{1, 6} {
		env.control(http.MethodPost, "/faults", options{
			"match": method + " " + path, "kind": "status", "status": 429, "retry_after": 4, "times": 1, "skip": skip,
		})
	}
}

// expectNoViolation fails the test if the plugin broke a rule of the platform, or was not
// throttled.
func (env *throttledEnv) expectNoViolation() {
	env.t.Helper()
	throttled := 0
	for _, entry := range env.control(http.MethodGet, "/calls", nil).([]any) {
		call := entry.(map[string]any)
		if call["violation"] != nil {
			env.t.Errorf("the call %s at %s has the violation %s, want none", call["operation"], call["at"], call["violation"])
		}
		if call["status"] == 429.0 {
			throttled++
		}
	}
	if throttled == 0 {
		env.t.Error("no call was throttled, want at least one")
	}
}

// memoryWaits takes the place of the waits that tenantry shares between the processes of a plugin.
type memoryWaits struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// Wait extends the wait of a scope to at least atLeast from now, and returns the rest of the wait.
func (m *memoryWaits) Wait(_ context.Context, scope string, atLeast time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if until := time.Now().Add(atLeast); until.After(m.until[scope]) {
		m.until[scope] = until
	}
	return max(0, time.Until(m.until[scope]))
}

// A Retry-After of a host delays all calls to that host for the same tenant, whatever mailbox they
// concern.
func TestARetryAfterHoldsBackAllCallsOfTheTenant(t *testing.T) {
	for _, tc := range []struct {
		name, method, path string // of the calls that are throttled
		processes          int
	}{
		{"Exchange", http.MethodPost, "/exchange/", 1},
		{"Exchange, two processes", http.MethodPost, "/exchange/", 2},
		{"Graph", http.MethodGet, "/graph/", 1},
		{"Graph, two processes", http.MethodGet, "/graph/", 2},
		{"login host, two processes", http.MethodPost, "/login/", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := newThrottledEnv(t)
				shared := &memoryWaits{until: map[string]time.Time{}}
				clients := make([]sdk.MailTenant, tc.processes)
				for n := range clients {
					clients[n] = env.newProcess(shared)
				}
				env.planThrottling(tc.method, tc.path)
				var wg sync.WaitGroup
				// The processes begin one after the other, so a later process receives waits from
				// earlier processes.
				waitForStart := func(process int) { time.Sleep(time.Duration(process) * time.Second / 2) }
				for n := range 3 * tc.processes {
					wg.Go(func() {
						waitForStart(n % tc.processes)
						if err := env.provision(clients[n%tc.processes], fmt.Sprintf("anna%d", n)); err != nil {
							t.Errorf("mailbox %d: %v, want no error", n, err)
						}
					})
				}
				for process, client := range clients {
					wg.Go(func() {
						waitForStart(process)
						for range 10 {
							if _, err := client.Domains(t.Context()); err != nil {
								t.Errorf("Domains in process %d: %v, want no error", process, err)
							}
						}
					})
				}
				wg.Wait()
				env.expectNoViolation()
			})
		})
	}
}

// A call that cannot wait fails at once. The errors of the next calls contain the rest of the wait.
func TestARetryAfterBeyondTheDeadlineHoldsBackTheNextCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := newThrottledEnv(t)
		client := env.newProcess(nil)
		env.control(http.MethodPost, "/faults", options{
			"match": "GET /graph/", "kind": "status", "status": 429, "retry_after": 60, "times": 1,
		})
		for wait := 60 * time.Second; wait > 0; wait -= 20 * time.Second {
			_, err := client.Profile(t.Context())
			if outcome.KindOf(err) != outcome.Throttled || outcome.RetryAfter(err) > wait || outcome.RetryAfter(err) < wait-time.Second {
				t.Fatalf("got %v with a wait of %s, want a throttled call and about %s", err, outcome.RetryAfter(err), wait)
			}
			time.Sleep(20 * time.Second)
		}
		if _, err := client.Profile(t.Context()); err != nil {
			t.Fatalf("Profile after the wait: %v, want no error", err)
		}
		env.expectNoViolation()
	})
}

// Graph counts the calls of an application in each tenant, and in all tenants together. The header
// of the answer shows whether all tenants must wait, or only the throttled tenant.
func TestARetryAfterOfTheApplicationHoldsBackAllTenants(t *testing.T) {
	for scope, isHeldBack := range map[string]bool{"Application": true, "Tenant_Application": false, "Tenant": false} {
		t.Run(scope, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				env := newThrottledEnv(t)
				secondID, _ := env.addTenant("Second")
				shared := &memoryWaits{until: map[string]time.Time{}}
				throttledTenant, secondTenant := env.newProcess(shared), env.platform(shared).For(secondID)
				env.control(http.MethodPost, "/tenants/"+string(env.id)+"/behaviour", options{"throttle_scope": scope})
				env.control(http.MethodPost, "/faults", options{
					"match": "GET /graph/", "kind": "status", "status": 429, "retry_after": 60, "times": 1,
				})
				if _, err := throttledTenant.Profile(t.Context()); outcome.KindOf(err) != outcome.Throttled {
					t.Fatalf("got %v, want throttled", err)
				}
				time.Sleep(20 * time.Second)
				// A different process makes the calls for the second tenant.
				_, err := secondTenant.Profile(t.Context())
				if isHeldBack && (outcome.KindOf(err) != outcome.Throttled || outcome.RetryAfter(err) < 30*time.Second) || !isHeldBack && err != nil {
					t.Errorf("the second tenant's call to Graph: %v with a wait of %s, want held back: %v", err, outcome.RetryAfter(err), isHeldBack)
				}
				if _, err := secondTenant.Mailboxes(t.Context()); err != nil {
					t.Errorf("the second tenant's call to Exchange: %v, want no error", err)
				}
				time.Sleep(40 * time.Second)
				for _, client := range []sdk.MailTenant{throttledTenant, secondTenant} {
					if _, err := client.Profile(t.Context()); err != nil {
						t.Errorf("a call after the wait: %v, want no error", err)
					}
				}
				env.expectNoViolation()
			})
		})
	}
}
