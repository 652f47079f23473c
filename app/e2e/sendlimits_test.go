// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

const (
	limitMembers  = "tenant_id daily_send_limit domain_scope scope_label policy"
	policyMembers = "id daily_send_limit domain_scope state mailboxes_in_scope created_at updated_at"
)

// TestMailboxLimits: a limit that is set has its rule at the platform, switched
// off as long as nobody is blocked, and both go with the tenant.
func TestMailboxLimits(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).connected(nil)
	zone := h.verified()
	h.post(h.path("/mailboxes"), boxes(zone, "ada", "max"))
	h.expect("GET", h.path("/mailbox-limits"), nil, 404, "policy_not_found")

	for _, scope := range []object{{}, {"domain_scope": zone}} {
		label, asked, query := "tenant", object{"daily_send_limit": 20}, ""
		if scope["domain_scope"] != nil {
			label, query = zone, "?domain_scope="+zone
			asked["domain_scope"] = zone
		}
		set := h.post(h.path("/mailbox-limits"), asked)
		has(t, "set", set.object, limitMembers+" status provisioning")
		has(t, "policy", set.at("policy"), policyMembers)
		has(t, "provisioning", set.at("provisioning"), "status rule_name rule_id message")
		sees(t, set.object, object{"status": "provisioned", "tenant_id": h.guid, "daily_send_limit": 20, "domain_scope": scope["domain_scope"],
			"scope_label": label, "policy.state": "active", "policy.mailboxes_in_scope": 2, "provisioning.status": "created"})
		sees(t, h.post(h.path("/mailbox-limits"), asked).object, object{"provisioning.status": "unchanged", "provisioning.rule_id": set.at("provisioning.rule_id")})
		got := h.get(h.path("/mailbox-limits") + query)
		has(t, "get", got.object, limitMembers)
		sees(t, got.object, object{"daily_send_limit": 20, "scope_label": label, "policy.id": set.at("policy.id"),
			"policy.created_at": set.at("policy.created_at"), "policy.updated_at": set.at("policy.updated_at")})
	}
	h.ruledAtPlatform(2)

	gone := h.expect("DELETE", h.path(""), nil, 200, "")
	sees(t, gone.object, object{"status": "deleted", "message": "The tenant, its domains, its mailboxes and its sync history were removed from the " +
		"service. The mail flow rules by which mailboxes were blocked were taken out of the tenant; nothing else at the mail platform was touched."})
	h.ruledAtPlatform(0)
}

// ruledAtPlatform checks that the platform has so many rules, and that none of
// them blocks anybody.
func (h holding) ruledAtPlatform(n int) {
	h.t.Helper()
	rules := h.control("GET", "/tenants/"+h.guid, nil).objects("rules")
	if len(rules) != n {
		h.t.Errorf("the platform holds %v, want %d rules", rules, n)
	}
	for _, r := range rules {
		if r["enabled"] != false {
			h.t.Errorf("at the platform: %v", r)
		}
	}
}
