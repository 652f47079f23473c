// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func (l limitedTenant) setClock(now string) {
	l.t.Helper()
	l.control("POST", "/clock", object{"now": now})
}

// eventMessages returns the messages of the events that match a query, newest first.
func (c caller) eventMessages(query string) (messages []string) {
	c.t.Helper()
	list := c.get("/v1/enforcement/events" + query)
	for _, e := range list.objects("events") {
		messages = append(messages, e.text("message"))
	}
	if list.valueAt("total") != float64(len(messages)) {
		c.t.Errorf("the list has %d events, but the total is %v", len(messages), list.valueAt("total"))
	}
	return messages
}

// TestEnforcementRecoversFromFaults checks enforcement while the platform, the clock or the tenant
// is in an unusual state.
func TestEnforcementRecoversFromFaults(t *testing.T) {
	t.Parallel()
	c := privateSandbox(t)
	c.control("POST", "/clock", object{"now": "2031-03-10T10:00:00Z"})
	for _, tc := range []struct {
		name string
		test func(limited limitedTenant)
	}{
		{"the rule cannot be written", ruleWriteFails},
		{"the trace shows messages late", traceArrivesLate},
		{"the clock steps back", clockStepsBack},
		{"the tenant is deleted meanwhile", tenantDeletedDuringPass},
		{"a scope without mailboxes", scopeHasNoMailboxes},
		{"a rule with a managed name exists", existingRuleIsAdopted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.test(c.withT(t).newLimitedTenant(5, "ada", "max"))
		})
	}
}

// ruleWriteFails checks that no block is stored while the platform refuses to enable the rule, and
// that a later pass blocks the mailbox.
func ruleWriteFails(limited limitedTenant) {
	limited.enforce() // the tenant is then not due for at least 5 minutes, so no background pass interferes
	_, failedBefore := limited.countPasses("done")
	limited.send(0, 6)
	limited.injectFault("status", object{"operation": "Enable-TransportRule", "status": 400, "times": 1000})
	for range 2 {
		limited.eventually("a pass counts the messages", func() bool {
			limited.control("POST", "/enforcement/run", nil)
			return limited.usage(0)["sends_today"] == 6.0
		})
		limited.checkBlocked()
		checkValues(limited.t, limited.usage(0), object{"is_blocked": false})
	}
	_, failed := limited.countPasses("done")
	if got := limited.eventMessages(""); len(got) != 0 || failed-failedBefore < 2 {
		limited.t.Errorf("the events are %q and the metric counts %d failed passes, want no events and at least 2 failed passes", got, failed-failedBefore)
	}
	limited.control("DELETE", "/faults", nil)
	limited.enforceUntilOutcome("done")
	limited.checkBlocked(0)
	limited.checkEvents("Mailbox blocked: sent 6, limit 5")
}

// traceArrivesLate checks that a message which the message trace shows late counts for the day on
// which it was sent.
func traceArrivesLate(limited limitedTenant) {
	limited.setBehaviour(object{"trace_ms": time.Hour.Milliseconds()})
	limited.send(0, 6)
	limited.enforce()
	limited.checkBlocked()
	checkValues(limited.t, limited.usage(0), object{"sends_today": 0})
	limited.setClock("2031-03-10T11:05:00Z")
	limited.enforce()
	limited.checkBlocked(0)
	checkValues(limited.t, limited.usage(0), object{"sends_today": 6})
	mailbox := limited.get(limited.path("/mailboxes")).objects("mailboxes")[0]
	if countedAt, err := time.Parse(time.RFC3339, mailbox.text("sends_today_at")); err != nil || countedAt.Sub(time.Date(2031, 3, 10, 11, 5, 0, 0, time.UTC)).Abs() > 20*time.Minute {
		limited.t.Errorf("the mailbox was counted at %v, want about 11:05", mailbox["sends_today_at"])
	}
	limited.setClock("2031-03-10T23:30:00Z")
	limited.send(1, 6)
	limited.setClock("2031-03-11T01:00:00Z")
	limited.enforce()
	limited.checkBlocked()
	checkValues(limited.t, limited.usage(1), object{"sends_today": 0})
	limited.send(1, 2)
	limited.setClock("2031-03-11T02:30:00Z")
	limited.enforce()
	limited.checkBlocked()
	checkValues(limited.t, limited.usage(1), object{"sends_today": 2})
	limited.checkEvents("Mailbox unblocked: sent 0, limit 5", "Mailbox blocked: sent 6, limit 5")
}

// clockStepsBack checks that a clock that is set back changes no rule and no event.
func clockStepsBack(limited limitedTenant) {
	limited.setClock("2031-03-12T10:00:00Z")
	limited.send(0, 6)
	limited.enforce()
	limited.checkBlocked(0)
	for _, now := range []string{"2031-03-12T09:00:00Z", "2031-03-11T12:00:00Z", "2031-03-12T10:30:00Z"} {
		limited.setClock(now)
		if writes := limited.enforce(); len(writes) != 0 {
			limited.t.Errorf("with the clock at %s the rule changes are %v, want none", now, writes)
		}
		limited.checkBlocked(0)
		limited.checkEvents("Mailbox blocked: sent 6, limit 5")
	}
	limited.setClock("2031-03-13T10:00:00Z")
	limited.enforce()
	limited.checkBlocked()
	limited.checkEvents("Mailbox unblocked: sent 0, limit 5", "Mailbox blocked: sent 6, limit 5")
}

// tenantDeletedDuringPass checks that no rule remains at the platform if a tenant is deleted while
// a pass sets the tenant's rule. The account keeps the events, with an unblock for each block.
func tenantDeletedDuringPass(limited limitedTenant) {
	limited.send(0, 6)
	limited.enforce()
	limited.send(1, 6)
	limited.injectFault("delay", object{"operation": "Set-TransportRule", "delay_ms": 1500})
	limited.control("DELETE", "/calls", nil)
	passEnded := make(chan struct{})
	go func() {
		defer close(passEnded)
		_, _ = limited.tryDo("POST", limited.ready.ControlURL+"/enforcement/run", "", nil)
	}()
	limited.eventually("the pass reads the rule", func() bool { return slices.Contains(limited.operationsAt("microsoft365"), "Get-TransportRule") })
	deleted := limited.expect("DELETE", limited.path(""), nil, http.StatusOK, "")
	if !strings.Contains(deleted.text("message"), "were removed") {
		limited.t.Errorf("the deletion does not say that the rules were removed: %s", deleted.text("message"))
	}
	<-passEnded
	limited.checkPlatformRules(0)
	limited.control("POST", "/enforcement/run", nil)
	limited.checkPlatformRules(0)
	eventCounts := map[string]int{}
	for _, message := range limited.eventMessages("") {
		eventCounts[message]++
	}
	if n := eventCounts["Mailbox blocked: sent 6, limit 5"]; n < 1 || n > 2 || eventCounts["Mailbox unblocked: sent 6, limit 5"] != n || len(eventCounts) != 2 {
		limited.t.Errorf("the events are %v, want one or two blocks and as many unblocks", eventCounts)
	}
	limited.expect("GET", "/v1/enforcement/events?tenant_id="+limited.guid, nil, http.StatusNotFound, "tenant_not_found")
}

// scopeHasNoMailboxes sets a limit for a domain without mailboxes. It checks that the limit's rule
// is created when the first mailbox is blocked.
func scopeHasNoMailboxes(limited limitedTenant) {
	zone := limited.newVerifiedDomain()
	limit := limited.post(limited.path("/mailbox-limits"), object{"daily_send_limit": 3, "domain_scope": zone})
	checkValues(limited.t, limit.object, object{"provisioning.status": "created", "provisioning.rule_id": nil, "policy.mailboxes_in_scope": 0})
	limited.checkPlatformRules(1)
	limited.post(limited.path("/mailboxes"), mailboxesBody(zone, "lise"))
	lise := "lise@" + zone
	limited.control("POST", "/messages", object{"mailbox": lise, "count": 4})
	limited.send(0, 4)
	limited.enforce()
	for _, rule := range limited.control("GET", "/tenants/"+limited.guid, nil).objects("rules") {
		want := object{"name": "tenantry-block-tenantwide", "enabled": false, "blocks": []any{}}
		if rule.text("name") != "tenantry-block-tenantwide" {
			want = object{"name": "tenantry-block-" + zone, "enabled": true, "blocks": []any{lise}}
		}
		checkValues(limited.t, rule, want)
	}
	limitAfterBlock := limited.post(limited.path("/mailbox-limits"), object{"daily_send_limit": 3, "domain_scope": zone})
	if limitAfterBlock.valueAt("provisioning.rule_id") == nil || limitAfterBlock.valueAt("policy.mailboxes_in_scope") != 1.0 {
		limited.t.Errorf("the limit has no rule, or not one mailbox in its scope: %s", limitAfterBlock.raw)
	}
	if got := limited.eventMessages("?action=blocked&tenant_id=" + strings.ToUpper(limited.guid)); !slices.Equal(got, []string{"Mailbox blocked: sent 4, limit 3"}) {
		limited.t.Errorf("the events are %q, want one block", got)
	}
	if got := limited.eventMessages("?action=unblocked"); len(got) != 0 {
		limited.t.Errorf("the unblock events are %q, want none", got)
	}
}

// existingRuleIsAdopted checks that the service uses an existing rule that has the name of a
// managed rule, and replaces the rule's list of blocked mailboxes.
func existingRuleIsAdopted(limited limitedTenant) {
	const name = "tenantry-block-tenantwide"
	tenant := limited.caller.newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada", "max"))
	tenant.control("POST", "/tenants/"+tenant.guid+"/rules", object{"name": name, "enabled": true, "senders": []string{"max@" + zone}})
	limit := tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": 5})
	if limit.valueAt("provisioning.rule_id") == nil || limit.valueAt("provisioning.rule_name") != name || limit.valueAt("provisioning.status") != "created" {
		tenant.t.Errorf("the limit does not use the existing rule: %s", limit.raw)
	}
	adopted := limitedTenant{tenant, zone, tenant.get(tenant.path("/mailboxes")).objects("mailboxes")}
	adopted.send(0, 6)
	adopted.enforce()
	adopted.checkBlocked(0)
	adopted.checkEvents("Mailbox blocked: sent 6, limit 5")
}

// TestEventsAreDeletedAfterTheRetentionTime checks that events are deleted in whole days, and that
// totals and pages stay correct. With 0 days, events are kept forever.
func TestEventsAreDeletedAfterTheRetentionTime(t *testing.T) {
	t.Parallel()
	server := &restartingSandbox{client: client{t: t}, build: requirePrograms(t, releaseBuild), dataDir: t.TempDir(), flags: []string{"--no-seed"}, extraEnv: []string{"TENANTRY_KEEP_EVENTS_DAYS=0"}}
	server.start()
	server.control("POST", "/clock", object{"now": "2031-03-10T08:00:00Z"})
	limited := seededAccount(t, server.ready).newLimitedTenant(1, "ada")
	for _, day := range []string{"10", "12", "14"} {
		limited.setClock("2031-03-" + day + "T10:00:00Z")
		limited.enforce() // unblocks the mailbox if it is blocked
		if day != "14" {
			limited.send(0, 2)
			limited.enforce()
		}
	}
	const blocked, unblocked = "Mailbox blocked: sent 2, limit 1", "Mailbox unblocked: sent 0, limit 1"
	checkKept := func(days, now string, want ...string) {
		t.Helper()
		limited.setClock(now)
		server.extraEnv = []string{"TENANTRY_KEEP_EVENTS_DAYS=" + days}
		server.killAndRestart()
		limited.client = server.client
		server.eventually("the old events are deleted", func() bool {
			return limited.get("/v1/enforcement/events").valueAt("total") == float64(len(want))
		})
		var got []string
		for offset := range want {
			page := limited.get("/v1/enforcement/events?limit=1&offset=" + strconv.Itoa(offset)).object
			checkValues(t, page, object{"total": len(want), "count": 1, "offset": offset, "limit": 1})
			got = append(got, page.objects("events")[0].text("message"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %s days of retention, the events at %s are %q, want %q", days, now, got, want)
		}
		checkValues(t, limited.get("/v1/enforcement/events?action=blocked").object, object{"total": len(want) / 2})
	}
	checkKept("0", "2041-03-15T12:00:00Z", unblocked, blocked, unblocked, blocked)
	checkKept("3", "2031-03-13T23:45:00Z", unblocked, blocked, unblocked, blocked)
	checkKept("3", "2031-03-14T00:00:00Z", unblocked, blocked, unblocked)
	checkKept("1", "2031-03-14T12:00:00Z", unblocked)
}
