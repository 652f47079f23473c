// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/access"
)

// unownedOperations are the operations without a path parameter. Each value names the test, or the
// authorization matrix (matrix_test.go), that covers the operation, and says what the operation
// does.
var unownedOperations = map[string]string{
	"GET /v1/tenants":               "TestTenantGoesFromConnectLinkToDeletion: lists what the account holds",
	"GET /v1/integrations":          "TestIntegrationGoesFromAdditionToDeletion: lists what the account holds",
	"POST /v1/integrations":         "TestIntegrationGoesFromAdditionToDeletion: adds to the account of the key",
	"GET /v1/dns/provisioning-runs": "TestProvisioningRunIsShown: lists what the account holds",
	"GET /v1/events":                "TestEventsTellWhatHappened: lists what happened in the account",
	"GET /v1/enforcement/events":    "the matrix: lists what happened to the account's mailboxes",
	"GET /v1/audit":                 "the matrix: lists what was done in the account",
	"GET /v1/audit/export":          "the matrix: sends what was done in the account",
	"GET /v1/tenants/connect-url":   "TestConnectStateBelongsToItsAccount: the link is bound to the account",
	"GET /v1/webhooks":              "TestBoundedKeysSeeOnlyTheirTenants: lists the webhooks of the account",
	"POST /v1/webhooks":             "TestBoundedKeysSeeOnlyTheirTenants: adds to the account of the key",
	"GET /v1/me":                    "TestBoundedKeysSeeOnlyTheirTenants: describes the account and the key",
	"GET /v1/keys":                  "TestBoundedKeysSeeOnlyTheirTenants: lists the keys of the account",
	"POST /v1/keys":                 "TestBoundedKeysSeeOnlyTheirTenants: adds to the account of the key",
	"POST /api-key/rotate":          "TestKeyRotationReplacesTheKey: rotates the key that the request carries",
}

// validBodies are valid request bodies, keyed by operation.
var validBodies = map[string]any{
	"POST /v1/tenants/{tenant_id}/domains":                 object{"domain": "new.example"},
	"POST /v1/tenants/{tenant_id}/mailboxes":               mailboxesBody("new.example", "ada"),
	"POST /v1/tenants/{tenant_id}/mailbox-limits":          object{"daily_send_limit": 5},
	"PATCH /v1/tenants/{tenant_id}/mailboxes/{mailbox_id}": object{"display_name": "Ada", "daily_send_limit": 5},
	"PATCH /v1/webhooks/{webhook_id}":                      object{"status": "enabled"},
	"POST /v1/webhooks/{webhook_id}/replay":                object{"after": "2026-01-31T09:30:00Z"},
}

// notFoundCodes are the error codes for ids that belong to no resource of the caller, keyed by path
// parameter.
var notFoundCodes = map[string]string{
	"tenant_id": "tenant_not_found", "domain_name": "domain_not_found", "domain_id": "domain_not_found", "mailbox_id": "mailbox_not_found",
	"key_id": "key_not_found", "connect_session_id": "connect_session_not_found", "webhook_id": "webhook_not_found", "delivery_id": "webhook_delivery_not_found",
	"run_id": "provisioning_run_not_found", "job_id": "provisioning_job_not_found", "integration_id": "integration_not_found",
}

// accountResources is an account with a tenant, and the ids of the account's resources.
type accountResources struct {
	accountTenant
	ids map[string]string // keyed by path parameter
}

// newResources creates an account with a tenant, a domain, a mailbox, a connect session and a
// tested webhook.
func (c caller) newResources() accountResources {
	tenant := c.newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	webhook := tenant.newTestedWebhook()
	return accountResources{tenant, map[string]string{
		"connect_session_id": tenant.get("/v1/tenants/connect-url").text("id"),
		"webhook_id":         webhook,
		"delivery_id":        tenant.get("/v1/webhooks/" + webhook + "/deliveries").objects("deliveries")[0].text("id"),
		"tenant_id":          tenant.guid, "domain_name": zone,
		"domain_id":  tenant.get(tenant.path("/domains")).objects("domains")[0].text("id"),
		"mailbox_id": tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id"),
		"key_id":     fmt.Sprint(tenant.get("/v1/me").valueAt("key.id")),
	}}
}

// newTestedWebhook adds a webhook whose endpoint does not answer, tests it and returns its id.
func (tenant accountTenant) newTestedWebhook() string {
	id := tenant.post("/v1/webhooks", object{"url": "http://127.0.0.1:9", "event_types": []string{"webhook.disabled"}}).text("id")
	tenant.post("/v1/webhooks/"+id+"/test", nil)
	return id
}

// foreignValues returns values of a parameter that must all get the same response, for example the
// values of a foreign account, unknown values and malformed values.
func (r accountResources) foreignValues(foreign accountResources, param string) []string {
	foreignID := foreign.ids[param]
	values := []string{foreignID, strings.ToUpper(foreignID)}
	if param == "domain_name" {
		return append(values, foreignID+".", "unknown.example", "nodots", "%2e%2e", "a%00.example", "%ff.example", "-",
			strings.Repeat("a", 300)+".example", "%D0%BF.example", r.ids["domain_id"])
	}
	values = append(values, noSuchID, strings.ReplaceAll(foreignID, "-", ""), "{"+foreignID+"}", "urn:uuid:"+foreignID, foreignID+"0", "x", "0", "%20", "%00", "a%2Fb",
		"%ff", strings.Repeat("9", 300), "00000000-0000-0000-0000-000000000000", "'%20OR%201=1--")
	if param == "tenant_id" {
		values = append(values, r.get(r.path("")).text("id"), foreign.get(foreign.path("")).text("id"))
	}
	return values
}

// TestForeignIDsLookUnknown checks that operations with path parameters give the same answer to ids
// of a different account, unknown ids and malformed ids. No provider may be called.
func TestForeignIDsLookUnknown(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	// Without a worker, no provider is called in the background.
	_, ready := startDev(t, requirePrograms(t, releaseBuild), folder, []string{"TENANTRY_WORKER=false"})
	c := seededAccount(t, ready)
	accountA, accountB := c.newResources(), c.newResources()
	addWaitingRuns(t, filepath.Join(folder, "tenantry.db"), accountA, accountB)
	accountA.addIntegration()
	accountB.addIntegration()
	document, err := publishedDocument()
	must(t, err)
	c.control("DELETE", "/calls", nil)
	for _, op := range document.operations {
		name := op.method + " " + op.path
		params := pathParameters(op.path)
		if len(params) == 0 && unownedOperations[name] == "" {
			t.Errorf("the path of %s names no owned resource, and unownedOperations does not list it", name)
		}
		for _, param := range params {
			if notFoundCodes[param] == "" || accountA.ids[param] == "" {
				t.Errorf("%s has no ownership cases for %s", name, param)
				continue
			}
			t.Run(name+" "+param, func(t *testing.T) {
				accountA.checkIndistinguishable(t, accountB, op, param)
				accountB.checkIndistinguishable(t, accountA, op, param)
			})
		}
	}
	for _, provider := range []string{"microsoft365", "cloudflare", "instantly"} {
		if calls := c.operationsAt(provider); len(calls) != 0 {
			t.Errorf("the provider %s was called: %v, want no call", provider, calls)
		}
	}
	for _, resources := range []accountResources{accountA, accountB} {
		checkValues(t, resources.get(resources.path("")).object, object{"domain_count": 1, "mailbox_count": 1})
		checkValues(t, resources.get("/v1/integrations/"+resources.ids["integration_id"]).object, object{"mailbox_connections.total": 1, "mailbox_connections.pending": 1})
	}
}

// TestBoundedKeysSeeOnlyTheirTenants calls operations with keys that only read, lack the scope of
// the operation, are used from a forbidden address or have expired. To a key that is limited to a
// different tenant, the account's resources look like resources of a different account.
func TestBoundedKeysSeeOnlyTheirTenants(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), folder, []string{"TENANTRY_WORKER=false"}, "--limits", "off")
	c := seededAccount(t, ready)
	own, foreign := c.newResources(), c.newResources()
	file := filepath.Join(folder, "tenantry.db")
	addWaitingRuns(t, file, own, foreign)
	own.addIntegration()
	own.post(own.path("/mailbox-limits"), object{"daily_send_limit": 25})
	document, err := publishedDocument()
	must(t, err)
	withBounds := func(bounds object) accountResources {
		resources, body := own, object{"name": "bounded", "scopes": []string{"*"}}
		maps.Copy(body, bounds)
		resources.key = own.post("/v1/keys", body).text("api_key")
		return resources
	}
	forOtherTenant := withBounds(object{"tenant_ids": []string{noSuchID}})
	auditReader := withBounds(object{"scopes": []string{"audit:read"}})
	keyWriter := withBounds(object{"scopes": []string{"keys:write"}})
	fromOtherNetwork := withBounds(object{"allowed_cidrs": []string{"192.0.2.0/24"}})
	reader := withBounds(object{"scopes": slices.DeleteFunc(access.Strings(access.OperationScopes()), func(s string) bool { return strings.HasSuffix(s, ":write") })})
	expired := own
	expired.key = addExpiredKey(t, file, own)
	for _, op := range document.operations {
		name := op.method + " " + op.path
		t.Run(name, func(t *testing.T) {
			body := validBodies[name]
			if (op.method == "POST" || op.method == "PATCH") && body == nil {
				body = object{}
			}
			path := fillPath(op.path, own.ids)
			fromOtherNetwork.caller.withT(t).expect(op.method, path, body, 401, "invalid_api_key")
			if got := expired.caller.withT(t).expect(op.method, path, body, 401, "invalid_api_key"); !strings.Contains(got.text("detail"), "expired") {
				t.Errorf("the refusal does not say that the key has expired: %s", got.raw)
			}
			if scope := document.scopes[op]; strings.HasSuffix(scope, ":write") {
				got := reader.caller.withT(t).expect(op.method, path, body, 403, "insufficient_scope")
				checkValues(t, got.object, object{"required_scope": scope})
			} else {
				reader.caller.withT(t).expect(op.method, path, body, 200, "")
			}
			keyWithOtherScope := auditReader
			if strings.HasPrefix(op.path, "/v1/audit") {
				keyWithOtherScope = keyWriter
			}
			if name != "GET /v1/me" {
				keyWithOtherScope.caller.withT(t).expect(op.method, path, body, 403, "insufficient_scope")
			}
			for _, param := range pathParameters(op.path) {
				if param == "integration_id" || param == "key_id" {
					continue
				}
				got := forOtherTenant.caller.withT(t).expect(op.method, path, body, 404, notFoundCodes[param])
				ids := maps.Clone(own.ids)
				ids[param] = foreign.ids[param]
				want := own.caller.withT(t).expect(op.method, fillPath(op.path, ids), body, 404, notFoundCodes[param])
				if got.comparable() != want.comparable() {
					t.Errorf("the answer for a hidden resource is\n%s\nand for another account's resource\n%s", got.comparable(), want.comparable())
				}
				break // the first parameter decides the error code
			}
		})
	}
	for path, list := range map[string]string{"/v1/tenants": "tenants", "/v1/dns/provisioning-runs": "runs", "/v1/enforcement/events": "events", "/v1/events": "events", "/v1/audit": "entries", "/v1/webhooks": "webhooks"} {
		if got := forOtherTenant.get(path); len(got.objects(list)) != 0 {
			t.Errorf("with a key for a different tenant %s shows %s, want an empty list", path, got.raw)
		}
	}
}

// addExpiredKey writes a key that has expired into the database, because the API refuses to create
// an expired key.
func addExpiredKey(t *testing.T, file string, owner accountResources) string {
	t.Helper()
	store, err := bunstore.Open(t.Context(), "sqlite://"+file, bunstore.Options{})
	must(t, err)
	defer func() { _ = store.Close() }()
	prefix, _, _ := strings.Cut(owner.key, "_")
	key, text, err := access.NewKey(rand.Reader, prefix, access.Live, access.AccountID(owner.id), "expired", time.Now())
	must(t, err)
	key.Bounds.ExpiresAt = time.Now().Add(-time.Second)
	must(t, store.AddKey(t.Context(), key))
	return text.Reveal()
}

// checkIndistinguishable checks that an operation gives the same answer to all foreignValues of one
// parameter. In the remaining parameters the requests have the caller's own ids. If param is the
// first parameter, the first request has ids of the foreign account in all parameters.
func (r accountResources) checkIndistinguishable(t *testing.T, foreign accountResources, op operation, param string) {
	t.Helper()
	body := validBodies[op.method+" "+op.path]
	if (op.method == "POST" || op.method == "PATCH") && body == nil {
		body = object{}
	}
	firstAnswer := ""
	for i, value := range r.foreignValues(foreign, param) {
		ids := maps.Clone(r.ids)
		ids[param] = value
		if i == 0 && param == pathParameters(op.path)[0] {
			ids = foreign.ids
		}
		got := r.caller.withT(t).expect(op.method, fillPath(op.path, ids), body, 404, notFoundCodes[param])
		if i == 0 {
			firstAnswer = got.comparable()
		}
		if got.comparable() != firstAnswer {
			t.Errorf("the answer to %q differs from the answer to an id of a different account:\n%s\nand\n%s", value, got.comparable(), firstAnswer)
		}
	}
}

// comparable returns the headers and the body without the parts that differ between equal requests.
func (r reply) comparable() string {
	var lines []string
	for name, values := range r.header {
		if name != "Date" && name != "X-Ratelimit-Remaining" && name != "X-Ratelimit-Reset" {
			lines = append(lines, fmt.Sprintf("%s: %q", name, values))
		}
	}
	slices.Sort(lines)
	fullText := strings.Join(lines, "\n") + "\n\n" + string(r.raw)
	return strings.ReplaceAll(fullText, r.header.Get("X-Request-ID"), "ID")
}

// TestForeignDomainInABodyLooksUnknown provisions mailboxes for a domain of a different account, an
// unknown domain and invalid domains. All get the same response.
func TestForeignDomainInABodyLooksUnknown(t *testing.T) {
	t.Parallel()
	// Without a worker, the platform is not called in the background.
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), []string{"TENANTRY_WORKER=false"}, "--no-seed")
	c := seededAccount(t, ready)
	own, foreign := c.newResources(), c.newResources()
	c.control("DELETE", "/calls", nil)
	answers := map[string]bool{}
	for _, name := range []string{foreign.ids["domain_name"], "unknown.example", "nodots", "", "onmicrosoft.com"} {
		body := mailboxesBody("example.com", "ada")
		body["domain"] = name
		answers[own.expect("POST", own.path("/mailboxes"), body, 404, "domain_not_found").comparable()] = true
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ, want equal answers: %v", slices.Collect(maps.Keys(answers)))
	}
	if calls := c.control("GET", "/calls?provider=microsoft365", nil); strings.TrimSpace(string(calls.raw)) != "[]" {
		t.Errorf("the platform was called: %s, want no call", calls.raw)
	}
}

func pathParameters(template string) (names []string) {
	for segment := range strings.SplitSeq(template, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// withRequiredQuery returns the path of an operation with its required query parameters.
func withRequiredQuery(template string) string {
	if strings.HasSuffix(template, "/oauth/microsoft/status") {
		template += "?session_id={session_id}"
	}
	return template
}

// fillPath returns the path of an operation with these ids and its required query parameters.
func fillPath(template string, ids map[string]string) string {
	template = withRequiredQuery(template)
	for name, id := range ids {
		template = strings.ReplaceAll(template, "{"+name+"}", id)
	}
	return template
}
