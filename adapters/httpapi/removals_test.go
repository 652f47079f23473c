// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/tenant"
)

// TestRemovalsAreReplayed removes a limit, a mailbox and a domain. A repeated request gets the same
// answer. A request with a new Idempotency-Key gets 404, because the object no longer exists.
func TestRemovalsAreReplayed(t *testing.T) {
	env := newTestEnv(t)
	addedDomain, addedMailbox := env.addDomainAndMailbox(t, env.accountA)
	env.updateTenant(t, env.accountA, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapReady })
	client := serve(t, env.handler(t))
	tenantPath := "/v1/tenants/" + string(env.accountA.tenant)
	domainPath := tenantPath + "/domains/" + addedDomain.Name
	mailboxPath := tenantPath + "/mailboxes/" + addedMailbox.ID
	limitPath := tenantPath + "/mailbox-limits?domain_scope=" + addedDomain.Name
	key := env.accountA.key
	client.expect(call{method: "DELETE", path: limitPath, key: key}, 404, "policy_not_found")
	client.expect(call{method: "POST", path: tenantPath + "/mailbox-limits", body: `{"daily_send_limit":5,"domain_scope":"` + addedDomain.Name + `"}`, key: key}, 200, "")
	client.expect(call{method: "DELETE", path: domainPath, key: key}, 409, "domain_in_use")
	client.expect(call{method: "DELETE", path: domainPath + "?from_platform=true", key: key}, 409, "domain_in_use")
	for _, invalid := range []string{"maybe", "TRUE", "True", "t", "1", "0"} {
		got := client.expect(call{method: "DELETE", path: domainPath + "?from_platform=" + invalid, key: key}, 400, "invalid_request")
		if !strings.Contains(got.raw, `"location":"query.from_platform"`) {
			t.Errorf("the answer to %s does not name from_platform: %s", invalid, got.raw)
		}
	}
	client.expect(call{method: "DELETE", path: mailboxPath, key: key}, 400, "confirmation_required")
	client.expect(call{method: "DELETE", path: mailboxPath + "?confirm=other@example.com", key: key}, 400, "confirmation_required")
	for _, tc := range []struct{ path, codeAfterRemoval string }{
		{limitPath, "policy_not_found"}, {mailboxPath + "?confirm=" + addedMailbox.Address, "mailbox_not_found"}, {domainPath + "?from_platform=true", "domain_not_found"},
	} {
		removal := call{method: "DELETE", path: tc.path, key: key, headers: map[string]string{"Idempotency-Key": "remove-" + tc.codeAfterRemoval}}
		got := client.expect(removal, 200, "")
		if got.body["status"] != "removed" || got.body["tenant_id"] != string(env.accountA.tenant) {
			t.Errorf("the removal of %s got %s, want the status removed and the id of the tenant", tc.path, got.raw)
		}
		if repeated := client.expect(removal, 200, ""); repeated.raw != got.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("the repeated removal of %s got %s, want a replay", tc.path, repeated.raw)
		}
		client.expect(call{method: "DELETE", path: tc.path, key: key}, 404, tc.codeAfterRemoval)
	}
}

func TestSendLimitIsCleared(t *testing.T) {
	env := newTestEnv(t)
	_, addedMailbox := env.addDomainAndMailbox(t, env.accountA)
	client := serve(t, env.handler(t))
	path := "/v1/tenants/" + string(env.accountA.tenant) + "/mailboxes/" + addedMailbox.ID
	for _, tc := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"daily_send_limit":7}`, 200, ""},
		{`{"daily_send_limit":null}`, 400, "invalid_send_limit"},
		{`{"clear_send_limit":true,"daily_send_limit":7}`, 400, "invalid_request"},
		{`{"clear_send_limit":"yes"}`, 400, "invalid_request"},
		{`{"clear_send_limit":null}`, 400, "invalid_request"},
		{`{"clear_send_limit":true,"x":1}`, 400, "invalid_request"},
		{`{"clear_send_limit":false}`, 400, "no_updates"},
		{`{"clear_send_limit":true}`, 200, ""},
		{`{"clear_send_limit":true}`, 200, ""},
	} {
		client.expect(call{method: "PATCH", path: path, body: tc.body, key: env.accountA.key}, tc.status, tc.code)
	}
	listed := client.expect(call{method: "GET", path: "/v1/tenants/" + string(env.accountA.tenant) + "/mailboxes", key: env.accountA.key}, 200, "")
	if mailbox := listed.body["mailboxes"].([]any)[0].(map[string]any); mailbox["daily_send_limit"] != nil {
		t.Errorf("after the limit was cleared, the stored limit is %v, want none", mailbox["daily_send_limit"])
	}
}
