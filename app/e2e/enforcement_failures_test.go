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

// setClock sets the clock.
func (l limitedTenant) setClock(now string) {
	l.t.Helper()
	l.control("POST", "/clock", object{"now": now})
}

// eventMessages returns the messages of all events, newest first.
func (c caller) eventMessages(query string) (all []string) {
	c.t.Helper()
	list := c.get("/v1/enforcement/events" + query)
	for _, e := range list.objects("events") {
		all = append(all, e.text("message"))
	}
	if list.at("total") != float64(len(all)) {
		c.t.Errorf("%d events, and in total %v", len(all), list.at("total"))
	}
	return all
}

// TestEnforcementRecoversFromFaults checks that during a failure outside the service no block is
// recorded that the platform does not have, and no mailbox is unblocked. A later pass makes up for
// the failed ones.
func TestEnforcementRecoversFromFaults(t *testing.T) {
	t.Parallel()
	c := privateSandbox(t)
	c.control("POST", "/clock", object{"now": "2031-03-10T10:00:00Z"})
	for _, tt := range []struct {
		name string
		do   func(l limitedTenant)
	}{
		{"the rule cannot be written", ruleWriteFails},
		{"the trace is late", traceArrivesLate},
		{"the clock steps back", clockStepsBack},
		{"the tenant is deleted meanwhile", tenantDeletedDuringPass},
		{"a scope without mailboxes", scopeHasNoMailboxes},
		{"a rule that somebody made", existingRuleIsAdopted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.do(c.withT(t).newLimitedTenant(5, "ada", "max"))
		})
	}
}

func ruleWriteFails(l limitedTenant) {
	refused := func() float64 {
		n := 0.0
		for _, sample := range parseMetrics(l.do("GET", l.ready.AdminURL+"/metrics", "", nil).raw)["tenantry_enforcement_runs_total"]["outcome"] {
			if sample != "ok" {
				n++
			}
		}
		return n
	}
	l.send(0, 6)
	l.injectFault("status", object{"operation": "Enable-TransportRule", "status": 400, "times": 2})
	for range 2 {
		l.enforce()
		l.checkBlocked()
		checkValues(l.t, l.usage(0), object{"sends_today": 6, "is_blocked": false})
	}
	if got := l.eventMessages(""); len(got) != 0 || refused() == 0 {
		l.t.Errorf("events %q, and %v runs that failed", got, refused())
	}
	l.enforce()
	l.checkBlocked(0)
	l.checkEvents("Mailbox blocked: sent 6, limit 5")
}

// traceArrivesLate checks that late trace rows are counted, on the day on which the message was
// sent.
func traceArrivesLate(l limitedTenant) {
	l.setBehaviour(object{"trace_ms": time.Hour.Milliseconds()})
	l.send(0, 6)
	l.enforce()
	l.checkBlocked()
	checkValues(l.t, l.usage(0), object{"sends_today": 0})
	l.setClock("2031-03-10T11:05:00Z")
	l.enforce()
	l.checkBlocked(0)
	checkValues(l.t, l.usage(0), object{"sends_today": 6})
	seen := l.get(l.path("/mailboxes")).objects("mailboxes")[0]
	if at, err := time.Parse(time.RFC3339, seen.text("sends_today_at")); err != nil || at.Sub(time.Date(2031, 3, 10, 11, 5, 0, 0, time.UTC)).Abs() > time.Minute {
		l.t.Errorf("counted at %v", seen["sends_today_at"])
	}
	l.setClock("2031-03-10T23:30:00Z")
	l.send(1, 6)
	l.setClock("2031-03-11T01:00:00Z")
	l.enforce()
	l.checkBlocked()
	checkValues(l.t, l.usage(1), object{"sends_today": 0})
	l.send(1, 2)
	l.setClock("2031-03-11T02:30:00Z")
	l.enforce()
	l.checkBlocked()
	checkValues(l.t, l.usage(1), object{"sends_today": 2})
	l.checkEvents("Mailbox unblocked: sent 0, limit 5", "Mailbox blocked: sent 6, limit 5")
}

func clockStepsBack(l limitedTenant) {
	l.setClock("2031-03-12T10:00:00Z")
	l.send(0, 6)
	l.enforce()
	l.checkBlocked(0)
	for _, now := range []string{"2031-03-12T09:00:00Z", "2031-03-11T12:00:00Z", "2031-03-12T10:30:00Z"} {
		l.setClock(now)
		if w := l.enforce(); len(w) != 0 {
			l.t.Errorf("at %s: %v", now, w)
		}
		l.checkBlocked(0)
		l.checkEvents("Mailbox blocked: sent 6, limit 5")
	}
	l.setClock("2031-03-13T10:00:00Z")
	l.enforce()
	l.checkBlocked()
	l.checkEvents("Mailbox unblocked: sent 0, limit 5", "Mailbox blocked: sent 6, limit 5")
}

// tenantDeletedDuringPass deletes a tenant while a pass sets its rule. No rule remains. The events
// remain without the tenant, and each blocked mailbox has an unblock event.
func tenantDeletedDuringPass(l limitedTenant) {
	l.send(0, 6)
	l.enforce()
	l.send(1, 6)
	l.injectFault("delay", object{"operation": "Set-TransportRule", "delay_ms": 1500})
	l.control("DELETE", "/calls", nil)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_, _ = l.tryDo("POST", l.ready.ControlURL+"/enforcement/run", "", nil)
	}()
	l.eventually("the pass reads the rule", func() bool { return slices.Contains(l.operationsAt("microsoft365"), "Get-TransportRule") })
	gone := l.expect("DELETE", l.path(""), nil, http.StatusOK, "")
	if !strings.Contains(gone.text("message"), "were removed") {
		l.t.Error(gone.text("message"))
	}
	<-ran
	l.checkPlatformRules(0)
	l.control("POST", "/enforcement/run", nil)
	l.checkPlatformRules(0)
	eventCounts := map[string]int{}
	for _, message := range l.eventMessages("") {
		eventCounts[message]++
	}
	if n := eventCounts["Mailbox blocked: sent 6, limit 5"]; n < 1 || n > 2 || eventCounts["Mailbox unblocked: sent 6, limit 5"] != n || len(eventCounts) != 2 {
		l.t.Errorf("events %v", eventCounts)
	}
	l.expect("GET", "/v1/enforcement/events?tenant_id="+l.guid, nil, http.StatusNotFound, "tenant_not_found")
}

// scopeHasNoMailboxes checks that the rule of a scope without mailboxes is created by its first
// block.
func scopeHasNoMailboxes(l limitedTenant) {
	zone := l.newVerifiedDomain()
	set := l.post(l.path("/mailbox-limits"), object{"daily_send_limit": 3, "domain_scope": zone})
	checkValues(l.t, set.object, object{"provisioning.status": "created", "provisioning.rule_id": nil, "policy.mailboxes_in_scope": 0})
	l.checkPlatformRules(1)
	l.post(l.path("/mailboxes"), mailboxesBody(zone, "lise"))
	lise := "lise@" + zone
	l.control("POST", "/messages", object{"mailbox": lise, "count": 4})
	l.send(0, 4)
	l.enforce()
	for _, rule := range l.control("GET", "/tenants/"+l.guid, nil).objects("rules") {
		want := object{"name": "tenantry-block-tenantwide", "enabled": false, "blocks": []any{}}
		if rule.text("name") != "tenantry-block-tenantwide" {
			want = object{"name": "tenantry-block-" + zone, "enabled": true, "blocks": []any{lise}}
		}
		checkValues(l.t, rule, want)
	}
	again := l.post(l.path("/mailbox-limits"), object{"daily_send_limit": 3, "domain_scope": zone})
	if again.at("provisioning.rule_id") == nil || again.at("policy.mailboxes_in_scope") != 1.0 {
		l.t.Error(string(again.raw))
	}
	if got := l.eventMessages("?action=blocked&tenant_id=" + strings.ToUpper(l.guid)); !slices.Equal(got, []string{"Mailbox blocked: sent 4, limit 3"}) {
		l.t.Errorf("events %q", got)
	}
	if got := l.eventMessages("?action=unblocked"); len(got) != 0 {
		l.t.Errorf("events %q", got)
	}
}

// existingRuleIsAdopted checks that an existing rule with a managed name is used and its list
// replaced.
func existingRuleIsAdopted(l limitedTenant) {
	const name = "tenantry-block-tenantwide"
	h := l.caller.newConnectedTenant(nil)
	zone := h.newVerifiedDomain()
	h.post(h.path("/mailboxes"), mailboxesBody(zone, "ada", "max"))
	h.control("POST", "/tenants/"+h.guid+"/rules", object{"name": name, "enabled": true, "senders": []string{"max@" + zone}})
	set := h.post(h.path("/mailbox-limits"), object{"daily_send_limit": 5})
	if set.at("provisioning.rule_id") == nil || set.at("provisioning.rule_name") != name || set.at("provisioning.status") != "created" {
		h.t.Error(string(set.raw))
	}
	own := limitedTenant{h, zone, h.get(h.path("/mailboxes")).objects("mailboxes")}
	own.send(0, 6)
	own.enforce()
	own.checkBlocked(0)
	own.checkEvents("Mailbox blocked: sent 6, limit 5")
}

// TestEventsAreDeletedAfterTheRetentionTime checks that events are deleted in whole days, and that
// totals and pages stay correct. 0 days keeps events for ever.
func TestEventsAreDeletedAfterTheRetentionTime(t *testing.T) {
	t.Parallel()
	m := &restartingSandbox{client: client{t: t}, binary: requirePrograms(t, releaseBuild), data: t.TempDir(), flags: []string{"--no-seed"}, extraEnv: []string{"TENANTRY_KEEP_EVENTS_DAYS=0"}}
	m.start()
	m.control("POST", "/clock", object{"now": "2031-03-10T08:00:00Z"})
	l := seededAccount(t, m.ready).newLimitedTenant(1, "ada")
	for _, day := range []string{"10", "12", "14"} {
		l.setClock("2031-03-" + day + "T10:00:00Z")
		l.enforce() // unblocks the mailboxes that were blocked before
		if day != "14" {
			l.send(0, 2)
			l.enforce()
		}
	}
	const blocked, unblocked = "Mailbox blocked: sent 2, limit 1", "Mailbox unblocked: sent 0, limit 1"
	keeps := func(days, now string, want ...string) {
		t.Helper()
		l.setClock(now)
		m.extraEnv = []string{"TENANTRY_KEEP_EVENTS_DAYS=" + days}
		m.killAndRestart()
		l.client = m.client
		list := l.get("/v1/enforcement/events")
		m.eventually("events are forgotten", func() bool {
			list = l.get("/v1/enforcement/events")
			return list.at("total") == float64(len(want))
		})
		var got []string
		for offset := range want {
			page := l.get("/v1/enforcement/events?limit=1&offset=" + strconv.Itoa(offset)).object
			checkValues(t, page, object{"total": len(want), "count": 1, "offset": offset, "limit": 1})
			got = append(got, page.objects("events")[0].text("message"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("kept for %s days at %s: %q, want %q", days, now, got, want)
		}
		checkValues(t, l.get("/v1/enforcement/events?action=blocked").object, object{"total": len(want) / 2})
	}
	keeps("0", "2041-03-15T12:00:00Z", unblocked, blocked, unblocked, blocked)
	keeps("3", "2031-03-13T23:58:00Z", unblocked, blocked, unblocked, blocked)
	keeps("3", "2031-03-14T00:00:00Z", unblocked, blocked, unblocked)
	keeps("1", "2031-03-14T12:00:00Z", unblocked)
}
