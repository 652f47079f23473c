// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/audit"
)

// portCalls are the names of calls to the packages that implement ports. Each call changes
// something, or redeems a sign-in code. The tests kill the service before and after each call.
var portCalls = []string{
	"take connect flow", "administrator", "save connect flow", "advance connect session", "attach tenant", "renew connect session",
	"claim an idempotency key", "bootstrap", "enable_smtp_auth", "save licences", "save discovery", "save tenant", "finish an idempotency key",
	"reserve domain", "add_domain", "save domain", "verify_domain", "change domain", "enable_mail", "ensure_signing", "enable_signing",
	"reserve mailboxes", "save mailbox", "create_mailbox", "open_sign_in", "open_submission", "conclude mailboxes", "rename", "set send limit",
	"create provisioning run", "claim provisioning job", "save provisioning job", "retry provisioning job", "intend DNS write", "apply", "confirm DNS write",
	"add integration", "save integration", "begin OAuth session", "start_sign_in", "save pending OAuth session", "save connected OAuth session",
	"save refresh", "save disconnecting connection", "remove", "save disconnected connection", "remove integration",
	"reserve send limit", "ensure_rule", "change send limit",
	"claim tenant", "save counts", "save intents", "block", "save changes of mailboxes", "release tenant",
	"remove_rule", "remove send limit", "remove_mailbox", "remove mailbox", "begin removal of domain", "remove_domain", "remove domain",
	"withdraw tenant", "rotate key", "remove_rules", "delete tenant",
}

func failpointNames() []string {
	var names []string
	for _, call := range portCalls {
		names = append(names, "before "+call, "after "+call)
	}
	return names
}

// TestEveryProviderWriteHasAFailpoint checks that portCalls has each method of mail.proto,
// dns.proto and sending.proto that is not marked as a read.
func TestEveryProviderWriteHasAFailpoint(t *testing.T) {
	t.Parallel()
	writeMethod := regexp.MustCompile(`(?m)^  rpc (\w+)\(.*\);$`) // a read does not match: a block with an option follows it
	for _, file := range []string{"mail", "dns", "sending"} {
		writes := writeMethod.FindAllStringSubmatch(fileText(t, "../../plugins/proto/"+file+".proto"), -1)
		if len(writes) == 0 {
			t.Fatalf("%s.proto has no writes", file)
		}
		for _, method := range writes {
			if !slices.ContainsFunc(portCalls, func(call string) bool {
				return strings.ReplaceAll(call, "_", "") == strings.ToLower(method[1])
			}) {
				t.Errorf("no crash is tested around %s of %s.proto", method[1], file)
			}
		}
	}
}

// allWriteSteps returns the steps that reach every failpoint of portCalls.
func allWriteSteps(o *onboarding) []step {
	managedTenant := o.ready.Tenants[1].TenantID
	fixedRequest := func(r request) func(*onboarding) request { return func(*onboarding) request { return r } }
	return append(slices.Concat(onboardingSteps(), dnsProvisioningSteps(), integrationSteps()),
		setLimitStep(o, 5),
		step{name: "send", makeRequest: fixedRequest(request{method: "POST", path: "/messages", viaControl: true,
			body: object{"mailbox": "max@" + o.domain, "count": 9}})},
		// With this fault a pass cannot change the rule, so the next pass must block the mailbox.
		step{name: "inject fault", makeRequest: fixedRequest(request{method: "POST", path: "/faults", viaControl: true,
			body: object{"provider": "microsoft365", "operation": "Set-TransportRule", "kind": "status", "status": 400, "times": 1}})},
		step{name: "enforce with a fault", makeRequest: fixedRequest(request{method: "POST", path: "/enforcement/run", viaControl: true})},
		step{name: "remove faults", makeRequest: fixedRequest(request{method: "DELETE", path: "/faults", viaControl: true})},
		enforceStep("blocked"), setLimitStep(o, 25), enforceStep("unblocked", "blocked"),
		step{name: "check", makeRequest: fixedRequest(request{method: "GET", path: "/v1/tenants"}), handleReply: func(o *onboarding, _ reply) { o.checkOutcome() }},
		step{name: "renew", makeRequest: func(o *onboarding) request {
			session := o.retryUntilSuccess(request{method: "GET", path: "/v1/tenants/connect-url"}).text("id")
			return request{method: "POST", path: "/v1/connect-sessions/" + session + "/renew"}
		}, handleReply: func(o *onboarding, got reply) {
			session := o.retryUntilSuccess(request{method: "GET", path: "/v1/connect-sessions/" + got.text("id")})
			o.checkEqual("renewed session", session.text("status"), "pending")
		}},
		step{name: "limit of the domain", makeRequest: func(o *onboarding) request {
			return request{method: "POST", path: o.path("/mailbox-limits"), body: object{"daily_send_limit": 9, "domain_scope": o.domain}}
		}, handleReply: func(o *onboarding, got reply) { o.checkEqual("limit", got.text("status"), "provisioned") }},
		step{name: "end the limit", makeRequest: func(o *onboarding) request {
			return request{method: "DELETE", path: o.path("/mailbox-limits?domain_scope=" + o.domain)}
		}, handleReply: func(o *onboarding, got reply) {
			o.checkEqual("end of the limit", got.text("status"), "removed")
			o.checkEqual("rules", len(o.control("GET", "/tenants/"+o.tenant, nil).objects("rules")), 1)
		}},
		step{name: "remove a mailbox", makeRequest: func(o *onboarding) request {
			mailbox := o.retryUntilSuccess(request{method: "GET", path: o.path("/mailboxes")}).objects("mailboxes")[2]
			return request{method: "DELETE", path: o.path("/mailboxes/" + mailbox.text("id") + "?confirm=" + mailbox.text("primary_smtp"))}
		}, handleReply: func(o *onboarding, got reply) {
			o.checkEqual("removal of the mailbox", got.text("status"), "removed")
			_, mailboxes := o.platformState(o.tenant)
			o.checkEqual("mailboxes left", len(mailboxes), 2)
		}},
		step{name: "assign", makeRequest: fixedRequest(request{method: "POST", path: "/managed", viaControl: true,
			body: object{"tenant_id": managedTenant, "account_id": o.ready.AccountID}})},
		step{name: "withdraw", makeRequest: fixedRequest(request{method: "DELETE", path: "/managed/" + managedTenant, viaControl: true, doneStatus: 404})},
		step{name: "rotate", makeRequest: fixedRequest(request{method: "POST", path: "/api-key/rotate?user_email=" + o.ready.UserEmail}),
			handleReply: func(o *onboarding, got reply) { o.ready.APIKey = got.text("api_key") }},
		step{name: "fill domain slots", makeRequest: fixedRequest(request{method: "GET", path: "/v1/tenants"}), handleReply: func(o *onboarding, got reply) {
			o.checkEqual("tenants after the withdrawal", got.text("count"), 1)
			o.fillDomainSlots()
		}},
		step{name: "remove a domain", makeRequest: func(o *onboarding) request {
			return request{method: "DELETE", path: o.path("/domains/" + o.ready.Zones[1] + "?from_platform=true")}
		}, handleReply: func(o *onboarding, got reply) {
			o.checkEqual("removal of the domain", got.text("status"), "removed")
			domains, _ := o.platformState(o.tenant)
			o.checkEqual("domains left", len(domains), 11)
		}},
		step{name: "delete", makeRequest: fixedRequest(request{method: "DELETE", path: o.path("")}),
			handleReply: func(o *onboarding, got reply) { o.checkEqual("deletion", got.text("status"), "deleted") }},
		step{name: "nothing is left", makeRequest: fixedRequest(request{method: "GET", path: "/v1/tenants"}),
			handleReply: func(o *onboarding, got reply) { o.checkEqual("tenants after the deletion", got.text("count"), 0) }},
		step{name: "audit", makeRequest: fixedRequest(request{method: "GET", path: "/v1/audit/export"}), handleReply: (*onboarding).checkAudit})
}

// checkAudit checks that an export is an unbroken chain, and that it has one entry for each write
// below /v1 that succeeded, however often the service was killed.
func (o *onboarding) checkAudit(got reply) {
	o.t.Helper()
	if _, err := audit.Verify(bytes.NewReader(got.raw)); err != nil {
		o.t.Errorf("the audit is not a chain: %v\n%s", err, got.raw)
	}
	succeeded := 0
	for line := range bytes.Lines(got.raw) {
		var entry struct {
			Actor   struct{ Type string }
			Action  string
			Outcome struct{ Status int }
		}
		must(o.t, json.Unmarshal(line, &entry))
		if entry.Actor.Type == string(audit.Key) && entry.Outcome.Status/100 == 2 && entry.Action != "rotate-api-key" {
			succeeded++
		}
	}
	o.checkEqual("entries of writes that succeeded", succeeded, o.writes)
}

func setLimitStep(o *onboarding, perDay int) step {
	return step{name: "limit", makeRequest: func(*onboarding) request {
		return request{method: "POST", path: o.path("/mailbox-limits"), body: object{"daily_send_limit": perDay}}
	}, handleReply: func(o *onboarding, got reply) { o.checkEqual("limit", got.text("status"), "provisioned") }}
}

// enforceStep returns the step that runs enforcement. Afterwards the account must have exactly
// these events, newest first. The platform's only rule must be enabled if and only if the newest
// event is a block. Passes are repeated until the events are as wanted only if the service was
// killed during the step, or if the run took at least slowRun, because a pass can then have failed.
func enforceStep(events ...string) step {
	var killsBefore int
	var began time.Time
	runEnforcement := request{method: "POST", path: "/enforcement/run", viaControl: true}
	return step{name: "enforce", makeRequest: func(o *onboarding) request {
		killsBefore, began = len(o.hitFailpoints), time.Now()
		return runEnforcement
	}, handleReply: func(o *onboarding, _ reply) {
		mayHaveFailed := len(o.hitFailpoints) > killsBefore || time.Since(began) >= slowRun
		o.eventually(fmt.Sprintf("the events of the account are %v", events), func() bool {
			var actions []string
			for _, event := range o.accountTenant().get("/v1/enforcement/events").objects("events") {
				actions = append(actions, event.text("action_taken"))
			}
			if len(actions) < len(events) && mayHaveFailed {
				o.retryUntilSuccess(runEnforcement)
				return false
			}
			o.checkEqual("events", actions, events)
			return true
		})
		rules := o.control("GET", "/tenants/"+o.tenant, nil).objects("rules")
		o.checkEqual("rules", len(rules), 1)
		for _, rule := range rules {
			o.checkEqual("the rule is enabled", rule["enabled"], events[0] == "blocked")
		}
	}}
}

// TestWritesSurviveACrashAtEveryFailpoint runs allWriteSteps and kills the service once at each
// failpoint. Each request is repeated until it succeeds. Outside a soak, the test uses a sample of
// the failpoints.
func TestWritesSurviveACrashAtEveryFailpoint(t *testing.T) {
	t.Parallel()
	o := newOnboarding(newRestartingSandbox(t, requirePrograms(t, failpointBuild), soak.Sample(t, failpointNames(), 10)))
	o.run(allWriteSteps(o), retrying(o))
	if len(o.armedFailpoints) > 0 {
		t.Errorf("no write reaches these failpoints: %v", o.armedFailpoints)
	}
	t.Logf("%d crashes", len(o.hitFailpoints))
}

// TestWritesSurviveACrashAtOneFailpoint kills the service at a single failpoint in each run.
// Outside a soak, the test uses a sample of the failpoints.
func TestWritesSurviveACrashAtOneFailpoint(t *testing.T) {
	t.Parallel()
	for _, name := range soak.Sample(t, failpointNames(), 2) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOnboarding(newRestartingSandbox(t, requirePrograms(t, failpointBuild), []string{name}))
			o.run(allWriteSteps(o), retrying(o))
			o.checkEqual("crashes", o.hitFailpoints, []string{name})
		})
	}
}

// dnsProvisioningSteps returns steps that provision a domain's DNS. The provider is unavailable at
// first. The job is then retried and completes.
func dnsProvisioningSteps() []step {
	var runID, jobID string
	provision := func(o *onboarding) request {
		o.retryUntilSuccess(request{method: "POST", path: "/faults", viaControl: true, body: object{"provider": "cloudflare", "kind": "status", "status": 503, "times": 100_000}})
		id := o.accountTenant().get(o.path("/domains")).objects("domains")[0].text("id")
		return request{method: "POST", path: "/v1/domains/" + id + "/dns/provision"}
	}
	return []step{
		{name: "automatic DNS", makeRequest: provision, handleReply: func(o *onboarding, got reply) {
			runID, jobID = fmt.Sprint(got.valueAt("run.id")), got.objects("jobs")[0].text("id")
			o.waitForJob(runID, func(job object) bool { return job["status"] == "waiting" })
		}},
		{name: "retry", makeRequest: func(*onboarding) request {
			// A job with an attempt in progress is not retryable. After the attempt it waits again.
			return request{method: "POST", path: "/v1/dns/provisioning-jobs/" + jobID + "/retry", retryCode: "provisioning_job_not_retryable"}
		}, handleReply: func(o *onboarding, got reply) {
			o.checkEqual("retry", got.text("status"), "queued")
			// The job can reach a failpoint before this call is answered.
			o.retryUntilSuccess(request{method: "DELETE", path: "/faults", viaControl: true})
			o.waitForJob(runID, func(job object) bool { return job["status"] == "completed" })
		}},
	}
}

// waitForJob reads a run, across restarts of the service, until isDone returns true for its job.
func (o *onboarding) waitForJob(run string, isDone func(job object) bool) {
	o.t.Helper()
	o.eventually("the job of run "+run+" has the expected status", func() bool {
		return isDone(o.retryUntilSuccess(request{method: "GET", path: "/v1/dns/provisioning-runs/" + run}).objects("jobs")[0])
	})
}

// integrationSteps returns steps that connect the mailbox to a sending platform and disconnect it.
func integrationSteps() []step {
	integrationID := ""
	integrationRequest := func(method, rest string) func(*onboarding) request {
		return func(*onboarding) request {
			return request{method: method, path: "/v1/integrations/" + integrationID + rest}
		}
	}
	mailboxRequest := func(method, rest string) func(*onboarding) request {
		return func(o *onboarding) request { return integrationRequest(method, "/mailboxes/"+o.mailbox+rest)(o) }
	}
	checkConnectionCounts := func(o *onboarding, want object) {
		got := o.retryUntilSuccess(request{method: "GET", path: "/v1/integrations/" + integrationID})
		counts := object(got.valueAt("mailbox_connections").(map[string]any))
		for name, n := range want {
			o.checkEqual(name+" connections", counts[name], n)
		}
	}
	return []step{
		{name: "integrate", makeRequest: func(o *onboarding) request {
			return request{method: "POST", path: "/v1/integrations", body: o.integrationBody("instantly")}
		}, handleReply: func(o *onboarding, got reply) {
			integrationID = got.text("id")
			o.checkEqual("integrations", o.retryUntilSuccess(request{method: "GET", path: "/v1/integrations"}).text("count"), 1)
		}},
		{name: "test", makeRequest: integrationRequest("POST", "/test"), handleReply: func(o *onboarding, got reply) { o.checkEqual("test", got.text("status"), "connected") }},
		{name: "sign in", makeRequest: func(o *onboarding) request {
			r := mailboxRequest("POST", "/oauth/microsoft/init")(o)
			r.retryCode = "oauth_session_pending" // the session of a killed service stays pending for some seconds
			return r
		}, handleReply: func(o *onboarding, got reply) {
			link, session := got.text("auth_url"), got.text("session_id")
			b := newBrowser(o.t)
			b.submit(b.open(link), url.Values{"username": {got.text("mailbox")}, "decision": {"accept"}})
			statusRequest := mailboxRequest("GET", "/oauth/microsoft/status?session_id="+session)(o)
			o.eventually("the session is connected", func() bool { return o.retryUntilSuccess(statusRequest).text("status") == "connected" })
			checkConnectionCounts(o, object{"total": 1, "connected": 1})
		}},
		{name: "refresh", makeRequest: integrationRequest("POST", "/mailboxes/refresh"), handleReply: func(o *onboarding, got reply) {
			o.checkEqual("refreshed", got.text("checked")+" "+got.text("connected"), "3 1")
		}},
		{name: "disconnect", makeRequest: mailboxRequest("DELETE", ""), handleReply: func(o *onboarding, got reply) {
			o.checkEqual("disconnect", got.text("status"), "disconnected")
			checkConnectionCounts(o, object{"total": 1, "disconnected": 1})
		}},
		{name: "delete integration", makeRequest: integrationRequest("DELETE", ""), handleReply: func(o *onboarding, got reply) {
			o.checkEqual("deletion of the integration", got.text("status"), "deleted")
			o.checkEqual("integrations left", o.retryUntilSuccess(request{method: "GET", path: "/v1/integrations"}).text("count"), 0)
		}},
	}
}
