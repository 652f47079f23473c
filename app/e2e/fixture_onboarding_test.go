// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// onboarding takes one tenant from the connection to working mailboxes, one request a step. The
// caller repeats each request until it succeeds.
type onboarding struct {
	*restartingSandbox
	tenant, domain, mailbox string
	writes                  int // the number of writes with an Idempotency-Key that succeeded
}

// step is one request of the onboarding. checkReply, if set, checks the successful response.
type step struct {
	name        string
	makeRequest func(e *onboarding) request
	checkReply  func(e *onboarding, got reply)
}

func newOnboarding(m *restartingSandbox) *onboarding {
	m.t.Helper()
	e := &onboarding{restartingSandbox: m, tenant: m.ready.Tenants[0].TenantID, domain: m.ready.Zones[0]}
	m.control("POST", "/tenants/"+e.tenant+"/behaviour", noDelays())
	return e
}

// noDelays is the behaviour of a simulated tenant that completes every operation at once.
func noDelays() object {
	return object{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0}
}

func (e *onboarding) path(rest string) string { return "/v1/tenants/" + e.tenant + rest }

func (e *onboarding) accountTenant() accountTenant {
	return accountTenant{caller: seededAccount(e.t, e.ready), guid: e.tenant}
}

// onboardingSteps returns the steps from a tenant that is not connected to working mailboxes. Each
// request can be repeated, whatever the outcome of the previous attempt.
func onboardingSteps() []step {
	fixed := func(method, rest string, body any) func(*onboarding) request {
		return func(e *onboarding) request { return request{method: method, path: e.path(rest), body: body} }
	}
	inDomain := func(rest string) func(*onboarding) request {
		return func(e *onboarding) request {
			return request{method: "POST", path: e.path("/domains/" + e.domain + rest)}
		}
	}
	publish := func(e *onboarding, _ reply) { e.accountTenant().publishRecords(e.domain) }
	return []step{
		{name: "connect", makeRequest: func(e *onboarding) request {
			return request{method: "POST", path: "/tenants/" + e.tenant + "/consent", body: object{"api_key": "of the account"}, control: true}
		}},
		{name: "sync", makeRequest: fixed("POST", "/sync", nil), checkReply: func(e *onboarding, got reply) { e.checkEqual("sync", got.text("status"), "completed") }},
		{name: "add domain", makeRequest: func(e *onboarding) request {
			return request{method: "POST", path: e.path("/domains"), body: object{"domain": e.domain}}
		}, checkReply: func(e *onboarding, got reply) {
			e.checkEqual("add domain", got.text("status"), "added")
			publish(e, got)
		}},
		{name: "verify", makeRequest: inDomain("/verify"), checkReply: publish},
		{name: "enable-dkim", makeRequest: inDomain("/enable-dkim")},
		{name: "provision", makeRequest: func(e *onboarding) request {
			return request{method: "POST", path: e.path("/mailboxes"), body: mailboxesBody(e.domain, "ada", "max", "lise")}
		}, checkReply: func(e *onboarding, got reply) {
			e.checkEqual("created mailboxes", got.text("created_count"), 3)
			e.mailbox = e.accountTenant().get(e.path("/mailboxes")).objects("mailboxes")[0].text("id")
		}},
		{name: "rename", makeRequest: func(e *onboarding) request {
			return request{method: "PATCH", path: e.path("/mailboxes/" + e.mailbox), body: object{"display_name": "Ada Lovelace", "daily_send_limit": 7}}
		}},
	}
}

// run executes the steps; do sends the request of a step. All attempts of a step use the same
// Idempotency-Key.
func (e *onboarding) run(steps []step, do func(step, request) reply) {
	e.t.Helper()
	for _, s := range steps {
		r := s.makeRequest(e)
		r.idempotencyKey = rand.Text()
		got := do(s, r)
		if r.method != http.MethodGet && !r.control && strings.HasPrefix(r.path, "/v1/") {
			e.writes++
		}
		if s.checkReply != nil {
			s.checkReply(e, got)
		}
	}
}

// writesExpectedOnce are the platform operations that must not be repeated after a failure: they
// create something, or a read shows that they are done. The value is the number of times that the
// onboarding needs them.
var writesExpectedOnce = map[string]int{
	"create-roleAssignments": 1, "Set-TransportConfig": 1,
	"domain.create": 1, "domain.verify": 1, "domain.update": 1,
	"New-DkimSigningConfig": 1, "Set-DkimSigningConfig": 1,
	"New-Mailbox": 3,
}

// checkOutcome compares the state of the mail platform and of the service with the result of an
// onboarding without failures.
func (e *onboarding) checkOutcome() {
	e.t.Helper()
	done, unsure := e.operationCounts()
	for operation, want := range writesExpectedOnce {
		if done[operation] > want || done[operation]+unsure[operation] < want {
			e.t.Errorf("%s was done %d times (and possibly %d more), want %d (after %v)", operation, done[operation], unsure[operation], want, e.hitFailpoints)
		}
	}
	domains, mailboxes := e.platformState(e.tenant)
	e.checkEqual("domains at the platform", len(domains), 1)
	for _, d := range domains {
		e.checkEqual("domain", d, object{"name": e.domain, "verified": true, "default": false, "dkim_enabled": true})
	}
	e.checkEqual("mailboxes at the platform", len(mailboxes), 3)
	for _, m := range mailboxes {
		e.checkEqual("mailbox", m, object{"address": m["address"], "enabled": true, "password_set": true})
	}
	h := e.accountTenant()
	e.checkEqual("stored domains", h.get(h.path("/domains")).text("count"), 1)
	stored := h.get(h.path("/mailboxes"))
	e.checkEqual("stored mailboxes", stored.text("count"), 3)
	names := map[string]int{}
	for _, m := range stored.objects("mailboxes") {
		names[m.text("display_name")]++
		if m.text("id") == e.mailbox {
			e.checkEqual("stored limit", m.text("daily_send_limit"), 7)
		}
	}
	e.checkEqual("renamed mailboxes", names["Ada Lovelace"], 1)
	h.expect("POST", h.path("/mailboxes"), mailboxesBody(e.domain, "fourth"), 400, "mailbox_limit_reached")
	e.checkEqual("next step", h.nextStep(), nil)
}

// checkDomainSlots adds domains up to the limit of 12. A crash must not have changed the number of
// free slots.
func (e *onboarding) checkDomainSlots() {
	e.t.Helper()
	h := e.accountTenant()
	for _, zone := range e.ready.Zones[1:] {
		h.post(h.path("/domains"), object{"domain": zone})
		e.writes++
	}
	h.expect("POST", h.path("/domains"), object{"domain": "thirteenth.test"}, 400, "domain_limit_reached")
	domains, _ := e.platformState(e.tenant)
	e.checkEqual("domains at the platform", len(domains), 12)
}

func retrying(e *onboarding) func(step, request) reply {
	return func(_ step, r request) reply { return e.retryUntilSuccess(r) }
}

// restartingSandbox is a sandbox that is killed and started again on its data folder.
type restartingSandbox struct {
	client
	binary  programs
	data    string
	process *process
	// armedFailpoints are still to be hit; hitFailpoints were hit.
	armedFailpoints, hitFailpoints []string
	extraEnv                       []string // environment variables besides the failpoints
	flags                          []string
}

func newRestartingSandbox(t *testing.T, b programs, armed []string) *restartingSandbox {
	t.Helper()
	m := &restartingSandbox{client: client{t: t}, binary: b, data: t.TempDir(), armedFailpoints: armed}
	m.start()
	return m
}

// start starts the service. A background job can reach a failpoint before the service is ready.
func (m *restartingSandbox) start() {
	m.t.Helper()
	env := append([]string{"TENANTRY_FAILPOINTS=" + strings.Join(m.armedFailpoints, ",")}, m.extraEnv...)
	p, ready, err := launchDev(m.binary, m.data, env, m.flags...)
	if p != nil {
		p.stopAtEnd(m.t)
	}
	m.process, m.ready = p, ready
	switch {
	case err == nil:
	case p != nil && m.disarmHit():
		m.start()
	default:
		m.t.Fatal(err)
	}
}

var failpointLine = regexp.MustCompile(`(?m)^failpoint (.+)$`)

// disarmHit disarms the failpoint that killed the service. It returns false if none did.
func (m *restartingSandbox) disarmHit() bool {
	found := failpointLine.FindStringSubmatch(m.process.logs.String())
	if found == nil {
		return false
	}
	m.hitFailpoints = append(m.hitFailpoints, found[1])
	m.armedFailpoints = slices.DeleteFunc(slices.Clone(m.armedFailpoints), func(name string) bool { return name == found[1] })
	return true
}

// request is sent until it succeeds.
type request struct {
	method, path string
	body         any
	control      bool
	// doneStatus is the status, besides 2xx, which says that an operation without a repeatable
	// result is already done.
	doneStatus int
	// retryCode is the error code of a refusal that is temporary.
	retryCode string
	// idempotencyKey is sent with each attempt. If it is empty, each attempt has a new key.
	idempotencyKey string
}

func (m *restartingSandbox) send(r request) (reply, error) {
	if r.control {
		return m.tryDo(r.method, m.ready.ControlURL+r.path, "", withAPIKey(r.body, m.ready.APIKey))
	}
	return m.tryWithKey(cmp.Or(r.idempotencyKey, rand.Text()), r.method, m.ready.APIURL+r.path, m.ready.APIKey, r.body)
}

// withAPIKey replaces the API key in a body, because some restarts change the key.
func withAPIKey(body any, key string) any {
	if o, ok := body.(object); ok && o["api_key"] != nil {
		return object{"api_key": key}
	}
	return body
}

// retryUntilSuccess sends a request until it succeeds. It restarts the service after a failpoint,
// and repeats requests that are answered 503, 504 or with retryCode.
func (m *restartingSandbox) retryUntilSuccess(r request) reply {
	m.t.Helper()
	r.idempotencyKey = cmp.Or(r.idempotencyKey, rand.Text())
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); {
		got, err := m.send(r)
		switch {
		case err != nil:
			m.restartAfterFailpoint(r, err)
		case got.status < 300, r.doneStatus != 0 && got.status == r.doneStatus:
			return got
		case got.status == http.StatusServiceUnavailable || got.status == http.StatusGatewayTimeout, r.retryCode != "" && got.code() == r.retryCode:
			<-time.After(100 * time.Millisecond)
		default:
			m.t.Fatalf("%s %s: %d %s (after %v)", r.method, r.path, got.status, got.raw, m.hitFailpoints)
		}
	}
	m.t.Fatalf("%s %s did not succeed in %s", r.method, r.path, waitTimeout)
	return reply{}
}

// restartAfterFailpoint starts the service again after a failpoint killed it. It fails the test if
// the service still runs or ended for a different reason.
func (m *restartingSandbox) restartAfterFailpoint(r request, lost error) {
	m.t.Helper()
	select {
	case <-m.process.done:
	case <-time.After(waitTimeout):
		m.t.Fatalf("%s %s got no answer from a running service: %v", r.method, r.path, lost)
	}
	if !m.disarmHit() {
		m.t.Fatalf("%s %s: the service ended without a failpoint: %v", r.method, r.path, lost)
	}
	m.start()
}

// killAndRestart kills the service with SIGKILL and starts it again.
func (m *restartingSandbox) killAndRestart() {
	m.t.Helper()
	m.process.kill()
	m.start()
}

// operationCounts counts the calls at the simulator by operation. Calls with status 0 got no
// response: they may or may not have taken effect and count as unsure.
func (m *restartingSandbox) operationCounts() (done, unsure map[string]int) {
	m.t.Helper()
	done, unsure = map[string]int{}, map[string]int{}
	for _, call := range m.journal("microsoft365") {
		switch status, _ := call["status"].(float64); {
		case status == 0:
			unsure[call.text("operation")]++
		case status < 400:
			done[call.text("operation")]++
		}
	}
	return done, unsure
}

// platformState returns the tenant's domains and mailboxes at the simulator.
func (m *restartingSandbox) platformState(tenant string) (domains, mailboxes []object) {
	m.t.Helper()
	held := m.control("GET", "/tenants/"+tenant, nil)
	return held.objects("domains"), held.objects("mailboxes")
}

// checkEqual compares two values by their text.
func (m *restartingSandbox) checkEqual(what string, got, want any) {
	m.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		m.t.Errorf("%s: %v, want %v (after %v)", what, got, want, m.hitFailpoints)
	}
}
