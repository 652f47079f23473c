// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
)

func (c caller) plan(plan object) {
	c.t.Helper()
	c.control("POST", "/accounts/"+c.id+"/plan", plan)
}

// TestLapsedPlan: 402 comes before everything else of the account, on every
// operation, and nothing is lost.
func TestLapsedPlan(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(object{"tenant_slots": 1}).newTenant(nil).connect()
	h.plan(object{"plan": "complete", "active": false})
	d, err := published()
	if err != nil {
		t.Fatal(err)
	}
	own := strings.NewReplacer("{tenant_id}", h.guid, "{domain_name}", "a.example", "{domain_id}", h.guid, "{mailbox_id}", h.guid)
	for _, op := range d.operations {
		h.expect(op.method, own.Replace(op.path), nil, 402, "no_api_plan")
	}
	h.expect("GET", "/v1/nothing", nil, 402, "no_api_plan")
	h.plan(object{"plan": "complete", "active": true})
	h.listsTenants(h.guid)
	h.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached") // its one slot is still its own
}

// TestTenantCeiling: slots are counted at the link and again at the
// confirmation, and a downgrade stops what would make the account larger.
func TestTenantCeiling(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(object{"tenant_slots": 2})
	h := c.connected(nil)
	zone, second := h.verified(), c.newTenant(nil).connect()
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
	refused := c.do("POST", c.ready.ControlURL+"/tenants/"+c.newTenant(nil).guid+"/consent", "", object{"api_key": c.key})
	sees(t, refused.object, object{"page_status": 402})

	// At the ceiling, not above it: everything else goes on.
	h.post(h.path("/domains"), object{"domain": h.newZone()})

	c.plan(object{"plan": "complete", "active": true, "tenant_slots": 1})
	h.expect("POST", h.path("/domains"), object{"domain": h.newZone()}, 402, "tenant_limit_reached")
	h.expect("POST", h.path("/mailboxes"), boxes(zone, "max"), 402, "tenant_limit_reached")
	h.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
	h.synced()
	h.get(h.path("/domains"))
	h.get(h.domain(zone, "/dns"))
	h.get(h.domain(zone, "/dkim-status"))
	h.post(h.domain(zone, "/verify"), nil)
	mailbox := h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id")
	h.expect("PATCH", h.path("/mailboxes/"+mailbox), object{"daily_send_limit": 5}, 200, "")
	h.get(h.path("/mailboxes/" + mailbox + "/usage"))
	h.listsTenants(second.guid, h.guid)

	h.expect("DELETE", second.path(""), nil, 200, "")
	h.post(h.path("/mailboxes"), boxes(zone, "max"))
}

// TestRevokedConsentFreesTheLink: a slot whose consent is gone does not keep
// the account from asking for a link, which may be for that very tenant.
func TestRevokedConsentFreesTheLink(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(object{"tenant_slots": 1})
	h := c.connected(nil)
	h.control("POST", "/tenants/"+h.guid+"/revoke", object{})
	h.expect("POST", h.path("/sync"), nil, 403, "access_denied")
	c.get("/v1/tenants/connect-url")
	other := c.newTenant(nil)
	refused := c.do("POST", c.ready.ControlURL+"/tenants/"+other.guid+"/consent", "", object{"api_key": c.key})
	sees(t, refused.object, object{"page_status": 402})
	h.connect()
	h.synced()
	c.listsTenants(h.guid)
}

func TestPlanSlots(t *testing.T) {
	t.Parallel()
	c := common(t)
	for _, plan := range []string{"api_starter", "api_growth", "api_scale", "complete", "legacy_trial"} {
		c.newCaller(object{"plan": plan}).get("/v1/tenants/connect-url")
	}
	small := c.newCaller(object{"plan": "legacy_trial"})
	for range 5 {
		small.newTenant(nil).connect()
	}
	small.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached")
}
