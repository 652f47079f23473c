// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/sandbox"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

func secretOf(text string) secret.Text { return secret.New(text) }

// fixture is a sandbox with the fake simulator and a fake service.
type fixture struct {
	t           testing.TB
	environment *sandbox.Environment
	service     *service
	ready       sandbox.Ready
	tenant      string // the id of the first tenant that the sandbox offers
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, service: newService(t)}
	f.environment = startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake", "nosimulator"), Seed: true})
	var err error
	if f.ready, err = f.environment.Open(t.Context(), f.service.services(f.environment)); err != nil {
		t.Fatal(err)
	}
	f.tenant = f.ready.Tenants[0].TenantID
	return f
}

func (f *fixture) call(method, path, body string) (int, string) {
	f.t.Helper()
	return sendRequest(f.t, method, f.ready.ControlURL+path, body)
}

// mustCall makes a call whose answer must be 200 with exactly the body want.
func (f *fixture) mustCall(method, path, body, want string) {
	f.t.Helper()
	if status, got := f.call(method, path, body); status != http.StatusOK || got != want {
		f.t.Fatalf("%s %s: got %d %s, want %s", method, path, status, got, want)
	}
}

func TestControlCreatesAccountsAndSetsPlans(t *testing.T) {
	fixture := newFixture(t)
	status, body := fixture.call("POST", "/accounts", `{"email":"new@example.com","plan":"legacy_trial","tenant_slots":2,"key_form":"trial"}`)
	var created struct {
		Account string `json:"account_id"`
		Key     string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s, want 200 and JSON", status, body)
	}
	if form, err := access.ParseKey("tny", secretOf(created.Key)); form != access.Trial || err != nil {
		t.Fatalf("the form of the key is %s (%v), want trial", form, err)
	}
	if key, exists := fixture.service.keys[access.HashKey(secretOf(created.Key))]; !exists || string(key.Account) != created.Account {
		t.Fatalf("the key does not belong to account %s", created.Account)
	}
	fixture.mustCall("POST", "/accounts/"+created.Account+"/plan", `{"plan":"api_growth","active":false,"tenant_slots":7}`, "{}")
	acc, err := fixture.service.FindAccount(t.Context(), "new@example.com")
	if err != nil || acc.Active || acc.Plan.Name != "api_growth" || acc.Plan.TenantSlots != 7 {
		t.Fatalf("got %+v, %v, want an inactive account with api_growth and 7 slots", acc, err)
	}
}

func TestControlCreatesABoundedKey(t *testing.T) {
	fixture := newFixture(t)
	status, body := fixture.call("POST", "/accounts/"+fixture.ready.AccountID+"/keys",
		`{"name":"reports","scopes":["events:read"],"tenant_ids":["`+fixture.tenant+`"],"allowed_cidrs":["192.0.2.0/24"],"expires_at":"2999-01-01T00:00:00Z"}`)
	var created struct {
		ID  string `json:"key_id"`
		Key string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusOK {
		t.Fatalf("got %d %s, want 200 and JSON", status, body)
	}
	key := fixture.service.keys[access.HashKey(secretOf(created.Key))]
	want := access.Bounds{
		Scopes: []access.Scope{"events:read"}, Tenants: []tenant.GUID{tenant.GUID(fixture.tenant)},
		Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, ExpiresAt: time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	if key.ID != created.ID || key.Name != "reports" || string(key.Account) != fixture.ready.AccountID || !reflect.DeepEqual(key.Bounds, want) {
		t.Errorf("the key is %+v, want the bounds %+v", key, want)
	}
}

func TestConsentConnectsTheTenant(t *testing.T) {
	fixture := newFixture(t)
	key := `{"api_key":"` + fixture.ready.APIKey + `"}`
	fixture.mustCall("POST", "/tenants/"+fixture.tenant+"/consent", key, "{}")
	fixture.mustCall("GET", "/tenants/"+fixture.tenant, "", `{"consent":"granted"}`)

	fixture.service.confirmStatus = http.StatusPaymentRequired
	status, body := fixture.call("POST", "/tenants/"+fixture.tenant+"/consent", key)
	if status != http.StatusConflict || body != `{"error":"Tenant limit reached","page_status":402}` {
		t.Errorf("a refused confirmation: got %d %s, want 409 with the page's heading and status", status, body)
	}
	status, body = fixture.call("POST", "/tenants/"+fixture.tenant+"/consent", `{"api_key":"tny_live_0"}`)
	if status != http.StatusConflict || body != `{"error":"connect-url: invalid_api_key: the API key is not valid","page_status":401}` {
		t.Errorf("an unknown API key: got %d %s, want 409 with the error of connect-url", status, body)
	}
}

func TestControlAssignsAndWithdrawsATenant(t *testing.T) {
	fixture := newFixture(t)
	body := `{"tenant_id":"` + fixture.tenant + `","account_id":"` + fixture.ready.AccountID + `"}`
	fixture.service.refusedAssignments = 2
	fixture.mustCall("POST", "/managed", body, "{}")
	fixture.mustCall("GET", "/tenants/"+fixture.tenant, "", `{"consent":"granted"}`)
	if fixture.service.owners[tenant.GUID(fixture.tenant)] != access.AccountID(fixture.ready.AccountID) {
		t.Fatal("the tenant is not assigned to the account")
	}
	if status, _ := fixture.call("POST", "/managed", body); status != http.StatusBadRequest {
		t.Errorf("a tenant that is already assigned: got %d, want 400", status)
	}
	fixture.mustCall("DELETE", "/managed/"+fixture.tenant, "", "{}")
	if status, _ := fixture.call("DELETE", "/managed/"+fixture.tenant, ""); status != http.StatusNotFound {
		t.Errorf("a tenant that is withdrawn again: got %d, want 404", status)
	}
}

func TestControlCreatesAndEditsZones(t *testing.T) {
	fixture := newFixture(t)
	fixture.mustCall("POST", "/zones", `{"name":"new.example","provider":"manual"}`, "{}")
	fixture.mustCall("GET", "/zones/new.example/records", "", "[]")
	if status, _ := fixture.call("POST", "/zones", `{"name":"elsewhere.example","provider":"not-simulated"}`); status != http.StatusBadRequest {
		t.Errorf("a zone at a provider without a simulator: got %d, want 400", status)
	}
	records := `[{"type":"MX","name":"new.example","content":"m.example.net","ttl":60,"priority":0},` +
		`{"type":"TXT","name":"new.example","content":"v=spf1 -all","ttl":60}]`
	fixture.mustCall("PUT", "/zones/new.example/records", records, "{}")
	fixture.mustCall("GET", "/zones/new.example/records", "", records)
	fixture.mustCall("PUT", "/zones/new.example/records", "[]", "{}")
	fixture.mustCall("GET", "/zones/new.example/records", "", "[]")
}

// TestConcurrentMovesOfTheClockAddUp checks that no move is lost when calls overlap, and that the
// last time that a simulator receives is the time of the service.
func TestConcurrentMovesOfTheClockAddUp(t *testing.T) {
	fixture := newFixture(t)
	const moves = 20
	before := fixture.environment.Now()
	var calls sync.WaitGroup
	for range moves {
		calls.Go(func() {
			if status, body := fixture.call("POST", "/clock", `{"advance":"1h"}`); status != http.StatusOK {
				t.Errorf("got %d %s, want 200", status, body)
			}
		})
	}
	calls.Wait()
	now := fixture.environment.Now()
	if ahead := now.Sub(before); ahead < moves*time.Hour || ahead > moves*time.Hour+10*time.Minute {
		t.Errorf("after %d moves by 1h the clock is ahead by %s, want %dh", moves, ahead, moves)
	}
	received := fixture.receivedCalls()
	var lastMove struct {
		Now time.Time `json:"now"`
	}
	must(t, json.Unmarshal([]byte(strings.TrimPrefix(received[len(received)-1], "POST /_control/clock ")), &lastMove))
	if behind := now.Sub(lastMove.Now); len(received) != moves || behind < 0 || behind > 10*time.Minute {
		t.Errorf("the simulator received %d times, the last %s, want %d times, the last %s", len(received), lastMove.Now, moves, now)
	}
}

func TestClockMovesServiceAndSimulators(t *testing.T) {
	fixture := newFixture(t)
	before := time.Now()
	fixture.mustCall("POST", "/clock", `{"advance":"24h"}`, "{}")
	if ahead := fixture.environment.Now().Sub(before); ahead < 24*time.Hour || ahead > 24*time.Hour+10*time.Minute {
		t.Fatalf("the clock is ahead by %s, want 24h", ahead)
	}
	fixture.mustCall("POST", "/clock", `{"now":"2030-01-02T03:04:05Z"}`, "{}")
	newTime := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	if now := fixture.environment.Now(); now.Before(newTime) || now.After(newTime.Add(10*time.Minute)) {
		t.Fatalf("the clock shows %s, want %s or a little later", now, newTime)
	}
	if fixture.service.wakeCalls != 2 {
		t.Errorf("due jobs were woken %d times, want once for each move", fixture.service.wakeCalls)
	}
	if received := fixture.receivedCalls(); len(received) != 2 || received[1] != `POST /_control/clock {"now":"2030-01-02T03:04:05Z"}` {
		t.Fatalf("the simulator received %q, want two calls, the second with the new time", received)
	}
}

// receivedCalls returns the control calls that the fake simulator received.
func (f *fixture) receivedCalls() []string {
	f.t.Helper()
	status, body := f.call("GET", "/calls?provider=fake", "")
	var received []string
	if err := json.Unmarshal([]byte(body), &received); err != nil || status != http.StatusOK {
		f.t.Fatalf("got %d %s, want 200 and JSON", status, body)
	}
	return received
}

func TestControlCallsReachTheSimulators(t *testing.T) {
	fixture := newFixture(t)
	fault := `{"provider":"fake","kind":"status","status":503,"times":1}`
	fixture.mustCall("POST", "/faults", fault, "{}")
	fixture.mustCall("DELETE", "/faults", "", "{}")
	fixture.mustCall("DELETE", "/calls", "", "{}")
	fixture.mustCall("POST", "/tenants/"+fixture.tenant+"/revoke", `{"what":"consent"}`, "{}")
	fixture.mustCall("POST", "/tenants/"+fixture.tenant+"/behaviour", `{"trace_ms":0}`, "{}")
	fixture.mustCall("POST", "/messages", `{"count":1}`, "{}")
	fixture.mustCall("POST", "/plugins/fake/kill", "", "{}")
	want := []string{
		"POST /_control/faults " + fault, "DELETE /_control/faults ", "DELETE /_control/calls ",
		"POST /_control/tenants/" + fixture.tenant + `/revoke {"what":"consent"}`,
		"POST /_control/tenants/" + fixture.tenant + `/behaviour {"trace_ms":0}`, `POST /_control/messages {"count":1}`,
	}
	if diff := cmp.Diff(want, fixture.receivedCalls()); diff != "" {
		t.Errorf("calls of the simulator (-want +got):\n%s", diff)
	}
	fixture.mustCall("POST", "/enforcement/run", "", "{}")
	if fixture.service.enforceCalls != 1 {
		t.Errorf("limits were enforced %d times, want once", fixture.service.enforceCalls)
	}
	if !slices.Equal(fixture.service.killed, []string{"fake"}) {
		t.Errorf("the killed plugins are %v, want only fake", fixture.service.killed)
	}
}

func TestRestartKeepsTheState(t *testing.T) {
	service := newService(t)
	options := sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake"), Seed: true}
	// startWith starts a sandbox with the same data, calls use, and closes the sandbox.
	startWith := func(use func(env *sandbox.Environment, ready sandbox.Ready)) sandbox.Ready {
		t.Helper()
		env, err := sandbox.Start(t.Context(), options)
		must(t, err)
		defer closeEnvironment(t, env)
		ready, err := env.Open(t.Context(), service.services(env))
		must(t, err)
		use(env, ready)
		return ready
	}
	firstStart := startWith(func(env *sandbox.Environment, ready sandbox.Ready) {
		sendRequest(t, "PUT", ready.ControlURL+"/zones/example-two.test/records", `[{"type":"A","name":"example-two.test","content":"192.0.2.1","ttl":60}]`)
		sendRequest(t, "POST", ready.ControlURL+"/clock", `{"advance":"48h"}`)
		if status, body := sendRequest(t, "POST", ready.ControlURL+"/tenants/"+ready.Tenants[0].TenantID+"/consent", `{"api_key":"`+ready.APIKey+`"}`); status != http.StatusOK {
			t.Fatalf("consent: got %d %s, want 200", status, body)
		}
	})
	if firstStart.UserEmail != "owner@example.com" || len(firstStart.Tenants) != 3 || len(firstStart.Zones) != 12 || firstStart.Zones[11] != "example-twelve.test" {
		t.Fatalf("got %+v, want owner@example.com with 3 tenants and 12 zones", firstStart)
	}
	secondStart := startWith(func(env *sandbox.Environment, ready sandbox.Ready) {
		if _, body := sendRequest(t, "GET", ready.ControlURL+"/zones/example-two.test/records", ""); !strings.Contains(body, "192.0.2.1") {
			t.Errorf("after a restart the records are %s, want 192.0.2.1", body)
		}
		if time.Until(env.Now()) < 47*time.Hour {
			t.Errorf("after a restart the clock shows %s, want about 48h ahead", env.Now())
		}
	})
	if secondStart.APIKey != firstStart.APIKey || secondStart.AccountID != firstStart.AccountID {
		t.Errorf("after a restart: got %v, want the same API key and account", secondStart)
	}
	if secondStart.Tenants[0] != firstStart.Tenants[1] || len(secondStart.Tenants) != 3 {
		t.Errorf("the restart offers %v after %v, want three tenants without the connected first one", secondStart.Tenants, firstStart.Tenants)
	}
	delete(service.keys, access.HashKey(secretOf(firstStart.APIKey))) // a rotation without overlap does the same
	afterLostKey := startWith(func(*sandbox.Environment, sandbox.Ready) {})
	if afterLostKey.APIKey == firstStart.APIKey || afterLostKey.AccountID != firstStart.AccountID {
		t.Errorf("the start after the key was deleted: got account %s, want a new key of account %s", afterLostKey.AccountID, firstStart.AccountID)
	}
	service.replaced = map[[32]byte]time.Time{access.HashKey(secretOf(afterLostKey.APIKey)): time.Now().Add(time.Hour)}
	afterRotation := startWith(func(*sandbox.Environment, sandbox.Ready) {})
	if afterRotation.APIKey == afterLostKey.APIKey || afterRotation.AccountID != firstStart.AccountID {
		t.Errorf("the start after a rotation with overlap: got account %s, want a new key of account %s", afterRotation.AccountID, firstStart.AccountID)
	}
	service.accounts[0].ClosedAt = time.Now()
	afterClosing := startWith(func(*sandbox.Environment, sandbox.Ready) {})
	if afterClosing.AccountID == firstStart.AccountID || afterClosing.APIKey == afterRotation.APIKey || afterClosing.UserEmail != firstStart.UserEmail {
		t.Errorf("the start after the account was closed: got account %s of %s, want a new account with a new key", afterClosing.AccountID, afterClosing.UserEmail)
	}
	if info, err := os.Stat(options.DataDir + "/sandbox/api-key.json"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the API key: %v, %v, want the mode 0600", info, err)
	}
}

func TestUnseededSandboxIsEmpty(t *testing.T) {
	service := newService(t)
	env := startSandbox(t, sandbox.Options{DataDir: t.TempDir(), PluginDir: pluginDirWith(t, "fake")})
	ready, err := env.Open(t.Context(), service.services(env))
	must(t, err)
	if len(ready.Zones) != 0 || len(ready.Tenants) != 0 || ready.APIKey == "" || len(service.accounts) != 1 {
		t.Fatalf("got %+v, want an API key without zones and tenants, and one account", ready)
	}
	if status, _ := sendRequest(t, "GET", ready.ControlURL+"/zones/example-one.test/records", ""); status != http.StatusNotFound {
		t.Fatalf("the records of a zone that was not seeded: got %d, want 404", status)
	}
}

// TestTenantsOfAnEarlierMailPlatformAreNotOffered starts a sandbox whose data has a tenant that the
// mail platform does not know.
func TestTenantsOfAnEarlierMailPlatformAreNotOffered(t *testing.T) {
	data := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(data, "sandbox"), 0o700))
	must(t, os.WriteFile(filepath.Join(data, "sandbox", "tenants.json"), []byte(`[{"tenant_id":"of-another-platform","admin":"a@b.c","name":"Old","seeded":true}]`), 0o600))
	env := startSandbox(t, sandbox.Options{DataDir: data, PluginDir: pluginDirWith(t, "fake"), Seed: true})
	ready, err := env.Open(t.Context(), newService(t).services(env))
	isOld := func(offered sandbox.Tenant) bool { return offered.Name == "Old" }
	if err != nil || len(ready.Tenants) != 3 || slices.ContainsFunc(ready.Tenants, isOld) {
		t.Errorf("the sandbox offers %v, %v, want three new tenants", ready.Tenants, err)
	}
}
