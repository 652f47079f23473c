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

// TestTenantGoesFromConnectLinkToDeletion connects, syncs and deletes a tenant. It checks the
// responses of each step.
func TestTenantGoesFromConnectLinkToDeletion(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	c.checkTenants()

	link := c.get("/v1/tenants/connect-url")
	checkMembers(t, "connect-url", link.object, "id connect_url expires_at")
	expires, err := time.Parse(time.RFC3339, link.text("expires_at"))
	if remaining := time.Until(expires); err != nil || remaining > 15*time.Minute || remaining < 14*time.Minute {
		t.Errorf("the link expires in %v, want 14 to 15 minutes (%v)", remaining, err)
	}

	tenant := c.newTenant(object{"name": "Shapes Ltd"}).connect()
	connected := tenant.get(tenant.path(""))
	checkMembers(t, "tenant", connected.object, summaryMembers+" smtp_auth_org_enabled connected_by readiness")
	checkMembers(t, "readiness", connected.valueAt("readiness"), readinessMembers)
	checkValues(t, connected.object, object{
		"tenant_id": tenant.guid, "tenant_name": "Shapes Ltd", "status": nil, "discovery_completed": false, "last_sync_at": nil,
		"exchange_bootstrap_status": "pending", "smtp_auth_org_enabled": false, "connected_by": tenant.admin, "domain_count": 0,
		"mailbox_count": 0, "default_domain": connected.valueAt("tenant_domain"), "readiness.consent": "granted",
		"readiness.smtp_auth": "unknown", "readiness.discovery": "pending", "readiness.ready_to_provision": false,
		"readiness.next_step": "sync", "readiness.headroom": nil,
	})
	if !strings.HasSuffix(connected.text("tenant_domain"), ".onmicrosoft.com") || connected.text("id") == tenant.guid {
		t.Errorf("the tenant does not have a domain of the platform, or its id is its GUID: %s", connected.raw)
	}

	tenant.checkSync()
	c.checkTenants(tenant.guid)

	deleted := tenant.expect("DELETE", tenant.path(""), nil, 200, "")
	checkMembers(t, "delete", deleted.object, "status tenant_id tenant_name message")
	checkValues(t, deleted.object, object{"status": "deleted", "tenant_id": tenant.guid, "tenant_name": "Shapes Ltd"})
	c.checkTenants()
	c.expect("GET", tenant.path(""), nil, 404, "tenant_not_found")
	c.expect("POST", tenant.path("/sync"), nil, 404, "tenant_not_found")
	c.expect("DELETE", tenant.path(""), nil, 404, "tenant_not_found")
}

// checkSync syncs the tenant twice. It checks the responses, and the tenant after the first sync.
func (tenant accountTenant) checkSync() {
	tenant.t.Helper()
	got := tenant.mustSync()
	checkMembers(tenant.t, "sync", got.object, "status run_id tenant_id bootstrap smtp_auth result")
	checkMembers(tenant.t, "bootstrap", got.valueAt("bootstrap"), "status message skipped")
	checkMembers(tenant.t, "smtp_auth", got.valueAt("smtp_auth"), "status message skipped")
	checkMembers(tenant.t, "result", got.valueAt("result"), "status tenant_name default_domain domain_count user_mailbox_count mailbox_error")
	checkValues(tenant.t, got.object, object{
		"tenant_id": tenant.guid, "bootstrap.status": "ready", "bootstrap.skipped": false, "smtp_auth.status": "enabled",
		"smtp_auth.skipped": false, "result.status": "completed", "result.domain_count": 0, "result.user_mailbox_count": 1,
		"result.mailbox_error": nil,
	})
	after := tenant.get(tenant.path(""))
	checkValues(tenant.t, after.object, object{
		"discovery_completed": true, "exchange_bootstrap_status": "ready", "smtp_auth_org_enabled": true,
		"readiness.smtp_auth": "enabled", "readiness.discovery": "completed", "readiness.next_step": "add_domain",
	})
	if after.valueAt("last_sync_at") == nil {
		tenant.t.Errorf("after the sync last_sync_at is missing: %s", after.raw)
	}
	if again := tenant.mustSync(); again.text("run_id") == got.text("run_id") {
		tenant.t.Error("two syncs have the same run_id")
	}
}

// checkTenants checks that the account lists exactly these tenants, newest first.
func (c caller) checkTenants(guids ...string) {
	c.t.Helper()
	list := c.get("/v1/tenants")
	checkMembers(c.t, "list", list.object, "tenants count")
	if list.valueAt("count") != float64(len(guids)) || len(list.objects("tenants")) != len(guids) {
		c.t.Fatalf("the account lists %s, want the tenants %v", list.raw, guids)
	}
	for i, entry := range list.objects("tenants") {
		checkMembers(c.t, "list entry", entry, summaryMembers)
		if entry["tenant_id"] != guids[i] || entry["status"] != nil {
			c.t.Errorf("entry %d is %v, want tenant %s without a status", i, entry, guids[i])
		}
	}
}

// TestUnreadyTenantsExplainWhatIsMissing checks that the response of a sync, the readiness and the
// refused operations report what the tenant lacks.
func TestUnreadyTenantsExplainWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	for _, tc := range []struct {
		name           string
		platformTenant object
		behaviour      object
		wantSync       object
		wantNextStep   string
		provisionCode  string // error code of provisioning
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
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tenant := c.withT(t).newTenant(tc.platformTenant)
			tenant.setBehaviour(tc.behaviour)
			tenant.connect()
			zone := tenant.newZone()
			tenant.post(tenant.path("/domains"), object{"domain": zone})
			synced := tenant.post(tenant.path("/sync"), nil)
			checkValues(t, synced.object, tc.wantSync)
			for _, path := range []string{"smtp_auth.message", "bootstrap.message"} {
				if message := synced.valueAt(path); message == nil || message == "" {
					t.Errorf("%s is missing: %s", path, synced.raw)
				}
			}
			if next := tenant.nextStep(); next != tc.wantNextStep {
				t.Errorf("the next step is %v, want %s", next, tc.wantNextStep)
			}
			tenant.publishRecords(zone)
			tenant.post(tenant.domainPath(zone, "/verify"), nil)
			tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "ada"), 409, tc.provisionCode)
			if tc.provisionCode == "exchange_bootstrap_not_ready" {
				tenant.expect("POST", tenant.domainPath(zone, "/enable-dkim"), nil, 409, tc.provisionCode)
			}
		})
	}
}

func TestDehydratedTenantBecomesReady(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	tenant := c.newTenant(object{"bootstrap": "dehydrated"})
	tenant.setBehaviour(object{"hydrate_ms": 800})
	tenant.connect()
	tenant.eventually("the tenant is hydrated", func() bool {
		return tenant.post(tenant.path("/sync"), nil).text("status") == "completed"
	})
	checkValues(t, tenant.get(tenant.path("")).object, object{"exchange_bootstrap_status": "ready", "readiness.smtp_auth": "enabled"})
}

// TestAssignedTenantWorksLikeAConnectedOne checks that an assigned tenant can be synced and get a
// domain and a mailbox. When the operator withdraws the assignment, a sync returns access_denied,
// and other operations return tenant_not_found or domain_not_found. When the tenant is deleted, a
// sync returns tenant_not_found.
func TestAssignedTenantWorksLikeAConnectedOne(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(object{"tenant_slots": 1})
	tenant := c.newTenant(nil)
	tenant.control("POST", "/managed", object{"tenant_id": tenant.guid, "account_id": c.id})
	tenant.mustSync()
	checkValues(t, tenant.get(tenant.path("")).object, object{"connected_by": nil, "exchange_bootstrap_status": "ready"})
	c.expect("GET", "/v1/tenants/connect-url", nil, 402, "tenant_limit_reached") // the assigned tenant uses the slot
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	mailboxPath := tenant.path("/mailboxes/" + tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id"))
	domainDNSPath := "/v1/domains/" + tenant.get(tenant.path("/domains")).objects("domains")[0].text("id") + "/dns"

	tenant.control("DELETE", "/managed/"+tenant.guid, nil)
	tenant.expect("POST", tenant.path("/sync"), nil, 403, "access_denied")
	for _, refused := range []struct {
		method, path string
		body         any
	}{
		{"GET", tenant.path(""), nil}, {"DELETE", tenant.path(""), nil}, {"GET", tenant.path("/domains"), nil},
		{"POST", tenant.path("/domains"), object{"domain": "a.example"}}, {"POST", tenant.domainPath(zone, "/verify"), nil},
		{"POST", tenant.domainPath(zone, "/enable-dkim"), nil}, {"GET", tenant.domainPath(zone, "/dkim-status"), nil}, {"GET", tenant.domainPath(zone, "/dns"), nil},
		{"GET", tenant.path("/mailboxes"), nil}, {"POST", tenant.path("/mailboxes"), mailboxesBody(zone, "max")},
		{"PATCH", mailboxPath, object{"daily_send_limit": 5}}, {"GET", mailboxPath + "/usage", nil},
	} {
		tenant.expect(refused.method, refused.path, refused.body, 404, "tenant_not_found")
	}
	tenant.expect("GET", domainDNSPath, nil, 404, "domain_not_found")
	c.checkTenants()
	sharedSandbox(t).newAccount(nil).expect("POST", tenant.path("/sync"), nil, 404, "tenant_not_found") // a different account gets the answer for an unknown tenant

	tenant.control("POST", "/managed", object{"tenant_id": tenant.guid, "account_id": c.id})
	tenant.mustSync()
	tenant.expect("DELETE", tenant.path(""), nil, 200, "")
	tenant.expect("POST", tenant.path("/sync"), nil, 404, "tenant_not_found")
}

// revoke revokes a grant at the platform: "consent", "exchange_role" or "app_role", which is the
// application permission for Exchange.
func (tenant accountTenant) revoke(grant string) {
	tenant.t.Helper()
	tenant.control("POST", "/tenants/"+tenant.guid+"/revoke", object{"what": grant})
}

// TestWithdrawnConsentDeniesPlatformCalls checks that operations which need the platform are denied
// at once, without a sync. Stored data stays readable. After a new consent and a sync the
// operations work again.
func TestWithdrawnConsentDeniesPlatformCalls(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	mailboxPath := tenant.path("/mailboxes/" + tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id"))
	before := tenant.get(tenant.path(""))

	tenant.revoke("consent")
	tenant.expect("POST", tenant.path("/domains"), object{"domain": tenant.newZone()}, 403, "access_denied")
	checkValues(t, tenant.get(tenant.path("")).object, object{"readiness.consent": "revoked", "readiness.next_step": "reconnect", "readiness.ready_to_provision": false})
	tenant.expect("POST", tenant.path("/sync"), nil, 403, "access_denied")
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "max"), 403, "access_denied")
	tenant.expect("POST", tenant.domainPath(zone, "/enable-dkim"), nil, 403, "access_denied")
	tenant.expect("POST", tenant.path("/domains"), object{"domain": zone}, 403, "access_denied")
	tenant.expect("POST", tenant.domainPath(zone, "/verify"), nil, 403, "access_denied")
	tenant.expect("PATCH", mailboxPath, object{"display_name": "Ada K."}, 403, "access_denied")
	tenant.expect("PATCH", mailboxPath, object{"daily_send_limit": 7}, 200, "")
	tenant.get(tenant.path("/domains"))
	tenant.get(tenant.domainPath(zone, "/dns"))
	tenant.get(mailboxPath + "/usage")

	tenant.connect()
	tenant.mustSync()
	after := tenant.get(tenant.path(""))
	checkValues(t, after.object, object{"id": before.valueAt("id"), "readiness.consent": "granted", "mailbox_count": 1, "domain_count": 1})
	if after.text("consented_at") <= before.text("consented_at") {
		t.Errorf("consented_at was %v and is %v, want a later time", before.valueAt("consented_at"), after.valueAt("consented_at"))
	}
	tenant.expect("PATCH", mailboxPath, object{"display_name": "Ada K."}, 200, "")
}

// TestSyncRestoresAWithdrawnExchangeRole checks that a sync assigns the Exchange role again.
func TestSyncRestoresAWithdrawnExchangeRole(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.revoke("exchange_role")
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "ada"), 403, "access_denied")
	checkValues(t, tenant.get(tenant.path("")).object, object{"readiness.consent": "granted"})
	tenant.mustSync()
	checkValues(t, tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada")).object, object{"created_count": 1})
}

// TestWithdrawnExchangeGrantNeedsANewConsent checks that a sync does not restore the application
// permission for Exchange, and that a new consent does.
func TestWithdrawnExchangeGrantNeedsANewConsent(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.revoke("app_role")
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "ada"), 403, "access_denied")
	checkValues(t, tenant.post(tenant.path("/sync"), nil).object, object{"status": "partial", "bootstrap.status": "failed", "smtp_auth.status": "skipped", "result.status": "completed"})
	checkValues(t, tenant.get(tenant.path("")).object, object{"exchange_bootstrap_status": "failed", "readiness.next_step": "grant_role", "readiness.ready_to_provision": false})
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "ada"), 409, "exchange_bootstrap_not_ready")
	tenant.expect("POST", tenant.domainPath(zone, "/enable-dkim"), nil, 409, "exchange_bootstrap_not_ready")
	tenant.connect()
	tenant.mustSync()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
}

// TestExchangeRoleWithoutPermissionNeedsAnAdministrator checks that an administrator must act if
// the service has lost the permission to assign the Exchange role.
func TestExchangeRoleWithoutPermissionNeedsAnAdministrator(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	tenant.control("POST", "/tenants/"+tenant.guid+"/revoke", object{"what": "app_role", "role": "RoleManagement.ReadWrite.Directory"})
	tenant.revoke("exchange_role")
	checkValues(t, tenant.post(tenant.path("/sync"), nil).object, object{"status": "partial", "bootstrap.status": "failed", "result.status": "completed"})
	checkValues(t, tenant.get(tenant.path("")).object, object{"readiness.consent": "granted", "readiness.next_step": "grant_role"})
	tenant.connect()
	tenant.mustSync()
}
