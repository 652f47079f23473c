// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// at sets the clock.
func (l limited) at(now string) {
	l.t.Helper()
	l.control("POST", "/clock", object{"now": now})
}

// messages are those of all events, newest first.
func (c caller) messages(query string) (all []string) {
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

// TestEnforcementInTrouble: what goes wrong outside blocks nobody who is not
// blocked there, lets nobody go, and is made good by a later run.
func TestEnforcementInTrouble(t *testing.T) {
	t.Parallel()
	c := alone(t)
	c.control("POST", "/clock", object{"now": "2031-03-10T10:00:00Z"})
	for _, tt := range []struct {
		name string
		do   func(l limited)
	}{
		{"the rule cannot be written", ruleFails},
		{"the trace is late", traceLate},
		{"the clock steps back", clockBack},
		{"the tenant is deleted meanwhile", deletedMeanwhile},
		{"a scope without mailboxes", scopeWithout},
		{"a rule that somebody made", ruleAdopted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.do(c.with(t).limited(5, "ada", "max"))
		})
	}
}

func ruleFails(l limited) {
	refused := func() float64 {
		n := 0.0
		for _, sample := range scrape(l.do("GET", l.ready.AdminURL+"/metrics", "", nil).raw)["tenantry_enforcement_runs_total"]["outcome"] {
			if sample != "ok" {
				n++
			}
		}
		return n
	}
	l.sends(0, 6)
	l.trouble("status", object{"operation": "Enable-TransportRule", "status": 400, "times": 2})
	for range 2 {
		l.run()
		l.blocks()
		sees(l.t, l.usage(0), object{"sends_today": 6, "is_blocked": false})
	}
	if got := l.messages(""); len(got) != 0 || refused() == 0 {
		l.t.Errorf("events %q, and %v runs that failed", got, refused())
	}
	l.run()
	l.blocks(0)
	l.tells("Mailbox blocked: sent 6, limit 5")
}

// traceLate: rows that come late count all the same, on the day of their own.
func traceLate(l limited) {
	l.behave(object{"trace_ms": time.Hour.Milliseconds()})
	l.sends(0, 6)
	l.run()
	l.blocks()
	sees(l.t, l.usage(0), object{"sends_today": 0})
	l.at("2031-03-10T11:05:00Z")
	l.run()
	l.blocks(0)
	sees(l.t, l.usage(0), object{"sends_today": 6})
	seen := l.get(l.path("/mailboxes")).objects("mailboxes")[0]
	if at, err := time.Parse(time.RFC3339, seen.text("sends_today_at")); err != nil || at.Sub(time.Date(2031, 3, 10, 11, 5, 0, 0, time.UTC)).Abs() > time.Minute {
		l.t.Errorf("counted at %v", seen["sends_today_at"])
	}
	l.at("2031-03-10T23:30:00Z")
	l.sends(1, 6)
	l.at("2031-03-11T01:00:00Z")
	l.run()
	l.blocks()
	sees(l.t, l.usage(1), object{"sends_today": 0})
	l.sends(1, 2)
	l.at("2031-03-11T02:30:00Z")
	l.run()
	l.blocks()
	sees(l.t, l.usage(1), object{"sends_today": 2})
	l.tells("Mailbox unblocked: sent 0, limit 5", "Mailbox blocked: sent 6, limit 5")
}

func clockBack(l limited) {
	l.at("2031-03-12T10:00:00Z")
	l.sends(0, 6)
	l.run()
	l.blocks(0)
	for _, now := range []string{"2031-03-12T09:00:00Z", "2031-03-11T12:00:00Z", "2031-03-12T10:30:00Z"} {
		l.at(now)
		if w := l.run(); len(w) != 0 {
			l.t.Errorf("at %s: %v", now, w)
		}
		l.blocks(0)
		l.tells("Mailbox blocked: sent 6, limit 5")
	}
	l.at("2031-03-13T10:00:00Z")
	l.run()
	l.blocks()
	l.tells("Mailbox unblocked: sent 0, limit 5", "Mailbox blocked: sent 6, limit 5")
}

// deletedMeanwhile: a run that is setting the rule when its tenant is deleted
// leaves none. What was done stays on record, without the tenant, and that who was blocked
// is let go.
func deletedMeanwhile(l limited) {
	l.sends(0, 6)
	l.run()
	l.sends(1, 6)
	l.trouble("delay", object{"operation": "Set-TransportRule", "delay_ms": 1500})
	l.control("DELETE", "/calls", nil)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		_, _ = l.try("POST", l.ready.ControlURL+"/enforcement/run", "", nil)
	}()
	l.eventually("the run looks at the rule", func() bool { return slices.Contains(l.askedAt("microsoft365"), "Get-TransportRule") })
	gone := l.expect("DELETE", l.path(""), nil, http.StatusOK, "")
	if !strings.Contains(gone.text("message"), "were taken out") {
		l.t.Error(gone.text("message"))
	}
	<-ran
	l.ruledAtPlatform(0)
	l.control("POST", "/enforcement/run", nil)
	l.ruledAtPlatform(0)
	told := map[string]int{}
	for _, message := range l.messages("") {
		told[message]++
	}
	if n := told["Mailbox blocked: sent 6, limit 5"]; n < 1 || n > 2 || told["Mailbox unblocked: sent 6, limit 5"] != n || len(told) != 2 {
		l.t.Errorf("events %v", told)
	}
	l.expect("GET", "/v1/enforcement/events?tenant_id="+l.guid, nil, http.StatusNotFound, "tenant_not_found")
}

// scopeWithout: the rule of a scope without mailboxes is made by its first block.
func scopeWithout(l limited) {
	zone := l.verified()
	set := l.post(l.path("/mailbox-limits"), object{"daily_send_limit": 3, "domain_scope": zone})
	sees(l.t, set.object, object{"provisioning.status": "created", "provisioning.rule_id": nil, "policy.mailboxes_in_scope": 0})
	l.ruledAtPlatform(1)
	l.post(l.path("/mailboxes"), boxes(zone, "lise"))
	lise := "lise@" + zone
	l.control("POST", "/messages", object{"mailbox": lise, "count": 4})
	l.sends(0, 4)
	l.run()
	for _, rule := range l.control("GET", "/tenants/"+l.guid, nil).objects("rules") {
		want := object{"name": "tenantry-block-tenantwide", "enabled": false, "blocks": []any{}}
		if rule.text("name") != "tenantry-block-tenantwide" {
			want = object{"name": "tenantry-block-" + zone, "enabled": true, "blocks": []any{lise}}
		}
		sees(l.t, rule, want)
	}
	again := l.post(l.path("/mailbox-limits"), object{"daily_send_limit": 3, "domain_scope": zone})
	if again.at("provisioning.rule_id") == nil || again.at("policy.mailboxes_in_scope") != 1.0 {
		l.t.Error(string(again.raw))
	}
	if got := l.messages("?action=blocked&tenant_id=" + strings.ToUpper(l.guid)); !slices.Equal(got, []string{"Mailbox blocked: sent 4, limit 3"}) {
		l.t.Errorf("events %q", got)
	}
	if got := l.messages("?action=unblocked"); len(got) != 0 {
		l.t.Errorf("events %q", got)
	}
}

// ruleAdopted: a rule of our name is used, whoever made it and whomever it
// stopped.
func ruleAdopted(l limited) {
	const name = "tenantry-block-tenantwide"
	h := l.caller.connected(nil)
	zone := h.verified()
	h.post(h.path("/mailboxes"), boxes(zone, "ada", "max"))
	h.control("POST", "/tenants/"+h.guid+"/rules", object{"name": name, "enabled": true, "senders": []string{"max@" + zone}})
	set := h.post(h.path("/mailbox-limits"), object{"daily_send_limit": 5})
	if set.at("provisioning.rule_id") == nil || set.at("provisioning.rule_name") != name || set.at("provisioning.status") != "created" {
		h.t.Error(string(set.raw))
	}
	own := limited{h, zone, h.get(h.path("/mailboxes")).objects("mailboxes")}
	own.sends(0, 6)
	own.run()
	own.blocks(0)
	own.tells("Mailbox blocked: sent 6, limit 5")
}
