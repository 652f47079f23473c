// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/sandbox/zones"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/contract"
)

// TestMicrosoft365PluginConforms runs every suite against the built mail-microsoft365 plugin, with
// its own simulator in a second process as the provider.
func TestMicrosoft365PluginConforms(t *testing.T) {
	path := testserver.Program(t, "release/plugins/mail-microsoft365")
	conformance.Mail(t, conformance.Binary{Path: path, Connect: connectMicrosoft},
		func(t testing.TB, newPlatform func(sdk.Connection) sdk.MailPlatform) contract.MailPlatformEnv {
			return newMicrosoftEnv(t, path, newPlatform)
		})
}

func connectMicrosoft(base string) sdk.Connection {
	return sdk.Connection{
		Settings: map[string]string{
			"login_url": base + "/login", "graph_url": base + "/graph", "exchange_url": base + "/exchange",
			"client_id": "11111111-1111-4111-8111-111111111111", "pacing": "0",
		},
		Secrets: map[string]secret.Text{"client_secret": secret.New("not-a-real-one")},
	}
}

// microsoftEnv implements contract.MailPlatformEnv with the plugin and its simulator, each in its own
// process.
type microsoftEnv struct {
	url      string
	platform sdk.MailPlatform
	zones    *zones.Store
	serial   atomic.Int64
	advanced atomic.Int64 // nanoseconds by which the clock of the simulator is ahead
}

func newMicrosoftEnv(t testing.TB, binary string, newPlatform func(sdk.Connection) sdk.MailPlatform) *microsoftEnv {
	t.Helper()
	store, err := zones.Open(t.TempDir() + "/zones.json")
	if err != nil {
		t.Fatal(err)
	}
	server, err := zones.Listen(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	dnsAddress := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"addr": server.Addr()})
	}))
	t.Cleanup(dnsAddress.Close)

	ready := startSimulator(t, binary, dnsAddress.URL)
	c := sdk.Connection{Settings: ready.Settings, Secrets: map[string]secret.Text{}}
	c.Settings["pacing"] = "0"
	for name, value := range ready.Secrets {
		c.Secrets[name] = secret.New(value)
	}
	return &microsoftEnv{url: ready.URL, platform: newPlatform(c), zones: store}
}

// startSimulator starts the simulator of the plugin until the test ends and returns its ready line.
// dnsURL tells the simulator the address of the DNS server.
func startSimulator(t testing.TB, binary, dnsURL string) simulate.Ready {
	t.Helper()
	c := exec.Command(binary, "simulate", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--world", dnsURL)
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = c.Wait()
	})
	var ready simulate.Ready
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		t.Fatalf("the simulator's ready line: %v", err)
	}
	return ready
}

func (e *microsoftEnv) Platform() ports.MailPlatform { return e.platform }

// control calls a path of the simulator's control interface and returns the decoded answer.
func (e *microsoftEnv) control(t testing.TB, method, path string, body any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, e.url+"/_control"+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("control %s %s: %d %v %v", method, path, resp.StatusCode, out, err)
	}
	return out
}

func (e *microsoftEnv) NewTenant(t testing.TB, s contract.Setup) contract.Tenant {
	t.Helper()
	in := map[string]any{"name": fmt.Sprintf("Contract %d", e.serial.Add(1))}
	switch {
	case s.Denied:
		in["bootstrap"] = "denied"
	case s.Dehydrated:
		in["bootstrap"] = "dehydrated"
	}
	if s.SMTPAuthRefused {
		in["smtp_auth"] = "refused"
	}
	made := e.control(t, http.MethodPost, "/tenants", in)
	id, admin := made["tenant_id"].(string), made["admin"].(string)
	behaviour := map[string]any{"consent_ms": 20, "role_ms": 200}
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
	e.control(t, http.MethodPost, "/tenants/"+id+"/behaviour", behaviour)
	_, initial, _ := strings.Cut(admin, "@")
	return contract.Tenant{
		GUID: tenant.GUID(id), Name: in["name"].(string), Admin: admin,
		Member: "user@" + initial, Guest: "guest_partner.example#EXT#@" + initial,
	}
}

// Visit posts the form of the page as a browser does and returns the query of the redirect.
func (e *microsoftEnv) Visit(t testing.TB, page, username string, accept bool) string {
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
	back, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || resp.StatusCode != http.StatusFound {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("the page answers %d: %s", resp.StatusCode, body)
	}
	return back.RawQuery
}

func (e *microsoftEnv) NewZone(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("zone-%d.test", e.serial.Add(1))
	if err := e.zones.Add(name, "manual"); err != nil {
		t.Fatal(err)
	}
	return name
}

func (e *microsoftEnv) Publish(t testing.TB, zone string, records ...dns.Record) {
	t.Helper()
	var list []zones.Record
	for _, r := range records {
		in := zones.Record{Type: string(r.Type), Name: r.Name, Content: r.Content, TTL: 60}
		if r.Type == dns.MX {
			in.Priority = &r.Preference
		}
		list = append(list, in)
	}
	if err := e.zones.Replace(zone, list); err != nil {
		t.Fatal(err)
	}
}

// Advance moves the simulator's clock. The plugin's clock stays, so the provider's clock is ahead.
func (e *microsoftEnv) Advance(t testing.TB, d time.Duration) {
	t.Helper()
	e.control(t, http.MethodPost, "/clock", map[string]string{"advance": d.String()})
	e.advanced.Add(int64(d))
}

// Now returns the time of the simulator's clock.
func (e *microsoftEnv) Now(testing.TB) time.Time {
	return time.Now().UTC().Add(time.Duration(e.advanced.Load()))
}

func (e *microsoftEnv) Send(t testing.TB, _ tenant.GUID, mailbox string, count int) {
	t.Helper()
	e.control(t, http.MethodPost, "/messages", map[string]any{"mailbox": mailbox, "count": count})
}

func (e *microsoftEnv) SetRule(t testing.TB, id tenant.GUID, r sendlimit.Rule) {
	t.Helper()
	e.control(t, http.MethodPost, "/tenants/"+string(id)+"/rules", map[string]any{"name": r.Name, "enabled": r.Enabled, "senders": r.Lists})
}

func (e *microsoftEnv) Rules(t testing.TB, id tenant.GUID) map[string][]string {
	t.Helper()
	held, _ := e.control(t, http.MethodGet, "/tenants/"+string(id), nil)["rules"].([]any)
	out := map[string][]string{}
	for _, r := range held {
		rule := r.(map[string]any)
		var blocked []string
		for _, address := range rule["blocks"].([]any) {
			blocked = append(blocked, address.(string))
		}
		out[rule["name"].(string)] = blocked
	}
	return out
}

func (e *microsoftEnv) Revoke(t testing.TB, id tenant.GUID, what contract.Grant) {
	t.Helper()
	e.control(t, http.MethodPost, "/tenants/"+string(id)+"/revoke", map[string]string{"what": string(what)})
}

func (e *microsoftEnv) Fail(t testing.TB, _ tenant.GUID, method string, how contract.Failure) func() {
	t.Helper()
	for _, fault := range map[string][]map[string]any{
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
	}[method] {
		fault["times"] = 1000
		switch how {
		case contract.LosesRequest:
			fault["kind"] = "drop_before"
		case contract.LosesAnswer:
			fault["kind"] = "drop_after"
		default:
			fault["kind"] = "status"
			fault["status"] = map[contract.Failure]int{contract.Throttles: 429, contract.IsDown: 503, contract.Breaks: 500}[how]
		}
		e.control(t, http.MethodPost, "/faults", fault)
	}
	return func() { e.control(t, http.MethodDelete, "/faults", nil) }
}
