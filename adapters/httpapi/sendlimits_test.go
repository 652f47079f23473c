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

// enforceable is a world whose tenant has a ready mail server, with the path of its
// limits and the domain of its mailbox.
func enforceable(t *testing.T) (w *world, a *api, path, zone string) {
	t.Helper()
	w = newWorld(t)
	d, _ := w.holding(t, w.a)
	w.tenants(t, w.a, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapReady })
	return w, serve(t, w.handler(t)), "/v1/tenants/" + string(w.a.tenant) + "/mailbox-limits", d.Name
}

// at finds a member of an answer by its path.
func at(body map[string]any, path string) any {
	var now any = body
	for name := range strings.SplitSeq(path, ".") {
		members, _ := now.(map[string]any)
		now = members[name]
	}
	return now
}

func shows(t *testing.T, got reply, want map[string]any) {
	t.Helper()
	for path, value := range want {
		if at(got.body, path) != value {
			t.Errorf("%s is %v, want %v: %s", path, at(got.body, path), value, got.raw)
		}
	}
}

func TestSetAndGetMailboxLimits(t *testing.T) {
	w, a, path, zone := enforceable(t)
	a.expect(call{method: "GET", path: path, key: w.a.key}, 404, "policy_not_found")
	first := a.expect(call{method: "POST", path: path, body: `{"daily_send_limit":25}`, key: w.a.key}, 200, "")
	shows(t, first, map[string]any{
		"status": "provisioned", "tenant_id": string(w.a.tenant), "daily_send_limit": 25.0, "domain_scope": nil, "scope_label": "tenant",
		"policy.daily_send_limit": 25.0, "policy.domain_scope": nil, "policy.state": "active", "policy.mailboxes_in_scope": 1.0,
		"provisioning.status": "created", "provisioning.rule_name": sendlimit.RuleName(sendlimit.TenantWide),
	})
	if at(first.body, "provisioning.rule_id") == nil || first.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Errorf("%v %s", first.header, first.raw)
	}
	domain := a.expect(call{method: "POST", path: path, body: `{"daily_send_limit":5,"domain_scope":"` + strings.ToUpper(zone) + `."}`, key: w.a.key}, 200, "")
	shows(t, domain, map[string]any{"domain_scope": zone, "scope_label": zone, "policy.domain_scope": zone, "provisioning.rule_name": sendlimit.RuleName(zone)})
	for _, step := range []struct {
		limit  int
		status string
	}{{5, "unchanged"}, {6, "updated"}, {6, "unchanged"}} {
		again := a.expect(call{method: "POST", path: path, body: fmt.Sprintf(`{"daily_send_limit":%d,"domain_scope":%q}`, step.limit, zone), key: w.a.key}, 200, "")
		shows(t, again, map[string]any{"policy.id": at(domain.body, "policy.id"), "provisioning.status": step.status})
	}
	shown := a.expect(call{method: "GET", path: path, key: w.a.key}, 200, "")
	shows(t, shown, map[string]any{"tenant_id": string(w.a.tenant), "daily_send_limit": 25.0, "domain_scope": nil, "scope_label": "tenant",
		"policy.id": at(first.body, "policy.id"), "policy.mailboxes_in_scope": 1.0})
	shown = a.expect(call{method: "GET", path: path + "?domain_scope=" + zone, key: w.a.key}, 200, "")
	shows(t, shown, map[string]any{"daily_send_limit": 6.0, "domain_scope": zone, "scope_label": zone, "policy.id": at(domain.body, "policy.id")})
	if shown.header.Get("X-RateLimit-Bucket") != "read" {
		t.Error(shown.header)
	}
}

// Which code answers, and in which order.
func TestMailboxLimitsRefused(t *testing.T) {
	w, a, path, _ := enforceable(t)
	other, _ := w.holding(t, w.b)
	foreign := "/v1/tenants/" + string(w.b.tenant) + "/mailbox-limits"
	for body, code := range map[string]string{
		`[]`: "invalid_request", `{"daily_send_limit":5,"domain_scope":null}`: "invalid_request", `{"daily_send_limit":5,"domain_scope":7}`: "invalid_request",
		`{"daily_send_limit":5,"other":1}`: "invalid_request", `{"daily_send_limit":5,"daily_send_limit":5}`: "invalid_request",
	} {
		a.expect(call{method: "POST", path: path, body: body, key: w.a.key}, 400, code)
		a.expect(call{method: "POST", path: foreign, body: body, key: w.a.key}, 400, code) // no valid body at all comes before ownership
	}
	for _, limit := range []string{"0", "26", "-1", "2.5", "5.0", "1e1", `"5"`, "null", "true", "[]", "99999999999999999999"} {
		body := `{"daily_send_limit":` + limit + `}`
		a.expect(call{method: "POST", path: path, body: body, key: w.a.key}, 400, "invalid_send_limit")
		a.expect(call{method: "POST", path: foreign, body: body, key: w.a.key}, 404, "tenant_not_found")
	}
	shows(t, a.expect(call{method: "POST", path: path, body: `{}`, key: w.a.key}, 400, "invalid_send_limit"),
		map[string]any{"detail": "the daily send limit is not an integer from 1 to 25"})
	for _, scope := range []string{"", "unknown.example", other.Name, "nodots", "."} {
		a.expect(call{method: "POST", path: path, body: fmt.Sprintf(`{"daily_send_limit":99,"domain_scope":%q}`, scope), key: w.a.key}, 404, "domain_not_found")
		a.expect(call{method: "GET", path: path + "?domain_scope=" + url.QueryEscape(scope), key: w.a.key}, 404, "policy_not_found")
		a.expect(call{method: "GET", path: foreign + "?domain_scope=" + url.QueryEscape(scope), key: w.a.key}, 404, "tenant_not_found")
	}
	twice := a.expect(call{method: "GET", path: path + "?domain_scope=a.example&domain_scope=b.example", key: w.a.key}, 400, "invalid_request")
	if !strings.Contains(twice.raw, "given more than once, or not text") { // an empty one is fine
		t.Errorf("it says %s", twice.raw)
	}
	w.tenants(t, w.a, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	a.expect(call{method: "POST", path: path, body: `{"daily_send_limit":26}`, key: w.a.key}, 400, "invalid_send_limit")
	a.expect(call{method: "POST", path: path, body: `{"daily_send_limit":5}`, key: w.a.key}, 409, "exchange_bootstrap_not_ready")
	if n := w.platform.Calls("EnsureRule"); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// The same key again after a fault goes on, and a replay asks nobody.
func TestAMailboxLimitAfterAFault(t *testing.T) {
	w, a, path, _ := enforceable(t)
	c := call{method: "POST", path: path, body: `{"daily_send_limit":5}`, key: w.a.key, headers: map[string]string{"Idempotency-Key": "limit-once"}}
	w.platform.Fail(fake.Fault{Method: "EnsureRule", Kind: outcome.Down, Times: 1})
	a.expect(c, 503, "provider_unavailable")
	a.expect(call{method: "GET", path: path, key: w.a.key}, 404, "policy_not_found")
	first := a.expect(c, 200, "")
	calls := w.platform.Calls("EnsureRule")
	if again := a.expect(c, 200, ""); again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" || w.platform.Calls("EnsureRule") != calls {
		t.Errorf("%d calls, %v %s", w.platform.Calls("EnsureRule"), again.header, again.raw)
	}
}

// Usage computes with the effective limit; the mailbox shows its own.
func TestUsageUnderAPolicy(t *testing.T) {
	w, a, path, _ := enforceable(t)
	boxes, err := w.store.Mailboxes(t.Context(), w.a.account.ID, w.a.tenant)
	if err != nil {
		t.Fatal(err)
	}
	box := "/v1/tenants/" + string(w.a.tenant) + "/mailboxes/" + boxes[0].ID
	w.counted(t, boxes[0].ID, 5)
	usage := func(want map[string]any) {
		t.Helper()
		shows(t, a.expect(call{method: "GET", path: box + "/usage", key: w.a.key}, 200, ""), want)
	}
	usage(map[string]any{"daily_send_limit": nil, "sends_today": 5.0, "remaining_sends": nil, "utilization_pct": nil, "is_blocked": false})
	a.expect(call{method: "POST", path: path, body: `{"daily_send_limit":15}`, key: w.a.key}, 200, "")
	usage(map[string]any{"daily_send_limit": 15.0, "remaining_sends": 10.0, "utilization_pct": 33.3})
	a.expect(call{method: "PATCH", path: box, body: `{"daily_send_limit":3}`, key: w.a.key}, 200, "")
	usage(map[string]any{"daily_send_limit": 3.0, "remaining_sends": 0.0, "utilization_pct": 166.7})
	shown := a.expect(call{method: "GET", path: "/v1/tenants/" + string(w.a.tenant) + "/mailboxes", key: w.a.key}, 200, "")
	if m := shown.body["mailboxes"].([]any)[0].(map[string]any); m["daily_send_limit"] != 3.0 || m["sends_today"] != 5.0 || m["sends_today_at"] == nil {
		t.Errorf("%v", m)
	}
}

// counted stores what a mailbox of a's sent today.
func (w *world) counted(t *testing.T, mailboxID string, sent int) {
	t.Helper()
	now := time.Now()
	r, won, err := w.store.ClaimTenant(t.Context(), w.a.account.ID, w.a.tenant, time.Minute, now)
	if err != nil || !won {
		t.Fatalf("not claimed: %v", err)
	}
	today := sendlimit.DayOf(now, time.UTC).Start
	held, err := w.store.SaveCounts(t.Context(), r, ports.SendCounts{Today: today, At: now, Mark: now,
		Boxes: map[string][]sendlimit.Count{mailboxID: {{Day: today, Settled: sent}}}})
	if err != nil || !held {
		t.Fatalf("not counted: %v", err)
	}
}

// A deletion says what became of our rules.
func TestDeletingSaysWhatBecameOfTheRules(t *testing.T) {
	for want, spoil := range map[string]func(*world){
		"were taken out of the tenant":                  func(*world) {},
		sendlimit.RuleName(sendlimit.TenantWide) + ". ": func(w *world) { w.platform.Fail(fake.Fault{Method: "RemoveRules", Kind: outcome.Down}) },
	} {
		w, a, path, _ := enforceable(t)
		a.expect(call{method: "POST", path: path, body: `{"daily_send_limit":5}`, key: w.a.key}, 200, "")
		spoil(w)
		got := a.expect(call{method: "DELETE", path: "/v1/tenants/" + string(w.a.tenant), key: w.a.key}, 200, "")
		if message, _ := got.body["message"].(string); !strings.Contains(message, want) {
			t.Errorf("%q does not say %q", message, want)
		}
	}
}
