// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// platformWrites are the operations of the mail platform that the tests disturb in each step of the
// onboarding, in order. All but token are writes.
var platformWrites = map[string][]string{
	"connect":     {"token"},
	"sync":        {"create-roleAssignments", "Set-TransportConfig"},
	"add domain":  {"domain.create"},
	"verify":      {"domain.verify", "domain.update", "New-DkimSigningConfig"},
	"enable-dkim": {"Set-DkimSigningConfig"},
	"provision":   {"New-Mailbox", "user.update", "Set-CASMailbox"},
	"rename":      {"Set-Mailbox"},
}

// runDisturbed runs an onboarding. For each step it calls disturb, which can send the request of
// the step and interfere with the platform calls of the request. Then it repeats the request until
// it succeeds.
func runDisturbed(t *testing.T, disturb func(o *onboarding, r request, operations []string)) {
	t.Helper()
	o := newOnboarding(newRestartingSandbox(t, requirePrograms(t, releaseBuild), nil))
	knownWrites := 0
	o.run(onboardingSteps(), func(s step, r request) reply {
		disturb(o, r, platformWrites[s.name])
		knownWrites += len(platformWrites[s.name])
		o.control("DELETE", "/faults", nil)
		return o.retryUntilSuccess(r)
	})
	o.checkEqual("platform writes of the steps", knownWrites, 12)
	o.checkOutcome()
	o.fillDomainSlots()
}

// injectFault adds a fault to the simulated mail platform.
func (o *onboarding) injectFault(fault object) {
	o.t.Helper()
	fault["provider"] = "microsoft365"
	o.control("POST", "/faults", fault)
}

type pendingRequest struct {
	answered chan struct{}
	reply    reply
	err      error
}

// sendAsync sends a request and does not wait for the response.
func (o *onboarding) sendAsync(r request) *pendingRequest {
	pending := &pendingRequest{answered: make(chan struct{})}
	go func() {
		defer close(pending.answered)
		pending.reply, pending.err = o.send(r)
	}()
	return pending
}

// waitForOperation waits until the simulator has executed an operation more than `before` times. It
// returns false if the request was answered and the operation was not executed.
func (o *onboarding) waitForOperation(pending *pendingRequest, operation string, before int) bool {
	o.t.Helper()
	executed := false
	o.eventually("the platform executes "+operation, func() bool {
		answered := false
		select {
		case <-pending.answered:
			answered = true
		default:
		}
		counts, _ := o.operationCounts() // after the check for an answer, so that it counts all calls of the request
		executed = counts[operation] > before
		return executed || answered
	})
	return executed
}

// holdAnswer lets the simulator delay its response to the next call of the operation by 60 s. It
// returns the number of times that the operation was executed so far.
func (o *onboarding) holdAnswer(operation string) (before int) {
	o.t.Helper()
	counts, _ := o.operationCounts()
	o.injectFault(object{"operation": operation, "kind": "delay_after", "delay_ms": 60_000, "times": 1})
	return counts[operation]
}

// TestServiceKilledBeforeThePlatformAnswers kills the service after the platform has executed a
// call and before the service has the response. A soak tests each of platformWrites, other runs
// test a sample.
func TestServiceKilledBeforeThePlatformAnswers(t *testing.T) {
	t.Parallel()
	writes := slices.Concat(slices.Collect(maps.Values(platformWrites))...)
	slices.Sort(writes) // so that a seed always selects the same sample
	chosen := soak.Sample(t, writes, 4)
	runDisturbed(t, func(o *onboarding, r request, operations []string) {
		for _, operation := range operations {
			if !slices.Contains(chosen, operation) {
				continue
			}
			before := o.holdAnswer(operation)
			pending := o.sendAsync(r)
			if !o.waitForOperation(pending, operation, before) {
				o.t.Fatalf("the request was answered, but %s was not executed: %d %s", operation, pending.reply.status, pending.reply.raw)
			}
			o.killAndRestart()
			// On a slow machine the request can run out of time before the kill.
			if <-pending.answered; pending.err == nil && o.checkInterrupted(operation, pending) {
				o.t.Errorf("%s: the request succeeded, want no answer of the killed service: %s", operation, pending.reply.raw)
			}
		}
	})
}

// TestPluginKilledBeforeThePlatformAnswers kills the plugin process after each of platformWrites.
// The service reads the platform's state and continues, or answers that the outcome is unknown.
func TestPluginKilledBeforeThePlatformAnswers(t *testing.T) {
	t.Parallel()
	runDisturbed(t, func(o *onboarding, r request, operations []string) {
		before := map[string]int{}
		for _, operation := range operations {
			before[operation] = o.holdAnswer(operation)
		}
		pending := o.sendAsync(r)
		for _, operation := range operations {
			for !o.waitForOperation(pending, operation, before[operation]) {
				if o.checkInterrupted(operation, pending) {
					o.t.Fatalf("the request succeeded, but %s was not executed: %s", operation, pending.reply.raw)
				}
				pending = o.sendAsync(r)
			}
			o.control("POST", "/plugins/microsoft365/kill", nil)
		}
		<-pending.answered
		o.checkInterrupted(operations[len(operations)-1], pending)
	})
}

// TestLostPlatformAnswersAreResolved drops responses of the mail platform to writes that it has
// executed. The onboarding still completes.
func TestLostPlatformAnswersAreResolved(t *testing.T) {
	t.Parallel()
	runDisturbed(t, func(o *onboarding, r request, operations []string) {
		for _, operation := range operations {
			o.injectFault(object{"operation": operation, "kind": "drop_after", "times": max(1, requiredWrites[operation])})
		}
		pending := o.sendAsync(r)
		<-pending.answered
		o.checkInterrupted(operations[0], pending)
	})
}

// checkInterrupted checks the response to a request during which a response of the platform was
// lost. The request must succeed, or be answered 503 or 504 while the outcome is unknown.
// checkInterrupted returns whether the request succeeded.
func (o *onboarding) checkInterrupted(operation string, pending *pendingRequest) bool {
	o.t.Helper()
	if pending.err != nil {
		o.t.Fatalf("%s: the request got no response: %v", operation, pending.err)
	}
	status := pending.reply.status
	if page, ok := pending.reply.object["page_status"].(float64); ok {
		status = int(page)
	}
	if !slices.Contains([]int{http.StatusOK, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status) {
		o.t.Errorf("%s: got %d %s, want 200, 503 or 504", operation, status, pending.reply.raw)
	}
	return status == http.StatusOK
}

// injectFault adds a fault of the mail platform for one call, or for details["times"] calls. The
// fault ends with the test.
func (c caller) injectFault(kind string, details object) {
	c.t.Helper()
	fault := object{"provider": "microsoft365", "kind": kind, "times": 1}
	maps.Copy(fault, details)
	c.control("POST", "/faults", fault)
	c.t.Cleanup(func() { c.control("DELETE", "/faults", nil) })
}

// TestPlatformFailuresAreAnswered shares one sandbox between tests that run one after the other,
// because a fault applies to all tenants of the sandbox.
func TestPlatformFailuresAreAnswered(t *testing.T) {
	t.Parallel()
	c := privateSandbox(t)
	t.Run("error codes", func(t *testing.T) { checkPlatformErrorCodes(t, c.withT(t)) })
	t.Run("lost answers", func(t *testing.T) { checkLostWriteAnswers(t, c.withT(t)) })
	t.Run("sync", func(t *testing.T) { checkFailingSync(t, c.withT(t)) })
}

// checkPlatformErrorCodes checks the responses to five platform failures, and that the same request
// succeeds afterwards. Each case has its own tenant, because failures open the tenant's circuit
// breaker.
func checkPlatformErrorCodes(t *testing.T, c caller) {
	t.Helper()
	const allCalls = 1000 // more than a case makes
	for _, tc := range []struct {
		name, kind string
		details    object
		status     int
		code       string
	}{
		{"throttled", "status", object{"status": 429, "retry_after": 7, "times": allCalls}, 503, "provider_unavailable"},
		{"down", "status", object{"status": 503, "times": allCalls}, 503, "provider_unavailable"},
		{"an internal error", "status", object{"status": 500, "times": allCalls}, 502, "provider_error"},
		{"a bad gateway", "status", object{"status": 502, "times": allCalls}, 502, "provider_error"},
		{"the connection is closed before the call is executed", "drop_before", object{"times": allCalls}, 503, "provider_unavailable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tenant := c.withT(t).newTenant(nil).connect()
			tc.details["match"] = "GET /graph/v1.0/domains"
			tenant.injectFault(tc.kind, tc.details)
			zone := tenant.newZone()
			got := tenant.expect("POST", tenant.path("/domains"), object{"domain": zone}, tc.status, tc.code)
			if wait, err := strconv.Atoi(got.header.Get("Retry-After")); (tc.status == 503) != (err == nil && wait >= 1) {
				t.Errorf("the status %d has the Retry-After %q, want a wait with 503 only", tc.status, got.header.Get("Retry-After"))
			}
			if tc.name == "throttled" && got.header.Get("Retry-After") != "7" {
				t.Errorf("Retry-After is %q, want the platform's 7", got.header.Get("Retry-After"))
			}
			tenant.control("DELETE", "/faults", nil)
			tenant.eventually("the domain is added", func() bool {
				return tenant.call("POST", tenant.path("/domains"), object{"domain": zone}).status == 200
			})
			if atPlatform := tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("domains"); len(atPlatform) != 1 {
				t.Errorf("the platform has the domains %v, want 1", atPlatform)
			}
		})
	}
}

// checkLostWriteAnswers checks requests whose write at the platform got no response. They succeed
// at once or when they are repeated, and nothing exists twice.
func checkLostWriteAnswers(t *testing.T, c caller) {
	t.Helper()
	tenant := c.newConnectedTenant(nil)
	zone := tenant.newZone()
	for _, kind := range []string{"drop_after", "drop_before"} {
		t.Run(kind, func(t *testing.T) {
			tenant := tenant.withT(t)
			tenant.injectFault(kind, object{"match": "POST /graph/v1.0/domains", "writes_only": true})
			name := tenant.newZone()
			tenant.eventually("the domain is added", func() bool {
				got := tenant.call("POST", tenant.path("/domains"), object{"domain": name})
				if got.status != 200 && got.code() != "provider_timeout" {
					t.Errorf("the addition is answered %d %s, want 200 or provider_timeout", got.status, got.raw)
				}
				return got.status == 200
			})
		})
	}
	tenant.post(tenant.path("/domains"), object{"domain": zone})
	tenant.publishRecords(zone)
	tenant.post(tenant.domainPath(zone, "/verify"), nil)
	t.Run("New-Mailbox", func(t *testing.T) {
		tenant := tenant.withT(t)
		tenant.injectFault("drop_after", object{"operation": "New-Mailbox"})
		created := reply{}
		tenant.eventually("the mailbox is created", func() bool {
			created = tenant.call("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
			return created.status == 200
		})
		checkValues(t, created.object, object{"created_count": 1, "exists_count": 0})
		tenant.checkPlatformMailboxes(zone, "ada")
	})
	if atPlatform := tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("domains"); len(atPlatform) != 3 {
		t.Errorf("the platform has the domains %v, want 3", atPlatform)
	}
}

// TestSlowPlatformAnswers504 checks that a request is answered 504 while the mail platform still
// delays its response. The delay is longer than waitTimeout.
func TestSlowPlatformAnswers504(t *testing.T) {
	t.Parallel()
	tenant := privateSandbox(t).newTenant(nil).connect()
	tenant.injectFault("delay", object{"match": "GET /graph/v1.0/domains", "delay_ms": 2 * waitTimeout.Milliseconds(), "times": 3})
	zone := tenant.newZone()
	tenant.expect("POST", tenant.path("/domains"), object{"domain": zone}, 504, "provider_timeout")
}

// checkFailingSync checks that sync is partial if the mail server fails, and is answered 503 if the
// whole platform fails.
func checkFailingSync(t *testing.T, c caller) {
	t.Helper()
	t.Run("the mail server", func(t *testing.T) {
		tenant := c.withT(t).newConnectedTenant(nil)
		tenant.injectFault("status", object{"match": "POST /exchange", "status": 503, "times": 1000})
		got := tenant.post(tenant.path("/sync"), nil)
		checkValues(t, got.object, object{"status": "partial", "result.status": "completed"})
		if message := got.valueAt("result.mailbox_error"); message == nil || message == "" {
			t.Errorf("the partial sync has no mailbox_error: %s", got.raw)
		}
	})
	t.Run("the whole platform", func(t *testing.T) {
		tenant := c.withT(t).newConnectedTenant(nil)
		tenant.injectFault("status", object{"status": 503, "times": 1000})
		tenant.expect("POST", tenant.path("/sync"), nil, 503, "provider_unavailable")
		tenant.control("DELETE", "/faults", nil)
		tenant.eventually("the platform is back", func() bool { return tenant.call("POST", tenant.path("/sync"), nil).text("status") == "completed" })
	})
}
