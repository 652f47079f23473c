// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"
)

// providerCall is a request to the API that calls a sending platform, and the last platform
// operation that it calls.
type providerCall struct {
	method, path, operation string
}

// simulatorOperation returns the name that the simulator of a platform has for an operation.
func simulatorOperation(provider, operation string) string {
	if simulatorName := map[string]string{
		"smartlead check": "listAccounts", "smartlead account": "listAccounts", "smartlead accounts": "listAccounts", "smartlead remove": "deleteAccount",
		"emailbison check": "user", "emailbison account": "listSenders", "emailbison accounts": "listSenders", "emailbison remove": "deleteSender",
	}[provider+" "+operation]; simulatorName != "" {
		return simulatorName
	}
	return operation
}

// providerCallRequests returns requests that call the platform. At a platform with OAuth, the last
// of them begins a sign-in, after which retryAndCleanUp disconnects the mailbox.
func (i testIntegration) providerCallRequests() []providerCall {
	calls := []providerCall{{"POST", i.path("/test"), "check"}, {"POST", i.path("/mailboxes/refresh"), "accounts"}}
	if i.capabilities["microsoft_oauth"] == true {
		calls = append(calls, providerCall{"POST", i.mailboxPath(0, "/oauth/microsoft/init"), "start_sign_in"})
	}
	return calls
}

// TestSendingPlatformFailuresAreAnswered checks the responses to failures of a platform. The
// service does not replay such a response: the repeated request succeeds.
func TestSendingPlatformFailuresAreAnswered(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{allPlugins, "TENANTRY_CIRCUIT_OPEN=100ms"})
	forEachPlatform(t, "mailbox_refresh", func(t *testing.T, name string) {
		t.Parallel()
		integration := seededAccount(t, ready).newMailboxTenant("ada").addIntegration(name)
		integration.postponeBackgroundRefresh()
		for _, call := range integration.providerCallRequests() {
			integration.checkFaults(call)
		}
	})
}

// checkFaults sends a request while the platform fails, once for each kind of fault, and checks the
// responses.
func (i testIntegration) checkFaults(call providerCall) {
	i.t.Helper()
	for _, failure := range []struct {
		fault  object
		status int
		code   string
	}{
		{object{"kind": "status", "status": 429, "retry_after": 7}, 503, "provider_unavailable"},
		{object{"kind": "status", "status": 500}, 502, "provider_error"},
		{object{"kind": "status", "status": 503}, 503, "provider_unavailable"},
		{object{"kind": "drop_before", "times": 4}, 503, "provider_unavailable"}, // net/http repeats a call on each idle connection that it loses
	} {
		if i.provider == "salesblink" && failure.fault["retry_after"] != nil {
			continue // SalesBlink then demands a minute without requests
		}
		fault := object{"provider": i.provider, "operation": simulatorOperation(i.provider, call.operation), "times": 1}
		for name, value := range failure.fault {
			fault[name] = value
		}
		status, code := failure.status, failure.code
		if call.operation == "start_sign_in" && (fault["kind"] == "drop_before" || fault["status"] == 500) {
			status, code = 504, "provider_timeout" // a link may have been created
		}
		i.control("POST", "/faults", fault)
		idempotencyKey := rand.Text()
		got, err := i.tryWithKey(idempotencyKey, call.method, i.ready.APIURL+call.path, i.key, nil)
		// The service's own limit of platform calls can refuse the call before it reaches the
		// fault.
		for n := 0; err == nil && got.status == 503 && status != 503 && n < 60; n++ {
			<-time.After(time.Second)
			got, err = i.tryWithKey(idempotencyKey, call.method, i.ready.APIURL+call.path, i.key, nil)
		}
		answeredAs := func(status int, code string) bool { return got.status == status && got.code() == code }
		if err != nil || !answeredAs(status, code) && !answeredAs(failure.status, failure.code) {
			i.t.Errorf("%s %s with the fault %v: got %d %s (%v), want %d %s or %d %s", call.method, call.path, failure.fault, got.status, got.raw, err, status, code, failure.status, failure.code)
			continue
		}
		wait, _ := strconv.Atoi(got.header.Get("Retry-After"))
		if fault["retry_after"] != nil && (wait < 1 || wait > 7) {
			i.t.Errorf("Retry-After is %q, want 1 to 7", got.header.Get("Retry-After"))
		}
		i.retryAndCleanUp(idempotencyKey, call)
		if i.provider != "salesblink" { // SalesBlink allows 30 requests a minute
			i.post(i.path("/test"), nil) // two successful calls for each failed call keep the circuit closed
		}
	}
}

// retryAndCleanUp repeats a request until it succeeds. If the request began a sign-in, it then
// disconnects the mailbox.
func (i testIntegration) retryAndCleanUp(idempotencyKey string, call providerCall) {
	i.t.Helper()
	var got reply
	i.eventually(call.operation+" succeeds again", func() bool {
		var err error
		got, err = i.tryWithKey(idempotencyKey, call.method, i.ready.APIURL+call.path, i.key, nil)
		return err == nil && got.status == http.StatusOK
	})
	if got.header.Get("Idempotency-Replayed") != "" {
		i.t.Errorf("%s was replayed: %s", call.path, got.raw)
	}
	if call.operation == "start_sign_in" {
		i.checkConnection(0, "pending")
		i.expect("DELETE", i.mailboxPath(0, ""), nil, 200, "")
		i.checkConnection(0, "disconnected")
	}
}

// TestUnansweredDisconnectIsResolvedByRefresh checks that no other integration can connect a
// mailbox while the outcome of a request to disconnect the mailbox is unknown. A refresh finds out
// whether the mailbox is still connected.
func TestUnansweredDisconnectIsResolvedByRefresh(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{allPlugins, "TENANTRY_CIRCUIT_OPEN=100ms"})
	forEachPlatform(t, "mailbox_disconnect", func(t *testing.T, name string) {
		integration := seededAccount(t, ready).newMailboxTenant("ada", "max", "lise").addIntegration(name)
		integration.postponeBackgroundRefresh()
		integration.editPlatformAccount("PUT", 0, object{})
		integration.editPlatformAccount("PUT", 1, object{})
		integration.refresh(object{"checked": 3, "connected": 2, "newly_connected": 2, "unchanged": 1})
		atOtherPlatform := integration.addIntegration("instantly")
		for index, fault := range []string{"drop_after", "drop_before"} {
			integration.control("POST", "/faults", object{"provider": integration.provider, "operation": simulatorOperation(integration.provider, "remove"), "kind": fault, "times": 20})
			if fault == "drop_after" { // otherwise a read would show that the account is removed
				integration.control("POST", "/faults", object{"provider": integration.provider, "operation": simulatorOperation(integration.provider, "account"), "kind": "status", "status": 500, "times": 20, "skip": 1})
			}
			got := integration.expect("DELETE", integration.mailboxPath(index, ""), nil, 504, "provider_timeout")
			if integration.t.Failed() {
				t.Fatalf("with the fault %s the disconnect is answered %s, want 504 provider_timeout", fault, got.raw)
			}
			integration.checkConnection(index, "disconnecting")
			checkValues(t, integration.get(integration.path("")).object, object{"mailbox_connections.other": 1})
			atOtherPlatform.expect("POST", atOtherPlatform.mailboxPath(index, "/oauth/microsoft/init"), nil, 409, "mailbox_already_connected_elsewhere")
			integration.control("DELETE", "/faults", nil)
			integration.eventually("a refresh succeeds", func() bool {
				return integration.do("POST", integration.ready.APIURL+integration.path("/mailboxes/refresh"), integration.key, nil).status == http.StatusOK
			})
			integration.checkConnection(index, map[string]string{"drop_after": "disconnected", "drop_before": "connected"}[fault])
		}
		integration.expect("DELETE", integration.mailboxPath(1, ""), nil, 200, "")
		integration.checkConnection(1, "disconnected")
	})
}

// TestIncompleteListDisconnectsNothing checks that a refresh which fails in the middle of the
// account list disconnects nothing.
func TestIncompleteListDisconnectsNothing(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil)
	c := seededAccount(t, ready)
	integration := c.newMailboxTenant("ada").addIntegration("instantly")
	integration.postponeBackgroundRefresh()
	integration.connectMailbox(0)
	otherAccounts := []object{}
	for n := range 250 { // Instantly lists 100 accounts a page
		otherAccounts = append(otherAccounts, object{"email": fmt.Sprintf("crowd-%03d@elsewhere.test", n)})
	}
	integration.control("POST", "/sending/instantly/accounts", otherAccounts)
	integration.editPlatformAccount("DELETE", 0, nil)
	c.control("POST", "/faults", object{"provider": "instantly", "operation": "accounts", "kind": "status", "status": 500, "times": 1, "skip": 1})
	got := integration.post(integration.path("/mailboxes/refresh"), nil)
	checkValues(t, got.object, object{"status": "partial", "checked": 1, "error_count": 1, "newly_connected": 0})
	integration.checkConnection(0, "connected")
	checkValues(t, integration.get(integration.path("")).object, object{"has_error": true})
	integration.refresh(object{"checked": 1, "connected": 0, "unchanged": 0})
	integration.checkConnection(0, "disconnected")
	checkValues(t, integration.get(integration.path("")).object, object{"has_error": false})
}

// TestSlowSendingPlatformAnswers504 checks that a request is answered 504 if the platform does not
// answer. If the plugin is killed during a call, the request succeeds or is answered 5xx, and the
// repeated request succeeds.
func TestSlowSendingPlatformAnswers504(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil)
	c := seededAccount(t, ready)
	integration := c.newMailboxTenant("ada").addIntegration("instantly")
	c.control("POST", "/faults", object{"provider": "instantly", "operation": "check", "kind": "delay", "delay_ms": 2 * waitTimeout.Milliseconds(), "times": 1})
	integration.expect("POST", integration.path("/test"), nil, 504, "provider_timeout")
	integration.eventually("the call that got no answer is in the journal", func() bool { return countOf(integration.operationsAt("instantly"), "check") > 0 })
	for _, call := range integration.providerCallRequests() {
		c.control("DELETE", "/calls", nil)
		c.control("POST", "/faults", object{"provider": "instantly", "operation": call.operation, "kind": "delay_after", "delay_ms": 1500, "times": 1})
		idempotencyKey, answered := rand.Text(), make(chan reply, 1)
		go func() {
			got, _ := integration.tryWithKey(idempotencyKey, call.method, integration.ready.APIURL+call.path, integration.key, nil)
			answered <- got
		}()
		integration.eventually("the platform is asked", func() bool { return countOf(integration.operationsAt("instantly"), call.operation) > 0 })
		c.control("POST", "/plugins/instantly/kill", nil)
		if got := <-answered; got.status != http.StatusOK && got.status < 500 {
			t.Errorf("%s: after the plugin was killed, the answer is %d %s, want 200 or a 5xx status", call.path, got.status, got.raw)
		}
		integration.retryAndCleanUp(idempotencyKey, call)
	}
}

// TestMailboxGetsOneSignInLink sends 50 requests for a sign-in link of one mailbox at once, half of
// them for each of two integrations. One request gets a link, and only one platform creates a link.
func TestMailboxGetsOneSignInLink(t *testing.T) {
	t.Parallel()
	for name, start := range sendingSandboxes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			atInstantly := c.newMailboxTenant("ada").addIntegration("instantly")
			atSalesBlink := atInstantly.addIntegration("salesblink")
			c.control("DELETE", "/calls", nil)
			answers, gate := make(chan reply, 50), make(chan struct{})
			for n := range cap(answers) {
				integration := []testIntegration{atInstantly, atSalesBlink}[n%2]
				go func() {
					<-gate
					got, _ := integration.retryWhileUnavailable(rand.Text(), "POST", integration.mailboxPath(0, "/oauth/microsoft/init"), integration.key, nil)
					answers <- got
				}()
			}
			close(gate)
			links := 0
			for range cap(answers) {
				switch got := <-answers; {
				case got.status == http.StatusOK:
					links++
				case got.status != http.StatusConflict || got.code() != "mailbox_already_connected_elsewhere" && got.code() != "oauth_session_pending":
					t.Errorf("a request is answered %d %s, want a link or a conflict", got.status, got.raw)
				}
			}
			started := countOf(c.operationsAt("instantly"), "start_sign_in") + countOf(c.operationsAt("salesblink"), "start_sign_in")
			if links != 1 || started != 1 {
				t.Errorf("%d links were answered and %d were requested at the platforms, want 1 and 1", links, started)
			}
		})
	}
}

// TestSignInSessionsExpire checks that the session of an unused link expires, even if its
// status is not requested. The session of a link that was used in time does not expire. After an
// expired session a new session can begin.
func TestSignInSessionsExpire(t *testing.T) {
	t.Parallel()
	c := newSendingSandbox(t)
	var unused, used, forgotten []signInSession
	for _, name := range sendingPlatforms {
		integration := c.newMailboxTenant("ada", "max", "lise").addIntegration(name)
		if integration.capabilities["microsoft_oauth"] != true {
			continue
		}
		unused, used, forgotten = append(unused, integration.beginSession(0)), append(used, integration.beginSession(1)), append(forgotten, integration.beginSession(2))
		integration.expect("GET", integration.mailboxPath(0, "/oauth/microsoft/status?session_id="+used[len(used)-1].id), nil, 404, "oauth_session_not_found")
	}
	if len(unused) < 3 {
		t.Fatalf("%d platforms have OAuth, want at least 3", len(unused))
	}
	for _, session := range used {
		session.signIn(session.address(1), "accept") // nobody requests the status before the clock moves
	}
	unused[0].signIn("stranger@elsewhere.test", "deny")
	c.control("POST", "/clock", object{"advance": "12m"}) // a session expires after 10 minutes and a grace period of 1 minute
	for index, session := range unused {
		want := "expired"
		if index == 0 {
			want = "failed" // this platform reports that the sign-in was declined
		}
		session.waitForStatus(want)
		session.waitForStatus(want) // the status is final
		session.checkConnection(0, "failed")
		used[index].waitForStatus("connected")
		used[index].checkConnection(1, "connected")
		forgottenSession := forgotten[index]
		forgottenSession.eventually("a background job ends the session", func() bool {
			return forgottenSession.get(forgottenSession.path("")).valueAt("mailbox_connections.pending") == 0.0
		})
		forgottenSession.checkConnection(2, "failed")
		checkValues(t, forgottenSession.get(forgottenSession.statusPath()).object, object{"status": "expired"})
	}
	for _, session := range forgotten {
		session.connectMailbox(2)
	}
}

// TestRefreshRunsInTheBackground checks that the service finds changes at a platform without a
// request, and counts them. Due refreshes run when the service starts.
func TestRefreshRunsInTheBackground(t *testing.T) {
	t.Parallel()
	server := newRestartingSandbox(t, requirePrograms(t, releaseBuild), nil)
	integration := seededAccount(t, server.ready).newMailboxTenant("ada", "max").addIntegration("instantly")
	integration.connectMailbox(0)
	integration.connectMailbox(1)
	integration.postponeBackgroundRefresh()
	integration.editPlatformAccount("DELETE", 0, nil)
	integration.editPlatformAccount("PUT", 1, object{"status": -1, "autofix_failed": true})
	server.control("POST", "/clock", object{"advance": "7h"}) // due again after postponeBackgroundRefresh
	server.killAndRestart()
	integration.client = server.client
	integration.eventually("a background refresh finds the changes", func() bool {
		return integration.get(integration.path("")).valueAt("mailbox_connections.connected") == 0.0
	})
	integration.checkConnection(0, "disconnected")
	checkValues(t, integration.checkConnection(1, "failed"), object{"has_error": true})
	checkValues(t, integration.get(integration.path("")).object, object{"mailbox_connections.has_errors": true, "has_error": false})
	drifts := parseMetrics(integration.do("GET", integration.ready.AdminURL+"/metrics", "", nil).raw)["tenantry_sending_drift_total"]
	if len(drifts["kind"]) != 2 {
		t.Errorf("the drift metric has the labels %v, want 2 kinds", drifts)
	}
}
