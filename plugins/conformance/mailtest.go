// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/ports/contract"
)

// MailFixture is the environment in which the contract suite of a mail platform runs.
type MailFixture = contract.MailPlatformEnv

// MailTest combines the simulator of a mail platform with the plugin's sdk.MailPlatform, which
// calls the simulator. It implements contract.MailPlatformEnv with the control calls that
// docs/plugins.md lists. MailTest also has the methods of Simulator: Connection, Control and
// Violations. MailTest.Fail replaces Simulator.Fail.
type MailTest struct {
	*Simulator
	platform       sdk.MailPlatform
	zones          *zoneServer
	suite          simulate.MailSuite
	tenantsCreated atomic.Int64
	clockOffset    atomic.Int64 // how many nanoseconds the simulator's clock was advanced
}

// SimulateMail starts a simulator as Simulate does, and a DNS server that the simulator queries.
// newPlatform creates the platform under test. The test fails if a call breaks a rule of the
// provider.
func SimulateMail(t T, open opener, newPlatform func(sdk.Connection) sdk.MailPlatform) *MailTest {
	t.Helper()
	zones := newZoneServer(t, "")
	zones.serveDNS(t)
	s := Simulate(t, func(o simulate.Options) (http.Handler, simulate.Ready, error) {
		o.World = zones.url
		return open(o)
	})
	m := newMailTest(t, s, zones)
	m.platform = newPlatform(s.Connection(m.suite.Settings, nil))
	return m
}

func newMailTest(t T, s *Simulator, zones *zoneServer) *MailTest {
	t.Helper()
	m := &MailTest{Simulator: s, zones: zones}
	s.Control(t, http.MethodGet, "/suite", nil, &m.suite)
	t.Cleanup(func() {
		for _, call := range s.Violations(t) {
			t.Errorf("the simulator reports the violation %s of the call %s %s, status %d, at %s", call.Violation, call.Operation, call.Path, call.Status, call.At)
		}
	})
	return m
}

// newMailEnvironment starts the plugin and its simulator, and returns the environment in which Test
// runs the contract suite of a mail platform.
func newMailEnvironment(t T, e *environment) contract.MailPlatformEnv {
	t.Helper()
	zones := newZoneServer(t, e.description.Name)
	zones.serveDNS(t)
	e.start(t, zones.url)
	m := newMailTest(t, e.simulator, zones)
	maps.Copy(e.simulator.Ready.Settings, m.suite.Settings)
	m.platform = e.mail(e.process, e.connection())
	return m
}

// Platform implements contract.MailPlatformEnv.
func (m *MailTest) Platform() sdk.MailPlatform { return m.platform }

// NewTenant implements contract.MailPlatformEnv.
func (m *MailTest) NewTenant(t T, s contract.Setup) contract.Tenant {
	t.Helper()
	name := fmt.Sprintf("Contract %d", m.tenantsCreated.Add(1))
	settings := map[string]any{"name": name}
	if s.Dehydrated {
		settings["bootstrap"] = "dehydrated"
	}
	if s.Denied {
		settings["bootstrap"] = "denied"
	}
	if s.SMTPAuthRefused {
		settings["smtp_auth"] = "refused"
	}
	var created struct {
		ID    string `json:"tenant_id"`
		Admin string `json:"admin"`
	}
	m.Control(t, http.MethodPost, "/tenants", settings, &created)
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
	m.Control(t, http.MethodPost, "/tenants/"+created.ID+"/behaviour", behaviour, nil)
	_, domain, _ := strings.Cut(created.Admin, "@")
	suite := expand(t, m.suite, map[string]any{"$domain": domain})
	return contract.Tenant{GUID: tenant.GUID(created.ID), Name: name, Admin: created.Admin, Member: suite.Member, Guest: suite.Guest, Platform: m.Ready.Provider}
}

// Visit implements contract.MailPlatformEnv. It submits the form of a page and returns the query of
// the redirect.
func (m *MailTest) Visit(t T, page, username string, accept bool) string {
	t.Helper()
	form := url.Values{"username": {username}, "decision": {"deny"}}
	if accept {
		form.Set("decision", "accept")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatalf("submit the form of the page: %v", err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "text/html")
	response, err := noRedirects.Do(request)
	if err != nil {
		t.Fatalf("submit the form of the page: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	redirect, err := response.Location()
	if err != nil {
		t.Fatalf("the page answers %d without a redirect", response.StatusCode)
	}
	return redirect.RawQuery
}

// NewZone implements contract.MailPlatformEnv.
func (m *MailTest) NewZone(T) string { return m.zones.add() }

// Publish implements contract.MailPlatformEnv.
func (m *MailTest) Publish(_ T, zone string, records ...dns.Record) {
	var documents []simulate.Record
	for _, r := range records {
		document := simulate.Record{Type: string(r.Type), Name: r.Name, Content: r.Content, TTL: r.TTL}
		if r.Type == dns.MX {
			document.Priority = &r.Preference
		}
		documents = append(documents, document)
	}
	m.zones.replace(zone, func(simulate.Record) bool { return true }, documents)
}

// Advance implements contract.MailPlatformEnv.
func (m *MailTest) Advance(t T, d time.Duration) {
	t.Helper()
	m.Control(t, http.MethodPost, "/clock", map[string]string{"advance": d.String()}, nil)
	m.clockOffset.Add(int64(d))
}

// Now implements contract.MailPlatformEnv.
func (m *MailTest) Now(T) time.Time {
	return time.Now().UTC().Add(time.Duration(m.clockOffset.Load()))
}

// Send implements contract.MailPlatformEnv.
func (m *MailTest) Send(t T, _ tenant.GUID, mailbox string, count int) {
	t.Helper()
	m.Control(t, http.MethodPost, "/messages", map[string]any{"mailbox": mailbox, "count": count}, nil)
}

// SetRule implements contract.MailPlatformEnv.
func (m *MailTest) SetRule(t T, id tenant.GUID, r sendlimit.Rule) {
	t.Helper()
	m.Control(t, http.MethodPost, "/tenants/"+string(id)+"/rules", map[string]any{"name": r.Name, "enabled": r.Enabled, "senders": r.Lists}, nil)
}

// Rules implements contract.MailPlatformEnv.
func (m *MailTest) Rules(t T, id tenant.GUID) map[string][]string {
	t.Helper()
	var answer struct {
		Rules []struct {
			Name   string   `json:"name"`
			Blocks []string `json:"blocks"`
		} `json:"rules"`
	}
	m.Control(t, http.MethodGet, "/tenants/"+string(id), nil, &answer)
	blocked := map[string][]string{}
	for _, r := range answer.Rules {
		blocked[r.Name] = append([]string(nil), r.Blocks...)
	}
	return blocked
}

// Revoke implements contract.MailPlatformEnv.
func (m *MailTest) Revoke(t T, id tenant.GUID, what contract.Grant) {
	t.Helper()
	m.Control(t, http.MethodPost, "/tenants/"+string(id)+"/revoke", map[string]string{"what": string(what)}, nil)
}

// Fail implements contract.MailPlatformEnv. If method is in mailReads, all requests to the
// simulator fail. Otherwise only requests that write fail.
func (m *MailTest) Fail(t T, _ tenant.GUID, method string, failure contract.Failure) func() {
	t.Helper()
	fault := simulate.Fault{WritesOnly: mailReads[method] == nil}
	switch failure {
	case contract.LosesRequest:
		fault.Kind = simulate.DropBefore
	case contract.LosesAnswer:
		fault.Kind = simulate.DropAfter
	default:
		fault.Kind = simulate.Status
		fault.Status = map[contract.Failure]int{contract.Throttles: 429, contract.IsDown: 503, contract.Breaks: 500}[failure]
	}
	return m.planFault(t, fault)
}
