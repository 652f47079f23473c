// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/simulator"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract"
)

// hang is a timeout that only a call that never ends reaches, however slow the machine is.
const hang = 4 * time.Minute

// sharedApplication is the app registration that all simulators of this package share, because
// generating its key is slow.
var sharedApplication struct {
	sync.Mutex
	saved []byte
}

// startSimulator starts a simulator with the shared app registration.
func startSimulator(o simulate.Options) (http.Handler, simulate.Ready, error) {
	sharedApplication.Lock()
	defer sharedApplication.Unlock()
	path := filepath.Join(o.DataDir, "app.json")
	if sharedApplication.saved != nil {
		if err := os.WriteFile(path, sharedApplication.saved, 0o600); err != nil {
			return nil, simulate.Ready{}, err
		}
	}
	handler, ready, err := simulator.New(o)
	if err == nil && sharedApplication.saved == nil {
		sharedApplication.saved, err = os.ReadFile(path)
	}
	return handler, ready, err
}

// testEnv is a platform of the plugin and its simulator. It implements contract.MailPlatformEnv.
type testEnv struct {
	*conformance.Simulator
	platform    sdk.MailPlatform
	dnsServer   *dnsServer
	lastNumber  atomic.Int64
	clockOffset atomic.Int64 // how far the simulator's clock was advanced
}

// newTestEnv returns an environment whose platform runs in the test process.
func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	return newTestEnvWith(t, func(c sdk.Connection) sdk.MailPlatform {
		state := newProcessState()
		state.retry = call.RetryPolicy{MaxAttempts: 3, BaseDelay: 20 * time.Millisecond}
		state.httpClient.Transport = graphValidator{next: state.httpClient.Transport, base: c.Settings["graph_url"], t: t, description: graphDescription(t)}
		platform, err := state.newPlatform(c)
		if err != nil {
			t.Fatal(err)
		}
		return platform
	})
}

func newTestEnvWith(t conformance.T, newPlatform func(sdk.Connection) sdk.MailPlatform) *testEnv {
	t.Helper()
	env := &testEnv{dnsServer: newDNSServer(t)}
	env.Simulator = conformance.Simulate(t, func(o simulate.Options) (http.Handler, simulate.Ready, error) {
		o.World = env.dnsServer.url
		return startSimulator(o)
	})
	t.Cleanup(func() {
		for _, call := range env.Violations(t) {
			t.Errorf("the simulator reports %s: %s %s, answered %d, at %s", call.Violation, call.Operation, call.Path, call.Status, call.At)
		}
	})
	env.platform = newPlatform(env.Connection(map[string]string{"pacing": "0"}, nil))
	return env
}

func (env *testEnv) Platform() ports.MailPlatform { return env.platform }

// control calls the simulator's control interface.
func (env *testEnv) control(t conformance.T, method, path string, body any) (out map[string]any) {
	t.Helper()
	env.Control(t, method, path, body, &out)
	return out
}

func (env *testEnv) NewTenant(t conformance.T, s contract.Setup) contract.Tenant {
	t.Helper()
	name := fmt.Sprintf("Contract %d", env.lastNumber.Add(1))
	in := map[string]any{"name": name}
	if s.Dehydrated {
		in["bootstrap"] = "dehydrated"
	}
	if s.Denied {
		in["bootstrap"] = "denied"
	}
	if s.SMTPAuthRefused {
		in["smtp_auth"] = "refused"
	}
	made := env.control(t, http.MethodPost, "/tenants", in)
	id, admin := made["tenant_id"].(string), made["admin"].(string)
	behaviour := map[string]any{"consent_ms": 20, "role_ms": 200, "domain_ms": 50}
	if s.AcceptedDomainLag > 0 {
		behaviour["accepted_domain_ms"] = s.AcceptedDomainLag.Milliseconds()
	}
	if s.MailboxLag > 0 {
		behaviour["mailbox_ms"] = s.MailboxLag.Milliseconds()
	}
	if s.TracePage > 0 {
		behaviour["trace_page"] = s.TracePage
	}
	if s.Licenses != (tenant.Licenses{}) {
		behaviour["licenses"] = map[string]any{"paid": s.Licenses.Paid, "trial": s.Licenses.Trial}
	}
	behaviour["rule_ms"], behaviour["trace_ms"] = s.RuleLag.Milliseconds(), s.TraceLag.Milliseconds()
	env.control(t, http.MethodPost, "/tenants/"+id+"/behaviour", behaviour)
	_, initial, _ := strings.Cut(admin, "@")
	return contract.Tenant{
		GUID: tenant.GUID(id), Name: name, Admin: admin, Member: "user@" + initial,
		Guest: "guest_partner.example#EXT#@" + initial,
	}
}

// Visit submits the form of a page and returns the query of the redirect.
func (env *testEnv) Visit(t conformance.T, page, username string, accept bool) string {
	t.Helper()
	form := url.Values{"username": {username}, "decision": {"deny"}}
	if accept {
		form.Set("decision", "accept")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusFound {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("the page answers %d: %s", resp.StatusCode, body)
	}
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return back.RawQuery
}

func (env *testEnv) NewZone(conformance.T) string {
	return fmt.Sprintf("zone-%d.test", env.lastNumber.Add(1))
}

func (env *testEnv) Publish(_ conformance.T, zone string, records ...dns.Record) {
	env.dnsServer.publish(zone, records)
}

func (env *testEnv) Advance(t conformance.T, d time.Duration) {
	t.Helper()
	env.control(t, http.MethodPost, "/clock", map[string]string{"advance": d.String()})
	env.clockOffset.Add(int64(d))
}

// Now returns the time of the simulator's clock.
func (env *testEnv) Now(conformance.T) time.Time {
	return time.Now().UTC().Add(time.Duration(env.clockOffset.Load()))
}

func (env *testEnv) Send(t conformance.T, _ tenant.GUID, mailbox string, count int) {
	t.Helper()
	env.control(t, http.MethodPost, "/messages", map[string]any{"mailbox": mailbox, "count": count})
}

func (env *testEnv) SetRule(t conformance.T, id tenant.GUID, r sendlimit.Rule) {
	t.Helper()
	env.control(t, http.MethodPost, "/tenants/"+string(id)+"/rules", map[string]any{"name": r.Name, "enabled": r.Enabled, "senders": r.Lists})
}

func (env *testEnv) Rules(t conformance.T, id tenant.GUID) map[string][]string {
	t.Helper()
	rules, _ := env.control(t, http.MethodGet, "/tenants/"+string(id), nil)["rules"].([]any)
	out := map[string][]string{}
	for _, r := range rules {
		rule := r.(map[string]any)
		var stopped []string
		for _, address := range rule["blocks"].([]any) {
			stopped = append(stopped, address.(string))
		}
		out[rule["name"].(string)] = stopped
	}
	return out
}

func (env *testEnv) Revoke(t conformance.T, id tenant.GUID, what contract.Grant) {
	t.Helper()
	env.control(t, http.MethodPost, "/tenants/"+string(id)+"/revoke", map[string]string{"what": string(what)})
}

func (env *testEnv) Fail(t conformance.T, _ tenant.GUID, method string, how contract.Failure) func() {
	t.Helper()
	faults := map[string][]map[string]any{
		"Domains":       {{"match": "GET /graph/v1.0/domains"}},
		"AddDomain":     {{"match": "POST /graph/v1.0/domains"}},
		"CreateMailbox": {{"operation": "New-Mailbox"}},
		"Rename":        {{"operation": "Set-Mailbox"}},
		"Sent":          {{"operation": "Get-MessageTraceV2"}},
		"Rules":         {{"operation": "Get-TransportRule"}},
		"Block": {
			{"operation": "New-TransportRule"}, {"operation": "Set-TransportRule"},
			{"operation": "Enable-TransportRule"}, {"operation": "Disable-TransportRule"},
		},
	}
	kinds := map[contract.Failure]string{contract.LosesRequest: "drop_before", contract.LosesAnswer: "drop_after"}
	statuses := map[contract.Failure]int{contract.Throttles: 429, contract.IsDown: 503, contract.Breaks: 500}
	for _, fault := range faults[method] {
		if fault["kind"] = kinds[how]; kinds[how] == "" {
			fault["kind"], fault["status"] = "status", statuses[how]
		}
		fault["times"] = 1000
		env.control(t, http.MethodPost, "/faults", fault)
	}
	return func() { env.control(t, http.MethodDelete, "/faults", nil) }
}

// TestContract runs the contract suite of the port with the plugin and its simulator.
func TestContract(t *testing.T) {
	env := newTestEnv(t)
	contract.MailPlatform(t, func(conformance.T) contract.MailPlatformEnv { return env })
}

// TestBinary runs every suite of a mail platform over the built plugin.
func TestBinary(t *testing.T) {
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
