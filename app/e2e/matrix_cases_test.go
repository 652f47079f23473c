// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// attempt is one request for a row of the authorization matrix. A row (matrixRow) has an operation,
// a condition and the expected response. A row can have several attempts, for example one for each
// malformed value.
type attempt struct {
	account         accountResources  // sends the request
	auth            []string          // Authorization headers; nil means the account's key
	idempotencyKeys []string          // the Idempotency-Key headers
	ids             map[string]string // the values of the path parameters, by name
	body            string
	path            string                        // the path with its query
	prepare         func(t *testing.T, a attempt) // runs before the request, may be nil
}

const (
	noSuchID   = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"
	noSuchZone = "unknown.example"
)

var noSuchKey = "tny_live_" + strings.Repeat("0", 48)

// ownRequest returns a valid request of an account for its own resources.
func (f *matrixFixture) ownRequest(m matrixAccount, op operation) attempt {
	return attempt{account: m.accountResources, ids: m.ids, body: validBody(m.accountResources, op), path: withRequiredQuery(op.path), idempotencyKeys: []string{f.newIdempotencyKey()}}
}

func (f *matrixFixture) newIdempotencyKey() string { return fmt.Sprint("matrix-", uniqueNumber.Add(1)) }

// variants returns one attempt for each of these values of a parameter.
func (a attempt) variants(param string, values ...string) (attempts []attempt) {
	for _, value := range values {
		variant := a
		variant.ids = maps.Clone(a.ids)
		variant.ids[param] = value
		attempts = append(attempts, variant)
	}
	return attempts
}

func (a attempt) withAuthorization(values ...string) attempt {
	a.auth = append([]string{}, values...) // an empty list means no header; nil would mean the account's key
	return a
}

func (a attempt) withBodyDomain(domain string) attempt {
	a.body = strings.ReplaceAll(a.body, a.account.ids["domain_name"], domain)
	return a
}

// withDomainScope directs the attempt to the send limit of a domain.
func (a attempt) withDomainScope(op operation, domain string) attempt {
	if op.method != "POST" {
		a.path += "?domain_scope=" + domain
	} else {
		a.body = `{"daily_send_limit":5,"domain_scope":"` + domain + `"}`
	}
	return a
}

func (a attempt) withTenantQuery(guid string) attempt {
	a.path += "?tenant_id=" + guid
	return a
}

// validBody returns a valid body for the operation, or "" if the operation has none.
func validBody(resources accountResources, op operation) string {
	switch op.method + " " + op.path {
	case "POST /v1/tenants/{tenant_id}/domains":
		return `{"domain":"` + resources.ids["domain_name"] + `"}`
	case "POST /v1/tenants/{tenant_id}/mailboxes":
		raw, _ := json.Marshal(mailboxesBody(resources.ids["domain_name"], "ada"))
		return string(raw)
	case "PATCH /v1/tenants/{tenant_id}/mailboxes/{mailbox_id}":
		return `{"daily_send_limit":5}`
	case "POST /v1/tenants/{tenant_id}/mailbox-limits":
		return `{"daily_send_limit":5}`
	case "POST /v1/integrations":
		raw, _ := json.Marshal(resources.integrationBody(matrixPlatform))
		return string(raw)
	}
	return ""
}

func (f *matrixFixture) malformedIDs(param string) []string {
	id := f.a.ids[param]
	return []string{"x", "..%2f", "%00", "urn:uuid:" + id, "{" + id + "}", strings.ReplaceAll(id, "-", ""), id + "0", "0", "%ff", strings.Repeat("9", 300)}
}

// attempts returns the requests for a condition of the matrix. For an unknown condition it returns
// none, and then the matrix test fails.
func (f *matrixFixture) attempts(op operation, condition string) []attempt {
	own := f.ownRequest(f.a, op)
	single := func(a attempt) []attempt { return []attempt{a} }
	foreignIDs, secondTenantIDs := f.b.ids, f.a.second.ids
	switch condition {
	case "no_authorization_header":
		return single(own.withAuthorization())
	case "malformed_header_basic_scheme":
		return single(own.withAuthorization("Basic eDp5"))
	case "malformed_header_no_space":
		return []attempt{own.withAuthorization("Bearer" + own.account.key), own.withAuthorization(own.account.key)}
	case "two_authorization_headers":
		return single(own.withAuthorization("Bearer "+own.account.key, "Bearer "+own.account.key))
	case "empty_bearer":
		return []attempt{own.withAuthorization("Bearer"), own.withAuthorization("Bearer "), own.withAuthorization("bearer   ")}
	case "bad_key_format":
		return []attempt{own.withAuthorization("Bearer " + own.account.key[:56]), own.withAuthorization("Bearer " + own.account.key + "0"), own.withAuthorization("Bearer " + strings.ToUpper(own.account.key)),
			own.withAuthorization("Bearer x" + own.account.key), own.withAuthorization("Bearer " + own.account.key + " x"), own.withAuthorization("Bearer " + strings.Repeat("a", 8<<10))}
	case "unknown_key":
		return single(own.withAuthorization("Bearer " + noSuchKey))
	case "rotated_key", "rotated_key_reused":
		return single(own.withAuthorization("Bearer " + f.rotatedKey))
	case "unknown_key_and_invalid_body":
		own.body = `{"domain":`
		return single(own.withAuthorization("Bearer " + noSuchKey))
	case "unknown_key_and_no_idempotency_key":
		own.idempotencyKeys = nil
		return single(own.withAuthorization("Bearer " + noSuchKey))
	case "lapsed_plan":
		return single(f.ownRequest(f.lapsed, op))
	case "lapsed_plan_and_foreign_resource":
		lapsed := f.ownRequest(f.lapsed, op)
		lapsed.ids = foreignIDs
		return single(lapsed)
	case "legacy_entitlement_trial_key":
		return single(f.onNewResource(f.ownRequest(f.trial, op), op))
	case "ceiling_reached":
		own.account.caller = f.full
		return single(own)
	case "over_ceiling_after_downgrade":
		return single(f.ownRequest(f.downgraded, op))
	case "unknown_tenant":
		return own.variants("tenant_id", noSuchID)
	case "foreign_tenant":
		return own.variants("tenant_id", foreignIDs["tenant_id"])
	case "unassigned_managed_tenant":
		return own.variants("tenant_id", f.managed.guid)
	case "formerly_assigned_managed_tenant":
		return own.variants("tenant_id", f.formerlyManaged.guid)
	case "deleted_own_tenant":
		return own.variants("tenant_id", f.deleted.guid)
	case "malformed_tenant_id":
		return own.variants("tenant_id", f.malformedIDs("tenant_id")...)
	case "tenant_resource_id_instead_of_guid":
		return own.variants("tenant_id", own.ids["tenant_resource_id"])
	case "own_tenant_guid_upper_case":
		own = f.onNewResource(own, op)
		return own.variants("tenant_id", strings.ToUpper(own.ids["tenant_id"]))
	case "unknown_domain_name":
		return own.variants("domain_name", noSuchZone)
	case "domain_of_other_own_tenant":
		return own.variants("domain_name", secondTenantIDs["domain_name"])
	case "foreign_domain_name_under_own_tenant":
		return own.variants("domain_name", foreignIDs["domain_name"])
	case "domain_name_case_and_trailing_dot":
		return own.variants("domain_name", strings.ToUpper(own.ids["domain_name"])+".")
	case "own_domain_name_under_foreign_tenant", "own_mailbox_under_foreign_tenant":
		return own.variants("tenant_id", foreignIDs["tenant_id"])
	case "unknown_domain_in_body.domain":
		return single(own.withBodyDomain(noSuchZone))
	case "foreign_domain_in_body.domain":
		return single(own.withBodyDomain(foreignIDs["domain_name"]))
	case "domain_of_other_own_tenant_in_body.domain":
		return single(own.withBodyDomain(secondTenantIDs["domain_name"]))
	case "unknown_domain_in_domain_scope":
		return single(own.withDomainScope(op, noSuchZone))
	case "foreign_domain_in_domain_scope":
		return single(own.withDomainScope(op, foreignIDs["domain_name"]))
	case "domain_of_other_own_tenant_in_domain_scope":
		return single(own.withDomainScope(op, secondTenantIDs["domain_name"]))
	case "unknown_tenant_in_query":
		return single(own.withTenantQuery(noSuchID))
	case "foreign_tenant_in_query":
		return single(own.withTenantQuery(foreignIDs["tenant_id"]))
	case "unassigned_managed_tenant_in_query":
		return single(own.withTenantQuery(f.managed.guid))
	case "unknown_mailbox_under_own_tenant", "unknown_mailbox_under_own_integration":
		return own.variants("mailbox_id", noSuchID)
	case "foreign_mailbox_under_own_tenant", "foreign_mailbox_under_own_integration":
		return own.variants("mailbox_id", foreignIDs["mailbox_id"])
	case "mailbox_of_other_own_tenant":
		return own.variants("mailbox_id", secondTenantIDs["mailbox_id"])
	case "malformed_mailbox_id":
		return own.variants("mailbox_id", f.malformedIDs("mailbox_id")...)
	case "unknown_domain_id":
		return own.variants("domain_id", noSuchID)
	case "foreign_domain_id":
		return own.variants("domain_id", foreignIDs["domain_id"])
	case "malformed_domain_id":
		return own.variants("domain_id", f.malformedIDs("domain_id")...)
	case "domain_id_of_unassigned_managed_tenant":
		return own.variants("domain_id", f.ids["managed"])
	case "domain_id_of_deleted_tenant":
		return own.variants("domain_id", f.ids["deleted"])
	case "unknown_connect_session":
		return own.variants("connect_session_id", noSuchID)
	case "foreign_connect_session":
		return own.variants("connect_session_id", foreignIDs["connect_session_id"])
	case "malformed_connect_session_id":
		return own.variants("connect_session_id", f.malformedIDs("connect_session_id")...)
	case "unknown_run":
		return own.variants("run_id", noSuchID)
	case "foreign_run":
		return own.variants("run_id", foreignIDs["run_id"])
	case "malformed_run_id":
		return own.variants("run_id", f.malformedIDs("run_id")...)
	case "unknown_job":
		return own.variants("job_id", noSuchID)
	case "foreign_job":
		return own.variants("job_id", foreignIDs["job_id"])
	case "malformed_job_id":
		return own.variants("job_id", f.malformedIDs("job_id")...)
	case "own_job_of_since_unassigned_tenant":
		return own.variants("job_id", f.ids["returned job"])
	case "valid_key_user_email_of_other_account":
		own.path += "?user_email=" + f.b.email
		return single(own)
	case "valid_key", "any_on_public_listener", "list_isolation":
		return single(own)
	}
	if attempts := f.integrationAttempts(own, condition); len(attempts) > 0 {
		return attempts
	}
	return f.idempotencyAttempts(op, condition)
}

// onNewResource protects the resources of the fixture, which later attempts need. If the operation
// deletes something or begins a sign-in, it creates an integration or a tenant and returns the
// attempt for this new resource. Otherwise it returns the attempt unchanged.
func (f *matrixFixture) onNewResource(a attempt, op operation) attempt {
	switch {
	case strings.HasPrefix(op.path, "/v1/integrations/{"):
		return f.onNewIntegration(a, op)
	case op.method == "DELETE":
		tenant := a.account.newTenant(nil).connect()
		a.ids = map[string]string{"tenant_id": tenant.guid}
	}
	return a
}

func (f *matrixFixture) idempotencyAttempts(op operation, condition string) []attempt {
	a := f.onNewResource(f.ownRequest(f.a, op), op)
	sendFirst := func(t *testing.T, a attempt) {
		if got := f.send(t, op, a); got.status != 200 {
			t.Errorf("the first request with the Idempotency-Key is answered %d %s, want 200", got.status, got.raw)
		}
	}
	switch condition {
	case "missing_idempotency_key":
		a.idempotencyKeys = nil
		return []attempt{a}
	case "malformed_idempotency_key":
		return []attempt{a.withIdempotencyKeys(""), a.withIdempotencyKeys(strings.Repeat("k", 256)), a.withIdempotencyKeys("a b"), a.withIdempotencyKeys("ü"), a.withIdempotencyKeys("one", "two")}
	case "same_key_value_used_by_other_account":
		a.prepare = func(t *testing.T, a attempt) {
			foreign := f.onNewResource(f.ownRequest(f.b, op), op)
			foreign.idempotencyKeys = a.idempotencyKeys
			sendFirst(t, foreign)
		}
	case "replay_own_key", "replay_after_resource_is_gone":
		a.prepare = sendFirst
	case "same_key_other_fingerprint":
		validPath := a.path
		a.prepare = func(t *testing.T, a attempt) {
			a.path = validPath
			sendFirst(t, a)
		}
		a.path += "?x=1"
	case "replay_with_lapsed_plan":
		a = f.onNewResource(f.ownRequest(f.spare, op), op)
		a.prepare = func(t *testing.T, a attempt) {
			sendFirst(t, a)
			f.spare.withT(t).setPlan(object{"plan": "complete", "active": false})
			t.Cleanup(func() { f.spare.withT(t).setPlan(object{"plan": "complete", "active": true}) })
		}
	case "replay_with_rotated_key":
		a = f.onNewResource(f.ownRequest(f.spare, op), op)
		a.prepare = func(t *testing.T, a attempt) {
			sendFirst(t, a)
			f.spare.t = t
			f.spare.rotateKey()
		}
	default:
		return nil
	}
	return []attempt{a}
}

func (a attempt) withIdempotencyKeys(keys ...string) attempt {
	a.idempotencyKeys = keys
	return a
}

// matrixPlatform is the sending platform of all integrations in the matrix.
const matrixPlatform = "instantly"

// addIntegrations adds an integration to each matrixAccount. Every account except downgraded also
// gets an open OAuth session for a mailbox. addIntegrations also creates the resources for
// conditions about integrations.
func (f *matrixFixture) addIntegrations(t *testing.T) {
	t.Helper()
	for _, account := range []*accountResources{&f.a.accountResources, &f.b.accountResources, &f.trial.accountResources, &f.spare.accountResources, &f.downgraded.accountResources, &f.lapsed.accountResources} {
		lapsed := account == &f.lapsed.accountResources
		if lapsed {
			account.setPlan(object{"plan": "complete", "active": true})
		}
		account.ids["unconnected_mailbox_id"] = account.get(account.path("/mailboxes")).objects("mailboxes")[1].text("id")
		if account != &f.downgraded.accountResources { // an account with more tenants than slots may not begin a session
			account.addIntegration()
		} else {
			account.ids["integration_id"], account.ids["session_id"] = account.post("/v1/integrations", account.integrationBody(matrixPlatform)).text("id"), noSuchID
		}
		if lapsed {
			account.setPlan(object{"plan": "complete", "active": false})
		}
	}
	a := f.a
	f.ids["other integration"] = a.post("/v1/integrations", a.integrationBody(matrixPlatform)).text("id")
	deletedID := a.post("/v1/integrations", a.integrationBody(matrixPlatform)).text("id")
	a.expect("DELETE", "/v1/integrations/"+deletedID, nil, 200, "")
	f.ids["deleted integration"] = deletedID
	f.ids["address"] = a.get(a.path("/mailboxes")).objects("mailboxes")[0].text("primary_smtp")
	f.ids["managed mailbox"] = f.managedMailbox()
	f.ids["discovered mailbox"] = f.discoveredMailbox()
}

// managedMailbox provisions a mailbox in a tenant that is assigned to a different account, and
// returns the id of the mailbox.
func (f *matrixFixture) managedMailbox() string {
	tenant := f.managed
	zone := tenant.newVerifiedDomain()
	tenant.publishRecords(zone)
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	return tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id")
}

// discoveredMailbox returns the id of a mailbox that counts as discovered, not as provisioned. The
// service provisions the mailbox, deletes its tenant, and finds the mailbox again in a sync.
func (f *matrixFixture) discoveredMailbox() string {
	tenant := f.a.newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	tenant.expect("DELETE", tenant.path(""), nil, 200, "")
	tenant.connect()
	tenant.mustSync()
	return tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id")
}

func (f *matrixFixture) integrationAttempts(a attempt, condition string) []attempt {
	switch condition {
	case "unknown_integration":
		return a.variants("integration_id", noSuchID)
	case "foreign_integration", "own_mailbox_under_foreign_integration":
		return a.variants("integration_id", f.b.ids["integration_id"])
	case "deleted_own_integration":
		return a.variants("integration_id", f.ids["deleted integration"])
	case "malformed_integration_id":
		return a.variants("integration_id", f.malformedIDs("integration_id")...)
	case "mailbox_of_unassigned_managed_tenant":
		return a.variants("mailbox_id", f.ids["managed mailbox"])
	case "mailbox_address_instead_of_uuid":
		return a.variants("mailbox_id", f.ids["address"])
	case "own_discovered_mailbox_not_service_provisioned":
		return a.variants("mailbox_id", f.ids["discovered mailbox"])
	case "mailbox_connected_or_pending_elsewhere", "own_session_of_other_integration":
		return a.variants("integration_id", f.ids["other integration"])
	case "unknown_session_id":
		return a.variants("session_id", noSuchID, "x", strings.Repeat("9", 300))
	case "foreign_session_id":
		return a.variants("session_id", f.b.ids["session_id"])
	case "own_session_of_other_mailbox":
		return a.variants("mailbox_id", a.ids["unconnected_mailbox_id"])
	}
	return nil
}

// onNewIntegration returns the attempt for a new integration and a mailbox without a connection, if
// the operation deletes something or begins a session. For an operation that begins a session,
// onNewIntegration first deletes the integrations of earlier attempts, because they can have a
// session for the mailbox.
func (f *matrixFixture) onNewIntegration(a attempt, op operation) attempt {
	beginsSession := strings.HasSuffix(op.path, "/init")
	if !beginsSession && op.method != "DELETE" {
		return a
	}
	a.ids = maps.Clone(a.ids)
	a.ids["mailbox_id"] = a.ids["unconnected_mailbox_id"]
	for _, integration := range a.account.get("/v1/integrations").objects("integrations") {
		if id := integration.text("id"); beginsSession && id != a.account.ids["integration_id"] && id != f.ids["other integration"] {
			a.account.expect("DELETE", "/v1/integrations/"+id, nil, 200, "")
		}
	}
	a.ids["integration_id"] = a.account.post("/v1/integrations", a.account.integrationBody(matrixPlatform)).text("id")
	return a
}
