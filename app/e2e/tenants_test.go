// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"
	"time"
)

const (
	summaryMembers = "id tenant_id tenant_name tenant_domain default_domain domain_count mailbox_count status " +
		"discovery_completed exchange_bootstrap_status consented_at last_sync_at"
	readinessMembers = "consent exchange_bootstrap smtp_auth discovery domains_verified domains_total mailboxes_total " +
		"ready_to_provision next_step headroom"
)

// TestTenantShapes walks a tenant from the link to its deletion.
func TestTenantShapes(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	c.listsTenants()

	link := c.get("/v1/tenants/connect-url")
	has(t, "connect-url", link.object, "connect_url expires_at")
	expires, err := time.Parse(time.RFC3339, link.text("expires_at"))
	if left := time.Until(expires); err != nil || left > 15*time.Minute || left < 14*time.Minute {
		t.Errorf("the link lives %v: %v", left, err)
	}

	h := c.newTenant(object{"name": "Shapes Ltd"}).connect()
	fresh := h.get(h.path(""))
	has(t, "tenant", fresh.object, summaryMembers+" smtp_auth_org_enabled connected_by readiness")
	has(t, "readiness", fresh.at("readiness"), readinessMembers)
	sees(t, fresh.object, object{
		"tenant_id": h.guid, "tenant_name": "Shapes Ltd", "status": nil, "discovery_completed": false, "last_sync_at": nil,
		"exchange_bootstrap_status": "pending", "smtp_auth_org_enabled": false, "connected_by": h.admin, "domain_count": 0,
		"mailbox_count": 0, "default_domain": fresh.at("tenant_domain"), "readiness.consent": "granted",
		"readiness.smtp_auth": "unknown", "readiness.discovery": "pending", "readiness.ready_to_provision": false,
		"readiness.next_step": "sync", "readiness.headroom": nil,
	})
	if !strings.HasSuffix(fresh.text("tenant_domain"), ".onmicrosoft.com") || fresh.text("id") == h.guid {
		t.Errorf("got %s", fresh.raw)
	}

	h.synchronises()
	c.listsTenants(h.guid)

	gone := h.expect("DELETE", h.path(""), nil, 200, "")
	has(t, "delete", gone.object, "status tenant_id tenant_name message")
	sees(t, gone.object, object{"status": "deleted", "tenant_id": h.guid, "tenant_name": "Shapes Ltd"})
	c.listsTenants()
	c.expect("GET", h.path(""), nil, 404, "tenant_not_found")
	c.expect("POST", h.path("/sync"), nil, 404, "tenant_not_found")
	c.expect("DELETE", h.path(""), nil, 404, "tenant_not_found")
}

// synchronises checks the answer of a sync and what the tenant shows then.
func (h holding) synchronises() {
	h.t.Helper()
	got := h.synced()
	has(h.t, "sync", got.object, "status run_id tenant_id bootstrap smtp_auth result")
	has(h.t, "bootstrap", got.at("bootstrap"), "status message skipped")
	has(h.t, "smtp_auth", got.at("smtp_auth"), "status message skipped")
	has(h.t, "result", got.at("result"), "status tenant_name default_domain domain_count user_mailbox_count mailbox_error")
	sees(h.t, got.object, object{
		"tenant_id": h.guid, "bootstrap.status": "ready", "bootstrap.skipped": false, "smtp_auth.status": "enabled",
		"smtp_auth.skipped": false, "result.status": "completed", "result.domain_count": 0, "result.user_mailbox_count": 1,
		"result.mailbox_error": nil,
	})
	after := h.get(h.path(""))
	sees(h.t, after.object, object{
		"discovery_completed": true, "exchange_bootstrap_status": "ready", "smtp_auth_org_enabled": true,
		"readiness.smtp_auth": "enabled", "readiness.discovery": "completed", "readiness.next_step": "add_domain",
	})
	if after.at("last_sync_at") == nil {
		h.t.Errorf("never synced: %s", after.raw)
	}
	if again := h.synced(); again.text("run_id") == got.text("run_id") {
		h.t.Error("two syncs have one run_id")
	}
}

// listsTenants checks the list: these tenants, the newest first.
func (c caller) listsTenants(guids ...string) {
	c.t.Helper()
	list := c.get("/v1/tenants")
	has(c.t, "list", list.object, "tenants count")
	if list.at("count") != float64(len(guids)) || len(list.objects("tenants")) != len(guids) {
		c.t.Fatalf("got %s, want %v", list.raw, guids)
	}
	for i, entry := range list.objects("tenants") {
		has(c.t, "list entry", entry, summaryMembers)
		if entry["tenant_id"] != guids[i] || entry["status"] != nil {
			c.t.Errorf("entry %d: %v, want %s", i, entry, guids[i])
		}
	}
}

func TestTenantsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	first, second := c.newTenant(nil).connect(), c.newTenant(nil).connect()
	c.listsTenants(second.guid, first.guid)
}

// TestUnreadyTenants: what stands in the way is told by sync, by readiness and
// by whatever needs it.
func TestUnreadyTenants(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	for _, tt := range []struct {
		name      string
		setup     object
		behaviour object
		sync      object
		next      string
		provision string // the code that provisioning answers
	}{
		{
			"dehydrated for a long time", object{"bootstrap": "dehydrated"}, object{"hydrate_ms": 3_600_000},
			object{"status": "partial", "bootstrap.status": "pending", "smtp_auth.status": "skipped", "smtp_auth.skipped": true, "result.status": "completed"},
			"sync", "exchange_bootstrap_not_ready",
		},
		{
			"the grants are denied", object{"bootstrap": "denied"}, object{},
			object{"status": "partial", "bootstrap.status": "pending", "smtp_auth.status": "skipped", "smtp_auth.skipped": true, "result.status": "completed"},
			"grant_role", "exchange_bootstrap_not_ready",
		},
		{
			"SMTP AUTH is refused", object{"smtp_auth": "refused"}, object{},
			object{"status": "partial", "bootstrap.status": "ready", "smtp_auth.status": "failed", "smtp_auth.skipped": false, "result.status": "completed"},
			"publish_dns", "smtp_auth_not_enabled",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := c.with(t).newTenant(tt.setup)
			h.behave(tt.behaviour)
			h.connect()
			zone := h.newZone()
			h.post(h.path("/domains"), object{"domain": zone})
			synced := h.post(h.path("/sync"), nil)
			sees(t, synced.object, tt.sync)
			if synced.text("smtp_auth.message") == "" || synced.at("bootstrap.message") == "" {
				t.Errorf("without words: %s", synced.raw)
			}
			if next := h.nextStep(); next != tt.next {
				t.Errorf("next step %v, want %s", next, tt.next)
			}
			h.publish(zone)
			h.post(h.domain(zone, "/verify"), nil)
			h.expect("POST", h.path("/mailboxes"), boxes(zone, "ada"), 409, tt.provision)
			if tt.provision == "exchange_bootstrap_not_ready" {
				h.expect("POST", h.domain(zone, "/enable-dkim"), nil, 409, tt.provision)
			}
		})
	}
}

// TestDehydratedTenantGetsReady: hydration takes its time and then is done.
func TestDehydratedTenantGetsReady(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	h := c.newTenant(object{"bootstrap": "dehydrated"})
	h.behave(object{"hydrate_ms": 800})
	h.connect()
	h.eventually("the tenant is hydrated", func() bool {
		return h.post(h.path("/sync"), nil).text("status") == "completed"
	})
	sees(t, h.get(h.path("")).object, object{"exchange_bootstrap_status": "ready", "readiness.smtp_auth": "enabled"})
}
