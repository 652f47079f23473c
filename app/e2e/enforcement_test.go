// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// limitedTenant is a tenant with mailboxes in one domain, and with a daily send limit.
type limitedTenant struct {
	accountTenant
	zone      string
	mailboxes []object
}

// newLimitedTenant creates a tenant with mailboxes and a limit in a new account.
func (c caller) newLimitedTenant(perDay int, localParts ...string) limitedTenant {
	c.t.Helper()
	tenant := c.newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, localParts...))
	tenant.post(tenant.path("/mailbox-limits"), object{"daily_send_limit": perDay})
	return limitedTenant{tenant, zone, tenant.get(tenant.path("/mailboxes")).objects("mailboxes")}
}

func (l limitedTenant) send(index, count int) {
	l.t.Helper()
	l.control("POST", "/messages", object{"mailbox": l.mailboxes[index].text("primary_smtp"), "count": count})
}

// enforce runs enforcement, whose passes must succeed. It returns the rule changes that were
// requested for this tenant.
func (l limitedTenant) enforce() (writes []string) {
	l.t.Helper()
	l.control("DELETE", "/calls", nil)
	l.runEnforcement("done")
	return l.ruleWrites()
}

const (
	// passLease is how long a pass holds a tenant without renewing its lease.
	passLease = 30 * time.Second
	// slowRun is the duration of a run of enforcement from which a pass may fail without a fault.
	// It is less than the 25 s that a pass may spend in trace calls, and less than passLease.
	slowRun = 20 * time.Second
)

// runEnforcement runs enforcement. All passes must have one of these outcomes. Only a run that took
// at least slowRun may have other outcomes, and is then repeated. After a fault or a kill, use
// enforceUntilOutcome.
func (c client) runEnforcement(outcomes ...string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("all passes of a run of enforcement have an outcome of %q", outcomes), func() bool {
		hasOutcomes, duration := c.tryEnforcement(outcomes...)
		if !hasOutcomes && duration < slowRun {
			c.t.Fatalf("a run of enforcement that took %s has no pass, or a pass without an outcome of %q: %v", duration, outcomes, c.counterValues(passesMetric, "outcome"))
		}
		return hasOutcomes
	})
}

// enforceUntilOutcome runs enforcement until all passes of a run have one of these outcomes. It is
// for tests in which a pass may fail for a while: after a kill, after a fault, which can open a
// circuit, and after a run that was slow.
func (c client) enforceUntilOutcome(outcomes ...string) {
	c.t.Helper()
	c.eventually(fmt.Sprintf("all enforcement passes have an outcome of %q", outcomes), func() bool {
		hasOutcomes, _ := c.tryEnforcement(outcomes...)
		return hasOutcomes
	})
}

// tryEnforcement runs enforcement once. It returns how long the run took, and whether all passes
// had one of these outcomes. A run of at least passLease never counts, because passes that lose
// their lease are not counted.
func (c client) tryEnforcement(outcomes ...string) (hasOutcomes bool, duration time.Duration) {
	c.t.Helper()
	wantedBefore, unwantedBefore := c.countPasses(outcomes...)
	began := time.Now()
	c.control("POST", "/enforcement/run", nil)
	duration = time.Since(began)
	wanted, unwanted := c.countPasses(outcomes...)
	return duration < passLease && wanted > wantedBefore && unwanted == unwantedBefore, duration
}

// passesMetric counts the enforcement passes by outcome.
const passesMetric = "tenantry_enforcement_runs_total"

// countPasses counts the enforcement passes since the service started: those with one of these
// outcomes, and all others.
func (c client) countPasses(outcomes ...string) (wanted, unwanted int) {
	c.t.Helper()
	for outcome, passes := range c.counterValues(passesMetric, "outcome") {
		if slices.Contains(outcomes, outcome) {
			wanted += passes
		} else {
			unwanted += passes
		}
	}
	return wanted, unwanted
}

// ruleWrites returns the rule changes of this tenant in the platform's journal.
func (l limitedTenant) ruleWrites() (writes []string) {
	l.t.Helper()
	for _, call := range l.client.journal("microsoft365") {
		if slices.Contains(ruleCmdlets, call.text("operation")) && strings.Contains(call.text("path"), l.guid) {
			writes = append(writes, call.text("operation"))
		}
	}
	return writes
}

var ruleCmdlets = []string{"New-TransportRule", "Set-TransportRule", "Enable-TransportRule", "Disable-TransportRule", "Remove-TransportRule"}

func (l limitedTenant) usage(index int) object {
	l.t.Helper()
	return l.get(l.path("/mailboxes/" + l.mailboxes[index].text("id") + "/usage")).object
}

// checkBlocked checks that the platform's only rule blocks exactly the mailboxes with these
// indexes. Without indexes, the rule must be disabled. The service must report the same mailboxes
// as blocked.
func (l limitedTenant) checkBlocked(indexes ...int) {
	l.t.Helper()
	want := []any{}
	for _, index := range indexes {
		want = append(want, l.mailboxes[index].text("primary_smtp"))
	}
	rules := l.control("GET", "/tenants/"+l.guid, nil).objects("rules")
	if len(rules) != 1 || rules[0]["enabled"] != (len(want) > 0) {
		l.t.Fatalf("the platform has the rules %v, want one rule that blocks %v", rules, want)
	}
	if blocked, _ := rules[0]["blocks"].([]any); !slices.Equal(blocked, want) {
		l.t.Errorf("the rule blocks %v, want %v", blocked, want)
	}
	for index := range l.mailboxes {
		usage, isListed := l.usage(index), slices.Contains(indexes, index)
		if usage["is_blocked"] != isListed || (usage["blocked_at"] != nil) != isListed {
			l.t.Errorf("the usage of mailbox %d is %v, want blocked: %v", index, usage, isListed)
		}
	}
}

// checkEvents checks that all events are of the first mailbox and have these messages, newest
// first.
func (l limitedTenant) checkEvents(want ...string) {
	l.t.Helper()
	list := l.get("/v1/enforcement/events")
	var got []string
	for _, e := range list.objects("events") {
		checkValues(l.t, e, object{"tenant_id": l.guid, "mailbox_address": l.mailboxes[0].text("primary_smtp")})
		got = append(got, e.text("message"))
	}
	if !slices.Equal(got, want) || list.valueAt("total") != float64(len(want)) {
		l.t.Errorf("the events are %q, want %q", got, want)
	}
}

// TestMailboxOverItsLimitIsBlocked checks that a mailbox over its limit is blocked at the platform
// once. The mailbox is unblocked when its day ends or when its limit is raised.
func TestMailboxOverItsLimitIsBlocked(t *testing.T) {
	t.Parallel()
	onBothDatabases(t, func(t *testing.T) caller { return privateSandbox(t) }, func(t *testing.T, c caller) {
		c.control("POST", "/clock", object{"now": "2031-03-10T10:00:00Z"})
		limited := c.newLimitedTenant(5, "ada", "max")
		limited.send(0, 5)
		limited.send(1, 2)
		if writes := limited.enforce(); len(writes) != 0 {
			t.Errorf("at the limit the rule changes are %v, want none", writes)
		}
		limited.checkBlocked()
		checkValues(t, limited.usage(0), object{"daily_send_limit": 5, "sends_today": 5, "remaining_sends": 0, "utilization_pct": 100})

		limited.send(0, 1)
		if writes := limited.enforce(); len(writes) == 0 {
			t.Error("above the limit no rule was changed at the platform")
		}
		limited.checkBlocked(0)
		checkValues(t, limited.usage(0), object{"sends_today": 6, "remaining_sends": 0, "utilization_pct": 120})
		checkValues(t, limited.usage(1), object{"sends_today": 2, "remaining_sends": 3, "utilization_pct": 40})
		const firstBlock = "Mailbox blocked: sent 6, limit 5"
		limited.checkEvents(firstBlock)
		blockedAt := limited.usage(0)["blocked_at"]

		limited.checkRepeatedPasses(blockedAt, firstBlock)
		limited.send(0, 3) // the rule blocks these messages
		limited.checkRepeatedPasses(blockedAt, firstBlock)

		c.control("POST", "/clock", object{"advance": "14h"})
		limited.enforce()
		limited.checkBlocked()
		const firstUnblock = "Mailbox unblocked: sent 0, limit 5"
		limited.checkEvents(firstUnblock, firstBlock)
		checkValues(t, limited.usage(0), object{"sends_today": 0, "remaining_sends": 5, "utilization_pct": 0})

		limited.send(0, 7)
		limited.enforce()
		limited.checkBlocked(0)
		const secondBlock, secondUnblock = "Mailbox blocked: sent 7, limit 5", "Mailbox unblocked: sent 7, limit 7"
		limited.checkEvents(secondBlock, firstUnblock, firstBlock)
		limited.post(limited.path("/mailbox-limits"), object{"daily_send_limit": 7})
		limited.enforce()
		limited.checkBlocked()
		limited.checkEvents(secondUnblock, secondBlock, firstUnblock, firstBlock)
		limited.checkMetrics()
	})
}

// checkRepeatedPasses runs two passes at once and then a third pass. It checks that these passes
// change no rule. The first mailbox must still be blocked since blockedAt and have only these
// events.
func (l limitedTenant) checkRepeatedPasses(blockedAt any, events ...string) {
	l.t.Helper()
	l.control("DELETE", "/calls", nil)
	var runs sync.WaitGroup
	for range 2 {
		runs.Go(func() { l.control("POST", "/enforcement/run", nil) })
	}
	runs.Wait()
	l.control("POST", "/enforcement/run", nil)
	if writes := l.ruleWrites(); len(writes) != 0 {
		l.t.Errorf("the repeated passes changed rules: %v", writes)
	}
	l.checkBlocked(0)
	l.checkEvents(events...)
	checkValues(l.t, l.usage(0), object{"blocked_at": blockedAt, "sends_today": 6})
}

func (l limitedTenant) checkMetrics() {
	l.t.Helper()
	exported := parseMetrics(l.do("GET", l.ready.AdminURL+"/metrics", "", nil).raw)
	for name, labels := range metricsOfOtherTests {
		if !strings.HasPrefix(name, "tenantry_enforcement_") {
			continue
		}
		for _, label := range append(labels, "job") {
			if _, has := exported[name][label]; !has {
				l.t.Errorf("%s with the label %s is not exported", name, label)
			}
		}
	}
	if changes := l.counterValues("tenantry_enforcement_changes_total", "action"); changes["blocked"] != 2 || changes["unblocked"] != 2 {
		l.t.Errorf("the counted changes are %v, want 2 of each action", changes)
	}
}

const (
	limitMembers  = "tenant_id daily_send_limit domain_scope scope_label policy"
	policyMembers = "id daily_send_limit domain_scope state mailboxes_in_scope created_at updated_at"
)

// TestMailboxLimitCreatesATransportRule checks that a limit has a rule at the platform. The rule is
// disabled while no mailbox is blocked, and is removed together with the tenant.
func TestMailboxLimitCreatesATransportRule(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada", "max"))
	tenant.expect("GET", tenant.path("/mailbox-limits"), nil, 404, "policy_not_found")

	for _, scope := range []object{{}, {"domain_scope": zone}} {
		label, body, query := "tenant", object{"daily_send_limit": 20}, ""
		if scope["domain_scope"] != nil {
			label, query = zone, "?domain_scope="+zone
			body["domain_scope"] = zone
		}
		limit := tenant.post(tenant.path("/mailbox-limits"), body)
		checkMembers(t, "set", limit.object, limitMembers+" status provisioning")
		checkMembers(t, "policy", limit.valueAt("policy"), policyMembers)
		checkMembers(t, "provisioning", limit.valueAt("provisioning"), "status rule_name rule_id message")
		checkValues(t, limit.object, object{"status": "provisioned", "tenant_id": tenant.guid, "daily_send_limit": 20, "domain_scope": scope["domain_scope"],
			"scope_label": label, "policy.state": "active", "policy.mailboxes_in_scope": 2, "provisioning.status": "created"})
		checkValues(t, tenant.post(tenant.path("/mailbox-limits"), body).object, object{"provisioning.status": "unchanged", "provisioning.rule_id": limit.valueAt("provisioning.rule_id")})
		stored := tenant.get(tenant.path("/mailbox-limits") + query)
		checkMembers(t, "get", stored.object, limitMembers)
		checkValues(t, stored.object, object{"daily_send_limit": 20, "scope_label": label, "policy.id": limit.valueAt("policy.id"),
			"policy.created_at": limit.valueAt("policy.created_at"), "policy.updated_at": limit.valueAt("policy.updated_at")})
	}
	tenant.checkPlatformRules(2)

	deleted := tenant.expect("DELETE", tenant.path(""), nil, 200, "")
	checkValues(t, deleted.object, object{"status": "deleted", "message": "The tenant, its domains, its mailboxes and its sync history were removed from the " +
		"service. The mail flow rules that blocked mailboxes were removed from the tenant; nothing else at the mail platform was changed."})
	tenant.checkPlatformRules(0)
}

// checkPlatformRules checks that the platform has n rules, and that all of them are disabled.
func (tenant accountTenant) checkPlatformRules(n int) {
	tenant.t.Helper()
	rules := tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("rules")
	if len(rules) != n {
		tenant.t.Errorf("the platform has %v, want %d rules", rules, n)
	}
	for _, r := range rules {
		if r["enabled"] != false {
			tenant.t.Errorf("a rule at the platform is enabled: %v", r)
		}
	}
}

const headroomMembers = "external_recipient_limit sends_today sends_today_at remaining utilization_pct email_licenses estimated_at"

// TestHeadroomFollowsLicencesAndSends compares the tenant's external recipient limit, which follows
// from its paid licences, with the messages of the day.
func TestHeadroomFollowsLicencesAndSends(t *testing.T) {
	t.Parallel()
	// Without the worker, no background pass counts messages before the test expects it.
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{"TENANTRY_WORKER=false"}, "--no-seed")
	c := seededAccount(t, ready)
	c.control("POST", "/clock", object{"now": "2031-03-10T10:00:00Z"})
	limited := c.newLimitedTenant(25, "ada", "max")
	checkHeadroom := func(want object) object {
		t.Helper()
		got := limited.get(limited.path("")).valueAt("readiness.headroom")
		checkMembers(t, "headroom", got, headroomMembers)
		headroom, _ := got.(map[string]any)
		checkValues(t, headroom, want)
		return headroom
	}
	firstHeadroom := checkHeadroom(object{"external_recipient_limit": 10000, "email_licenses": 1, "sends_today": 0, "sends_today_at": nil, "remaining": 10000, "utilization_pct": 0})

	limited.send(0, 120)
	limited.send(1, 5)
	limited.enforce()
	countedAt := limited.get(limited.path("/mailboxes")).objects("mailboxes")[0]["sends_today_at"]
	if countedAt == nil {
		t.Fatal("after a pass sends_today_at is missing, so no mailbox was counted")
	}
	checkHeadroom(object{"external_recipient_limit": 10000, "sends_today": 125, "sends_today_at": countedAt, "remaining": 9875, "utilization_pct": 1.3, "estimated_at": firstHeadroom["estimated_at"]})

	// Only trial licences are left. A sync finds that out only if it may read the licences.
	limited.setBehaviour(object{"licenses": object{"paid": 0, "trial": 25}})
	limited.control("POST", "/faults", object{"provider": "microsoft365", "operation": "directory.list-subscriptions", "kind": "status", "status": 403, "times": 99})
	c.control("POST", "/clock", object{"advance": "1h"})
	limited.mustSync()
	checkHeadroom(object{"external_recipient_limit": 10000, "email_licenses": 1, "estimated_at": firstHeadroom["estimated_at"]})
	limited.control("DELETE", "/faults", nil)
	limited.mustSync()
	if laterHeadroom := checkHeadroom(object{"external_recipient_limit": 5000, "email_licenses": 0, "sends_today": 125, "remaining": 4875, "utilization_pct": 2.5}); laterHeadroom["estimated_at"] == firstHeadroom["estimated_at"] {
		t.Errorf("estimated_at is still %v, want a new estimate", laterHeadroom["estimated_at"])
	}

	// On the next day, before its first count, no messages count as sent.
	c.control("POST", "/clock", object{"advance": "14h"})
	checkHeadroom(object{"sends_today": 0, "sends_today_at": nil, "remaining": 5000, "utilization_pct": 0})
	for _, entry := range c.get("/v1/tenants").objects("tenants") {
		checkMembers(t, "list entry", entry, summaryMembers)
	}
}
