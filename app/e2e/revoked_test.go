// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

func (h holding) revoke(what string) {
	h.t.Helper()
	h.control("POST", "/tenants/"+h.guid+"/revoke", object{"what": what})
}

// TestConsentWithdrawn: whatever needs the platform is denied, at once and
// without a sync; what is stored stays readable; a new consent mends it all.
func TestConsentWithdrawn(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).connected(nil)
	zone := h.verified()
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	mailbox := h.path("/mailboxes/" + h.get(h.path("/mailboxes")).objects("mailboxes")[0].text("id"))
	before := h.get(h.path(""))

	h.revoke("consent")
	h.expect("POST", h.path("/domains"), object{"domain": h.newZone()}, 403, "access_denied")
	sees(t, h.get(h.path("")).object, object{"readiness.consent": "revoked", "readiness.next_step": "reconnect", "readiness.ready_to_provision": false})
	h.expect("POST", h.path("/sync"), nil, 403, "access_denied")
	h.expect("POST", h.path("/mailboxes"), boxes(zone, "max"), 403, "access_denied")
	h.expect("POST", h.domain(zone, "/enable-dkim"), nil, 403, "access_denied")
	h.expect("POST", h.path("/domains"), object{"domain": zone}, 403, "access_denied")
	h.expect("POST", h.domain(zone, "/verify"), nil, 403, "access_denied")
	h.expect("PATCH", mailbox, object{"display_name": "Ada K."}, 403, "access_denied")
	h.expect("PATCH", mailbox, object{"daily_send_limit": 7}, 200, "")
	h.get(h.path("/domains"))
	h.get(h.domain(zone, "/dns"))
	h.get(mailbox + "/usage")

	h.connect()
	h.synced()
	after := h.get(h.path(""))
	sees(t, after.object, object{"id": before.at("id"), "readiness.consent": "granted", "mailbox_count": 1, "domain_count": 1})
	if after.text("consented_at") <= before.text("consented_at") {
		t.Errorf("consented_at was %v and is %v", before.at("consented_at"), after.at("consented_at"))
	}
	h.expect("PATCH", mailbox, object{"display_name": "Ada K."}, 200, "")
}

// TestExchangeRoleWithdrawn: sync takes the role back where it may.
func TestExchangeRoleWithdrawn(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).connected(nil)
	zone := h.verified()
	h.revoke("exchange_role")
	h.expect("POST", h.path("/mailboxes"), boxes(zone, "ada"), 403, "access_denied")
	sees(t, h.get(h.path("")).object, object{"readiness.consent": "granted"})
	h.synced()
	sees(t, h.post(h.path("/mailboxes"), boxes(zone, "ada")).object, object{"created_count": 1})
}

// TestExchangeGrantWithdrawn: the application's own grant comes back with a
// new consent alone.
func TestExchangeGrantWithdrawn(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).connected(nil)
	zone := h.verified()
	h.revoke("app_role")
	h.expect("POST", h.path("/mailboxes"), boxes(zone, "ada"), 403, "access_denied")
	sees(t, h.post(h.path("/sync"), nil).object, object{"status": "partial", "bootstrap.status": "failed", "smtp_auth.status": "skipped", "result.status": "completed"})
	sees(t, h.get(h.path("")).object, object{"exchange_bootstrap_status": "failed", "readiness.next_step": "grant_role", "readiness.ready_to_provision": false})
	h.expect("POST", h.path("/mailboxes"), boxes(zone, "ada"), 409, "exchange_bootstrap_not_ready")
	h.expect("POST", h.domain(zone, "/enable-dkim"), nil, 409, "exchange_bootstrap_not_ready")
	h.connect()
	h.synced()
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
}

// TestExchangeRoleBeyondReach: where the service may not take the role back,
// an administrator has to.
func TestExchangeRoleBeyondReach(t *testing.T) {
	t.Parallel()
	h := common(t).newCaller(nil).connected(nil)
	h.control("POST", "/tenants/"+h.guid+"/revoke", object{"what": "app_role", "role": "RoleManagement.ReadWrite.Directory"})
	h.revoke("exchange_role")
	sees(t, h.post(h.path("/sync"), nil).object, object{"status": "partial", "bootstrap.status": "failed", "result.status": "completed"})
	sees(t, h.get(h.path("")).object, object{"readiness.consent": "granted", "readiness.next_step": "grant_role"})
	h.connect() // gives back all that was taken
	h.synced()
}
