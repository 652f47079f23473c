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

// onboarding takes one tenant from the connection to working mailboxes. Each step is one request.
type onboarding struct {
	*restartingSandbox
	tenant, domain, mailbox string
	writes                  int // the number of writes below /v1 that succeeded
}

// step is one request of the onboarding.
type step struct {
	name        string
	makeRequest func(o *onboarding) request
	// handleReply, if set, checks the successful response or prepares the next step.
	handleReply func(o *onboarding, got reply)
}

// newOnboarding returns the onboarding of the sandbox's first tenant. Its domain is the sandbox's
// first zone.
func newOnboarding(server *restartingSandbox) *onboarding {
	server.t.Helper()
	o := &onboarding{restartingSandbox: server, tenant: server.ready.Tenants[0].TenantID, domain: server.ready.Zones[0]}
	server.control("POST", "/tenants/"+o.tenant+"/behaviour", noDelays())
	return o
}

// noDelays is the behaviour of a simulated tenant that completes every operation at once.
func noDelays() object {
	return object{"consent_ms": 0, "role_ms": 0, "accepted_domain_ms": 0, "mailbox_ms": 0, "domain_ms": 0, "hydrate_ms": 0}
}

func (o *onboarding) path(rest string) string { return "/v1/tenants/" + o.tenant + rest }

// accountTenant returns the tenant with a client of the running service.
func (o *onboarding) accountTenant() accountTenant {
	return accountTenant{caller: seededAccount(o.t, o.ready), guid: o.tenant}
}

// onboardingSteps returns the steps from connecting a tenant to renaming one of its mailboxes. Each
// request can be repeated, whatever the outcome of the previous attempt.
func onboardingSteps() []step {
	fixedRequest := func(method, rest string, body any) func(*onboarding) request {
		return func(o *onboarding) request { return request{method: method, path: o.path(rest), body: body} }
	}
	domainRequest := func(rest string) func(*onboarding) request {
		return func(o *onboarding) request {
			return request{method: "POST", path: o.path("/domains/" + o.domain + rest)}
		}
	}
	publish := func(o *onboarding, _ reply) { o.accountTenant().publishRecords(o.domain) }
	return []step{
		{name: "connect", makeRequest: func(o *onboarding) request {
			return request{method: "POST", path: "/tenants/" + o.tenant + "/consent", body: object{"api_key": "replaced by withAPIKey"}, viaControl: true}
		}},
		{name: "sync", makeRequest: fixedRequest("POST", "/sync", nil), handleReply: func(o *onboarding, got reply) { o.checkEqual("sync", got.text("status"), "completed") }},
		{name: "add domain", makeRequest: func(o *onboarding) request {
			return request{method: "POST", path: o.path("/domains"), body: object{"domain": o.domain}}
		}, handleReply: func(o *onboarding, got reply) {
			o.checkEqual("add domain", got.text("status"), "added")
			publish(o, got)
		}},
		{name: "verify", makeRequest: domainRequest("/verify"), handleReply: publish},
		{name: "enable-dkim", makeRequest: domainRequest("/enable-dkim")},
		{name: "provision", makeRequest: func(o *onboarding) request {
			return request{method: "POST", path: o.path("/mailboxes"), body: mailboxesBody(o.domain, "ada", "max", "lise")}
		}, handleReply: func(o *onboarding, got reply) {
			o.checkEqual("created mailboxes", got.text("created_count"), 3)
			o.mailbox = o.accountTenant().get(o.path("/mailboxes")).objects("mailboxes")[0].text("id")
		}},
		{name: "rename", makeRequest: func(o *onboarding) request {
			return request{method: "PATCH", path: o.path("/mailboxes/" + o.mailbox), body: object{"display_name": "Ada Lovelace", "daily_send_limit": 7}}
		}},
	}
}

// run executes the steps. sendUntilSuccess sends the request of a step until it succeeds. All
// attempts of a step use the same Idempotency-Key.
func (o *onboarding) run(steps []step, sendUntilSuccess func(step, request) reply) {
	o.t.Helper()
	for _, s := range steps {
		r := s.makeRequest(o)
		r.idempotencyKey = rand.Text()
		got := sendUntilSuccess(s, r)
		if r.method != http.MethodGet && !r.viaControl && strings.HasPrefix(r.path, "/v1/") {
			o.writes++
		}
		if s.handleReply != nil {
			s.handleReply(o, got)
		}
	}
}

// requiredWrites are the numbers of writes in an onboarding, keyed by platform operation. The
// service must not repeat these operations after a failure: it can read whether they were done.
var requiredWrites = map[string]int{
	"create-roleAssignments": 1, "Set-TransportConfig": 1,
	"domain.create": 1, "domain.verify": 1, "domain.update": 1,
	"New-DkimSigningConfig": 1, "Set-DkimSigningConfig": 1,
	"New-Mailbox": 3,
}

// checkOutcome compares the state of the mail platform and of the service with the result of an
// onboarding without failures.
func (o *onboarding) checkOutcome() {
	o.t.Helper()
	doneCounts, unsureCounts := o.operationCounts()
	for operation, want := range requiredWrites {
		if doneCounts[operation] > want || doneCounts[operation]+unsureCounts[operation] < want {
			o.t.Errorf("%s was done %d times (and possibly %d more), want %d (after the failpoints %v)", operation, doneCounts[operation], unsureCounts[operation], want, o.hitFailpoints)
		}
	}
	domains, mailboxes := o.platformState(o.tenant)
	o.checkEqual("domains at the platform", len(domains), 1)
	for _, d := range domains {
		o.checkEqual("domain", d, object{"name": o.domain, "verified": true, "default": false, "dkim_enabled": true})
	}
	o.checkEqual("mailboxes at the platform", len(mailboxes), 3)
	for _, m := range mailboxes {
		o.checkEqual("mailbox", m, object{"address": m["address"], "enabled": true, "password_set": true})
	}
	tenant := o.accountTenant()
	o.checkEqual("stored domains", tenant.get(tenant.path("/domains")).text("count"), 1)
	stored := tenant.get(tenant.path("/mailboxes"))
	o.checkEqual("stored mailboxes", stored.text("count"), 3)
	names := map[string]int{}
	for _, m := range stored.objects("mailboxes") {
		names[m.text("display_name")]++
		if m.text("id") == o.mailbox {
			o.checkEqual("stored limit", m.text("daily_send_limit"), 7)
		}
	}
	o.checkEqual("renamed mailboxes", names["Ada Lovelace"], 1)
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(o.domain, "fourth"), 400, "mailbox_limit_reached")
	o.checkEqual("next step", tenant.nextStep(), nil)
}

// fillDomainSlots adds domains until the tenant has 12, and checks that a further domain is
// refused. These checks fail if a crash has changed the number of free slots.
func (o *onboarding) fillDomainSlots() {
	o.t.Helper()
	tenant := o.accountTenant()
	for _, zone := range o.ready.Zones[1:] {
		tenant.post(tenant.path("/domains"), object{"domain": zone})
		o.writes++
	}
	tenant.expect("POST", tenant.path("/domains"), object{"domain": "thirteenth.test"}, 400, "domain_limit_reached")
	domains, _ := o.platformState(o.tenant)
	o.checkEqual("domains at the platform", len(domains), 12)
}

// retrying returns a function for onboarding.run that sends a request until it succeeds.
func retrying(o *onboarding) func(step, request) reply {
	return func(_ step, r request) reply { return o.retryUntilSuccess(r) }
}

// restartingSandbox is a sandbox that is killed and started again on its data folder.
type restartingSandbox struct {
	client
	build   programs
	dataDir string
	process *process
	// armedFailpoints kill the service when it reaches them. hitFailpoints have already killed it.
	armedFailpoints, hitFailpoints []string
	extraEnv                       []string // environment variables besides the failpoints
	flags                          []string
}

func newRestartingSandbox(t *testing.T, build programs, armed []string) *restartingSandbox {
	t.Helper()
	server := &restartingSandbox{client: client{t: t}, build: build, dataDir: t.TempDir(), armedFailpoints: armed}
	server.start()
	return server
}

// start starts the service. A background job can reach a failpoint before the service is ready. In
// that case start disarms the failpoint and tries again.
func (s *restartingSandbox) start() {
	s.t.Helper()
	env := append([]string{"TENANTRY_FAILPOINTS=" + strings.Join(s.armedFailpoints, ",")}, s.extraEnv...)
	p, ready, err := launchDev(s.build, s.dataDir, env, s.flags...)
	if p != nil {
		p.stopAtEnd(s.t)
	}
	s.process, s.ready = p, ready
	switch {
	case err == nil:
	case p != nil && s.disarmHit():
		s.start()
	default:
		s.t.Fatal(err)
	}
}

var failpointLine = regexp.MustCompile(`(?m)^failpoint (.+)$`)

// disarmHit disarms the failpoint that killed the service. It returns false if no failpoint killed
// the service.
func (s *restartingSandbox) disarmHit() bool {
	found := failpointLine.FindStringSubmatch(s.process.logs.String())
	if found == nil {
		return false
	}
	s.hitFailpoints = append(s.hitFailpoints, found[1])
	s.armedFailpoints = slices.DeleteFunc(slices.Clone(s.armedFailpoints), func(name string) bool { return name == found[1] })
	return true
}

// request is a request to the API, or to the control interface if viaControl is set.
type request struct {
	method, path string
	body         any
	viaControl   bool
	// doneStatus, if not 0, is a further status that counts as success. The service answers it if
	// an earlier attempt has completed the operation.
	doneStatus int
	// retryCode is the error code of a refusal that is temporary.
	retryCode string
	// idempotencyKey is sent with each attempt. If it is empty, the sending method chooses a key. A
	// request to the control interface ignores it.
	idempotencyKey string
}

func (s *restartingSandbox) send(r request) (reply, error) {
	if r.viaControl {
		return s.tryDo(r.method, s.ready.ControlURL+r.path, "", withAPIKey(r.body, s.ready.APIKey))
	}
	return s.tryWithKey(cmp.Or(r.idempotencyKey, rand.Text()), r.method, s.ready.APIURL+r.path, s.ready.APIKey, r.body)
}

// withAPIKey returns the body of a request. A body with the member api_key is replaced with a body
// that has only the current key, because some restarts change the key.
func withAPIKey(body any, key string) any {
	if o, ok := body.(object); ok && o["api_key"] != nil {
		return object{"api_key": key}
	}
	return body
}

// retryUntilSuccess sends a request until it succeeds. It restarts the service after a failpoint,
// and repeats requests that are answered 503, 504 or with retryCode.
func (s *restartingSandbox) retryUntilSuccess(r request) reply {
	s.t.Helper()
	r.idempotencyKey = cmp.Or(r.idempotencyKey, rand.Text())
	for deadline := time.Now().Add(waitTimeout); time.Now().Before(deadline); {
		got, err := s.send(r)
		switch {
		case err != nil:
			s.restartAfterFailpoint(r, err)
		case got.status < 300, r.doneStatus != 0 && got.status == r.doneStatus:
			return got
		case got.status == http.StatusServiceUnavailable || got.status == http.StatusGatewayTimeout, r.retryCode != "" && got.code() == r.retryCode:
			<-time.After(100 * time.Millisecond)
		default:
			s.t.Fatalf("%s %s is answered %d %s, want a success or a temporary error (after the failpoints %v)", r.method, r.path, got.status, got.raw, s.hitFailpoints)
		}
	}
	s.t.Fatalf("%s %s did not succeed in %s", r.method, r.path, waitTimeout)
	return reply{}
}

// restartAfterFailpoint starts the service again after a failpoint killed it. It fails the test if
// the service still runs or ended for a different reason.
func (s *restartingSandbox) restartAfterFailpoint(r request, sendErr error) {
	s.t.Helper()
	select {
	case <-s.process.done:
	case <-time.After(waitTimeout):
		s.t.Fatalf("%s %s got no answer from a running service: %v", r.method, r.path, sendErr)
	}
	if !s.disarmHit() {
		s.t.Fatalf("%s %s: the service ended without a failpoint: %v", r.method, r.path, sendErr)
	}
	s.start()
}

func (s *restartingSandbox) killAndRestart() {
	s.t.Helper()
	s.process.kill()
	s.start()
}

// operationCounts counts the successful calls at the simulator by operation. Calls with status 0
// got no response. They may or may not have taken effect and are counted as unsure.
func (s *restartingSandbox) operationCounts() (done, unsure map[string]int) {
	s.t.Helper()
	done, unsure = map[string]int{}, map[string]int{}
	for _, call := range s.journal("microsoft365") {
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
func (s *restartingSandbox) platformState(tenant string) (domains, mailboxes []object) {
	s.t.Helper()
	state := s.control("GET", "/tenants/"+tenant, nil)
	return state.objects("domains"), state.objects("mailboxes")
}

// checkEqual compares two values by their text.
func (s *restartingSandbox) checkEqual(subject string, got, want any) {
	s.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: got %v, want %v (after the failpoints %v)", subject, got, want, s.hitFailpoints)
	}
}
