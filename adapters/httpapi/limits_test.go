// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// newMailboxLimitEnv returns an environment in which the tenant of account A is ready for mail flow
// rules and has a mailbox. It also returns a client, the path of the tenant's limits and the domain
// of the mailbox.
func newMailboxLimitEnv(t *testing.T) (env *testEnv, client *apiClient, path, domainName string) {
	t.Helper()
	env = newTestEnv(t)
	addedDomain, _ := env.addDomainAndMailbox(t, env.accountA)
	env.updateTenant(t, env.accountA, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapReady })
	return env, serve(t, env.handler(t)), "/v1/tenants/" + string(env.accountA.tenant) + "/mailbox-limits", addedDomain.Name
}

// checkMembers checks the members of an answer. The keys of want are the paths of the members, for
// example "policy.id".
func checkMembers(t *testing.T, got reply, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if member(got.body, path) != value {
			t.Errorf("%s is %v, want %v: %s", path, member(got.body, path), value, got.raw)
		}
	}
}

func TestMailboxLimitsAreSetAndReturned(t *testing.T) {
	env, client, path, domainName := newMailboxLimitEnv(t)
	client.expect(call{method: "GET", path: path, key: env.accountA.key}, 404, "policy_not_found")
	tenantLimit := client.expect(call{method: "POST", path: path, body: `{"daily_send_limit":25}`, key: env.accountA.key}, 200, "")
	checkMembers(t, tenantLimit, map[string]any{
		"status": "provisioned", "tenant_id": string(env.accountA.tenant), "daily_send_limit": 25.0, "domain_scope": nil, "scope_label": "tenant",
		"policy.daily_send_limit": 25.0, "policy.domain_scope": nil, "policy.state": "active", "policy.mailboxes_in_scope": 1.0,
		"provisioning.status": "created", "provisioning.rule_name": sendlimit.RuleName(sendlimit.TenantWide),
	})
	if member(tenantLimit.body, "provisioning.rule_id") == nil || tenantLimit.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Errorf("got the headers %v and %s, want a rule id, counted in provider_heavy", tenantLimit.header, tenantLimit.raw)
	}
	domainLimit := client.expect(call{method: "POST", path: path, body: `{"daily_send_limit":5,"domain_scope":"` + strings.ToUpper(domainName) + `."}`, key: env.accountA.key}, 200, "")
	checkMembers(t, domainLimit, map[string]any{"domain_scope": domainName, "scope_label": domainName, "policy.domain_scope": domainName, "provisioning.rule_name": sendlimit.RuleName(domainName)})
	for _, repetition := range []struct {
		limit      int
		wantStatus string
	}{{5, "unchanged"}, {6, "updated"}, {6, "unchanged"}} {
		repeated := client.expect(call{method: "POST", path: path, body: fmt.Sprintf(`{"daily_send_limit":%d,"domain_scope":%q}`, repetition.limit, domainName), key: env.accountA.key}, 200, "")
		checkMembers(t, repeated, map[string]any{"policy.id": member(domainLimit.body, "policy.id"), "provisioning.status": repetition.wantStatus})
	}
	returned := client.expect(call{method: "GET", path: path, key: env.accountA.key}, 200, "")
	checkMembers(t, returned, map[string]any{"tenant_id": string(env.accountA.tenant), "daily_send_limit": 25.0, "domain_scope": nil, "scope_label": "tenant",
		"policy.id": member(tenantLimit.body, "policy.id"), "policy.mailboxes_in_scope": 1.0})
	returned = client.expect(call{method: "GET", path: path + "?domain_scope=" + domainName, key: env.accountA.key}, 200, "")
	checkMembers(t, returned, map[string]any{"daily_send_limit": 6.0, "domain_scope": domainName, "scope_label": domainName, "policy.id": member(domainLimit.body, "policy.id")})
	if returned.header.Get("X-RateLimit-Bucket") != "read" {
		t.Errorf("got the headers %v, want the bucket read", returned.header)
	}
}

func TestLimitWithoutMailboxesHasNoRule(t *testing.T) {
	env := newTestEnv(t)
	env.updateTenant(t, env.accountA, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapReady })
	client, path := serve(t, env.handler(t)), "/v1/tenants/"+string(env.accountA.tenant)+"/mailbox-limits"
	created := client.expect(call{method: "POST", path: path, body: `{"daily_send_limit":25}`, key: env.accountA.key}, 200, "")
	checkMembers(t, created, map[string]any{"provisioning.rule_id": nil})
	removed := client.expect(call{method: "DELETE", path: path, key: env.accountA.key}, 200, "")
	checkMembers(t, removed, map[string]any{"status": "removed", "message": "The limit is no longer enforced. It had no mail flow rule yet."})
}

// TestEndingALimitRemovesTheRuleOfItsFirstBlock ends a limit that was set without a rule. The first
// block of a mailbox created the rule, so the answer must say that the rule was removed.
func TestEndingALimitRemovesTheRuleOfItsFirstBlock(t *testing.T) {
	env := newTestEnv(t)
	env.updateTenant(t, env.accountA, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapReady })
	client, path := serve(t, env.handler(t)), "/v1/tenants/"+string(env.accountA.tenant)+"/mailbox-limits"
	client.expect(call{method: "POST", path: path, body: `{"daily_send_limit":25}`, key: env.accountA.key}, 200, "")
	_, err := env.platform.For(env.accountA.tenant).Block(t.Context(), sendlimit.TenantWide, []string{"ada@example.test"})
	must(t, err)
	removed := client.expect(call{method: "DELETE", path: path, key: env.accountA.key}, 200, "")
	checkMembers(t, removed, map[string]any{"status": "removed",
		"message": "The limit is no longer enforced, and its mail flow rule was removed from the tenant. The mail platform can apply the old rule for up to 30 minutes."})
}

func TestInvalidMailboxLimitsAreRefused(t *testing.T) {
	env, client, path, _ := newMailboxLimitEnv(t)
	domainOfB, _ := env.addDomainAndMailbox(t, env.accountB)
	pathOfB := "/v1/tenants/" + string(env.accountB.tenant) + "/mailbox-limits"
	for body, code := range map[string]string{
		`[]`: "invalid_request", `{"daily_send_limit":5,"domain_scope":null}`: "invalid_request", `{"daily_send_limit":5,"domain_scope":7}`: "invalid_request",
		`{"daily_send_limit":5,"other":1}`: "invalid_request", `{"daily_send_limit":5,"daily_send_limit":5}`: "invalid_request",
	} {
		client.expect(call{method: "POST", path: path, body: body, key: env.accountA.key}, 400, code)
		client.expect(call{method: "POST", path: pathOfB, body: body, key: env.accountA.key}, 400, code) // the body is refused before ownership is checked
	}
	for _, limit := range []string{"0", "26", "-1", "2.5", "5.0", "1e1", `"5"`, "null", "true", "[]", "99999999999999999999"} {
		body := `{"daily_send_limit":` + limit + `}`
		client.expect(call{method: "POST", path: path, body: body, key: env.accountA.key}, 400, "invalid_send_limit")
		client.expect(call{method: "POST", path: pathOfB, body: body, key: env.accountA.key}, 404, "tenant_not_found")
	}
	checkMembers(t, client.expect(call{method: "POST", path: path, body: `{}`, key: env.accountA.key}, 400, "invalid_send_limit"),
		map[string]any{"detail": "the daily send limit is not an integer from 1 to 25"})
	for _, scope := range []string{"", "unknown.example", domainOfB.Name, "nodots", "."} {
		client.expect(call{method: "POST", path: path, body: fmt.Sprintf(`{"daily_send_limit":99,"domain_scope":%q}`, scope), key: env.accountA.key}, 404, "domain_not_found")
		client.expect(call{method: "GET", path: path + "?domain_scope=" + url.QueryEscape(scope), key: env.accountA.key}, 404, "policy_not_found")
		client.expect(call{method: "GET", path: pathOfB + "?domain_scope=" + url.QueryEscape(scope), key: env.accountA.key}, 404, "tenant_not_found")
	}
	repeated := client.expect(call{method: "GET", path: path + "?domain_scope=a.example&domain_scope=b.example", key: env.accountA.key}, 400, "invalid_request")
	if !strings.Contains(repeated.raw, "must occur once and be valid text") { // an empty domain_scope is allowed
		t.Errorf("got %s, want the message without \"not be empty\"", repeated.raw)
	}
	env.updateTenant(t, env.accountA, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapPending })
	client.expect(call{method: "POST", path: path, body: `{"daily_send_limit":26}`, key: env.accountA.key}, 400, "invalid_send_limit")
	client.expect(call{method: "POST", path: path, body: `{"daily_send_limit":5}`, key: env.accountA.key}, 409, "exchange_bootstrap_not_ready")
	if n := env.platform.Calls("EnsureRule"); n != 0 {
		t.Errorf("EnsureRule was called %d times, want 0", n)
	}
}

// TestMailboxLimitIsSetAfterAProviderFailure checks that a request runs again with the same
// Idempotency-Key after a failure of the platform. The replay of its success does not create the
// rule again.
func TestMailboxLimitIsSetAfterAProviderFailure(t *testing.T) {
	env, client, path, _ := newMailboxLimitEnv(t)
	setLimit := call{method: "POST", path: path, body: `{"daily_send_limit":5}`, key: env.accountA.key, headers: map[string]string{"Idempotency-Key": "limit-once"}}
	env.platform.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	client.expect(setLimit, 503, "provider_unavailable")
	client.expect(call{method: "GET", path: path, key: env.accountA.key}, 404, "policy_not_found")
	original := client.expect(setLimit, 200, "")
	callsBefore := env.platform.Calls("EnsureRule")
	if repeated := client.expect(setLimit, 200, ""); repeated.raw != original.raw || repeated.header.Get("Idempotency-Replayed") != "true" || env.platform.Calls("EnsureRule") != callsBefore {
		t.Errorf("after %d calls of EnsureRule the repetition got %v %s, want a replay after %d calls", env.platform.Calls("EnsureRule"), repeated.header, repeated.raw, callsBefore)
	}
}

func TestUsageAppliesTheEffectiveLimit(t *testing.T) {
	env, client, limitPath, _ := newMailboxLimitEnv(t)
	mailboxes, err := env.store.Mailboxes(t.Context(), env.accountA.account.ID, env.accountA.tenant)
	must(t, err)
	mailboxPath := "/v1/tenants/" + string(env.accountA.tenant) + "/mailboxes/" + mailboxes[0].ID
	env.addSendCount(t, mailboxes[0].ID, 5)
	checkUsage := func(want map[string]any) {
		t.Helper()
		checkMembers(t, client.expect(call{method: "GET", path: mailboxPath + "/usage", key: env.accountA.key}, 200, ""), want)
	}
	checkUsage(map[string]any{"daily_send_limit": nil, "sends_today": 5.0, "remaining_sends": nil, "utilization_pct": nil, "is_blocked": false})
	client.expect(call{method: "POST", path: limitPath, body: `{"daily_send_limit":15}`, key: env.accountA.key}, 200, "")
	checkUsage(map[string]any{"daily_send_limit": 15.0, "remaining_sends": 10.0, "utilization_pct": 33.3})
	client.expect(call{method: "PATCH", path: mailboxPath, body: `{"daily_send_limit":3}`, key: env.accountA.key}, 200, "")
	checkUsage(map[string]any{"daily_send_limit": 3.0, "remaining_sends": 0.0, "utilization_pct": 166.7})
	listed := client.expect(call{method: "GET", path: "/v1/tenants/" + string(env.accountA.tenant) + "/mailboxes", key: env.accountA.key}, 200, "")
	if mailbox := listed.body["mailboxes"].([]any)[0].(map[string]any); mailbox["daily_send_limit"] != 3.0 || mailbox["sends_today"] != 5.0 || mailbox["sends_today_at"] == nil {
		t.Errorf("the mailbox is %v, want the limit 3 and 5 sent messages", mailbox)
	}
}

// addSendCount stores the number of messages that a mailbox of account A has sent today.
func (env *testEnv) addSendCount(t *testing.T, mailboxID string, count int) {
	t.Helper()
	now := time.Now()
	claimed, isClaimed, err := env.store.ClaimTenant(t.Context(), env.accountA.account.ID, env.accountA.tenant, time.Minute, now)
	if err != nil || !isClaimed {
		t.Fatalf("the tenant was not claimed: %v", err)
	}
	today := sendlimit.DayOf(now, time.UTC).Start
	saved, err := env.store.SaveCounts(t.Context(), claimed, ports.SendCounts{Today: today, At: now, Mark: now,
		ByMailbox: map[string][]sendlimit.Count{mailboxID: {{Day: today, Final: count}}}})
	if err != nil || !saved {
		t.Fatalf("the count was not saved: %v", err)
	}
}

func TestDeletedTenantReportsItsMailFlowRules(t *testing.T) {
	for _, tc := range []struct {
		removalFails  bool
		wantInMessage string
	}{
		{false, "were removed from the tenant"},
		{true, sendlimit.RuleName(sendlimit.TenantWide) + ". "}, // names the rule that is left
	} {
		env, client, path, _ := newMailboxLimitEnv(t)
		client.expect(call{method: "POST", path: path, body: `{"daily_send_limit":5}`, key: env.accountA.key}, 200, "")
		if tc.removalFails {
			env.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Down})
		}
		got := client.expect(call{method: "DELETE", path: "/v1/tenants/" + string(env.accountA.tenant), key: env.accountA.key}, 200, "")
		if message, _ := got.body["message"].(string); !strings.Contains(message, tc.wantInMessage) {
			t.Errorf("the message is %q, want a message with %q", message, tc.wantInMessage)
		}
	}
}

const enforcementEventsPath = "/v1/enforcement/events"

// addEnforcementEvents blocks and unblocks a mailbox of the account's tenant in turn, one minute
// apart. It returns the ids of the n events, newest first.
func (env *testEnv) addEnforcementEvents(t *testing.T, owner testAccount, mailboxID string, n int) (ids []string) {
	t.Helper()
	claim, isClaimed, err := env.store.ClaimUnleasedTenant(t.Context(), owner.account.ID, owner.tenant, time.Hour)
	if err != nil || !isClaimed {
		t.Fatalf("the tenant was not claimed: %v", err)
	}
	for i := range n {
		at := time.Date(2026, 3, 1, 12, i, 0, 0, time.UTC)
		e := sendlimit.Event{Tenant: owner.tenant, Address: fmt.Sprintf("box%d@a.example", i), Action: sendlimit.Blocked, Sent: 26, Limit: 25}
		if i%2 == 1 {
			e.Action, e.Sent = sendlimit.Unblocked, 0
		}
		saved, err := env.store.SaveChanges(t.Context(), claim, ports.SendChanges{At: at, Done: []sendlimit.Change{{MailboxID: mailboxID, Action: e.Action, At: at, Event: e}}})
		if err != nil || !saved {
			t.Fatalf("the change was not saved: %v", err)
		}
	}
	page, err := env.store.Events(t.Context(), owner.account.ID, ports.EventQuery{Limit: n})
	must(t, err)
	for _, e := range page.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

func eventIDsOf(r reply) (ids []string) {
	for _, e := range r.body["events"].([]any) {
		ids = append(ids, e.(map[string]any)["id"].(string))
	}
	return ids
}

func TestEnforcementEventsArePagedAndFiltered(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	_, boxA := env.addDomainAndMailbox(t, env.accountA)
	_, boxB := env.addDomainAndMailbox(t, env.accountB)
	ids := env.addEnforcementEvents(t, env.accountA, boxA.ID, 7)
	env.addEnforcementEvents(t, env.accountB, boxB.ID, 3)
	for _, tc := range []struct {
		query     string
		wantTotal int
		wantIDs   []string
	}{
		{"", 7, ids},
		{"?limit=2", 7, ids[:2]},
		{"?limit=3&offset=5", 7, ids[5:]},
		{"?offset=7", 7, nil},
		{"?offset=9007199254740991", 7, nil},
		{"?action=unblocked", 3, []string{ids[1], ids[3], ids[5]}},
		{"?tenant_id=" + strings.ToUpper(string(env.accountA.tenant)) + "&action=blocked&limit=1&offset=1", 4, []string{ids[2]}},
	} {
		got := client.expect(call{method: "GET", path: enforcementEventsPath + tc.query, key: env.accountA.key}, 200, "")
		if fmt.Sprint(eventIDsOf(got)) != fmt.Sprint(tc.wantIDs) || got.body["total"] != float64(tc.wantTotal) || got.body["count"] != float64(len(tc.wantIDs)) {
			t.Errorf("the query %q got %s, want %v of %d events", tc.query, got.raw, tc.wantIDs, tc.wantTotal)
		}
		if got.header.Get("X-RateLimit-Bucket") != "read" {
			t.Errorf("got the headers %v, want the bucket read", got.header)
		}
	}
	unfiltered := client.expect(call{method: "GET", path: enforcementEventsPath, key: env.accountA.key}, 200, "")
	newest := unfiltered.body["events"].([]any)[0].(map[string]any)
	for name, want := range map[string]any{"tenant_id": string(env.accountA.tenant), "mailbox_address": "box6@a.example", "action_taken": "blocked",
		"sent_count": 26.0, "limit_value": 25.0, "message": "Mailbox blocked: sent 26, limit 25", "created_at": "2026-03-01T12:06:00Z"} {
		if newest[name] != want {
			t.Errorf("%s is %v, want %v", name, newest[name], want)
		}
	}
	for name, want := range map[string]any{"limit": 50.0, "offset": 0.0, "filters.tenant_id": nil, "filters.action": nil} {
		if got := member(unfiltered.body, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	filtered := client.expect(call{method: "GET", path: enforcementEventsPath + "?action=blocked&tenant_id=" + string(env.accountA.tenant), key: env.accountA.key}, 200, "")
	if member(filtered.body, "filters.action") != "blocked" || member(filtered.body, "filters.tenant_id") != string(env.accountA.tenant) {
		t.Errorf("got %s, want the filters of the request", filtered.raw)
	}
}

func TestInvalidEnforcementEventQueriesAreRefused(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for _, query := range []string{"limit=0", "limit=201", "limit=5.0", "limit=+5", "limit=x", "offset=-1", "offset=1e3", "offset=9007199254740992",
		"offset=99999999999999999999", "action=Blocked", "action=paused", "limit=1&limit=2"} {
		got := client.expect(call{method: "GET", path: enforcementEventsPath + "?" + query, key: env.accountA.key}, 400, "invalid_request")
		if strings.HasPrefix(query, "offset") && !strings.Contains(got.raw, "must be an integer from 0 to 9007199254740991") {
			t.Errorf("the answer to %s does not name the range: %s", query, got.raw)
		}
	}
	var answers []string
	for _, id := range []string{string(env.accountB.tenant), unknownID, "x", "0"} {
		got := client.expect(call{method: "GET", path: enforcementEventsPath + "?tenant_id=" + id, key: env.accountA.key}, 404, "tenant_not_found")
		answers = append(answers, comparableText(got))
	}
	for _, answer := range answers {
		if answer != answers[0] {
			t.Errorf("the answers to the ids of a foreign, an unknown and an invalid tenant differ:\n%s\n%s", answer, answers[0])
		}
	}
}
