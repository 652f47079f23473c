// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/ports"
)

// addOwnedObjects adds objects to both accounts. owned has a value for each path parameter that
// identifies an object: the id or name of an object of account A. notOwned has the values with
// which account A must get one same answer: ids of account B, ids of objects of a different type,
// unknown ids and malformed ids.
func addOwnedObjects(env *testEnv, t *testing.T) (owned map[string]string, notOwned map[string][]string) {
	t.Helper()
	ownDomain, ownMailbox := env.addDomainAndMailbox(t, env.accountA)
	foreignDomain, foreignMailbox := env.addDomainAndMailbox(t, env.accountB)
	const unknownUUID = "0e9d7c1a-4b52-4f60-8a3e-9d2f1c7b6a55"
	unknownOrMalformed := []string{unknownUUID, "x", "%00", "a%2Fb", strings.Repeat("9", 300), "{" + unknownUUID + "}", "urn:uuid:" + unknownUUID}
	owned = map[string]string{
		"tenant_id": string(env.accountA.tenant), "domain_name": ownDomain.Name, "domain_id": ownDomain.ID, "mailbox_id": ownMailbox.ID,
	}
	foreignRun, foreignJob := env.addRun(t, env.accountB, foreignDomain)
	owned["run_id"], owned["job_id"] = env.addRun(t, env.accountA, ownDomain)
	env.markProvisioned(t, env.accountA, ownMailbox)
	env.markProvisioned(t, env.accountB, foreignMailbox)
	ownIntegration, foreignIntegration := env.addIntegration(t, env.accountA), env.addIntegration(t, env.accountB)
	owned["key_id"] = env.keyID(t, env.accountA)
	foreignKey := env.keyID(t, env.accountB)
	owned["integration_id"], owned["session_id"] = ownIntegration.ID, env.addSession(t, env.accountA, ownIntegration, ownMailbox)
	owned["connect_session_id"] = env.addConnectSession(t, env.accountA)
	foreignConnectSession := env.addConnectSession(t, env.accountB)
	owned["webhook_id"], owned["delivery_id"] = env.addWebhook(t, env.accountA)
	foreignWebhook, foreignDelivery := env.addWebhook(t, env.accountB)
	notOwned = map[string][]string{
		"connect_session_id": append([]string{foreignConnectSession, strings.ToUpper(foreignConnectSession), owned["session_id"]}, unknownOrMalformed...),
		"tenant_id":          append([]string{string(env.accountB.tenant), strings.ToUpper(string(env.accountB.tenant)), ownDomain.TenantID}, unknownOrMalformed...),
		"domain_name":        {foreignDomain.Name, strings.ToUpper(foreignDomain.Name) + ".", "unknown.example", "%2e%2e", "a%00.example", "%ff.example", "-"},
		"domain_id":          append([]string{foreignDomain.ID, strings.ToUpper(foreignDomain.ID)}, unknownOrMalformed...),
		"mailbox_id":         append([]string{foreignMailbox.ID, foreignMailbox.Address}, unknownOrMalformed...),
		"run_id":             append([]string{foreignRun, strings.ToUpper(foreignRun), owned["job_id"]}, unknownOrMalformed...),
		"integration_id":     append([]string{foreignIntegration.ID, strings.ToUpper(foreignIntegration.ID), ownMailbox.ID}, unknownOrMalformed...),
		"job_id":             append([]string{foreignJob, strings.ToUpper(foreignJob), owned["run_id"]}, unknownOrMalformed...),
		"key_id":             append([]string{foreignKey, strings.ToUpper(foreignKey), ownMailbox.ID}, unknownOrMalformed...),
		"webhook_id":         append([]string{foreignWebhook, strings.ToUpper(foreignWebhook), owned["delivery_id"]}, unknownOrMalformed...),
		"delivery_id":        append([]string{foreignDelivery, strings.ToUpper(foreignDelivery), owned["webhook_id"]}, unknownOrMalformed...),
	}
	return owned, notOwned
}

// keyID returns the id of the account's first key.
func (env *testEnv) keyID(t *testing.T, owner testAccount) string {
	t.Helper()
	keys, err := env.store.IssuedKeys(t.Context(), owner.account.ID)
	if err != nil || len(keys) == 0 {
		t.Fatalf("the account has %d keys, want at least one (%v)", len(keys), err)
	}
	return keys[0].ID
}

// withoutOwnedIDs lists the operations without the id of an owned object in their path. The value
// says why the operation does not show or change objects of a different account.
var withoutOwnedIDs = map[string]string{
	"GET /v1/tenants":               "lists only the account's tenants, see TestTenantListIsLimitedToTheAccount",
	"GET /v1/tenants/connect-url":   "returns a link for the account of the key",
	"GET /v1/dns/provisioning-runs": "lists only the account's runs, see TestProvisioningRunsAreListedNewestFirst",
	"GET /v1/enforcement/events":    "lists only events of the account's mailboxes, see TestEnforcementEventsArePagedAndFiltered",
	"GET /v1/events":                "lists only the account's log, see TestEventsAreLimitedToTheAccount",
	"GET /v1/audit":                 "lists only entries of the account, see TestAuditIsLimitedToTheAccount",
	"GET /v1/audit/export":          "sends only entries of the account, see TestAuditIsLimitedToTheAccount",
	"GET /v1/integrations":          "lists only the account's integrations, see TestIntegrationsAreVisibleToTheirAccountOnly",
	"POST /v1/integrations":         "adds to the account of the key, see TestIntegrationsAreVisibleToTheirAccountOnly",
	"GET /v1/keys":                  "lists only the account's keys, see TestKeysAreManaged",
	"POST /v1/keys":                 "adds to the account of the key, see TestKeysAreManaged",
	"GET /v1/me":                    "describes the account and the key of the request, see TestMeDescribesTheCaller",
	"GET /v1/webhooks":              "lists only the account's webhooks, see TestWebhookLifecycle",
	"POST /v1/webhooks":             "adds to the account of the key, see TestWebhookLifecycle",
	"POST /api-key/rotate":          "rotates the key that the request carries, see TestInvalidQueryParametersAreRefused",
}

// notFoundCodes has the error code for each parameter whose object does not belong to the caller.
// The first such parameter of a path determines the code.
var notFoundCodes = map[string]string{
	"tenant_id": "tenant_not_found", "domain_name": "domain_not_found", "domain_id": "domain_not_found", "mailbox_id": "mailbox_not_found",
	"key_id": "key_not_found",
	"run_id": "provisioning_run_not_found", "job_id": "provisioning_job_not_found", "integration_id": "integration_not_found",
	"connect_session_id": "connect_session_not_found",
	"webhook_id":         "webhook_not_found", "delivery_id": "webhook_delivery_not_found",
}

// validBodies has a request body for each operation that names an owned object in its path and
// requires a body.
var validBodies = map[string]string{
	"POST /v1/tenants/{tenant_id}/domains":                 `{"domain":"new.example"}`,
	"POST /v1/tenants/{tenant_id}/mailboxes":               `{"domain":"new.example","account_password":"Correct-Horse-7","mailboxes":[{"name":"A","email":"a@new.example"}]}`,
	"POST /v1/tenants/{tenant_id}/mailbox-limits":          `{"daily_send_limit":5}`,
	"PATCH /v1/tenants/{tenant_id}/mailboxes/{mailbox_id}": `{"display_name":"Ana","daily_send_limit":5}`,
	"PATCH /v1/webhooks/{webhook_id}":                      `{"status":"enabled"}`,
	"POST /v1/webhooks/{webhook_id}/replay":                `{"after":"2026-01-01T00:00:00Z"}`,
}

// TestForeignAndUnknownIDsAreIndistinguishable checks that an operation gives the same answer for
// the ids of a different account, unknown ids and malformed ids. Only the date, the request id and
// two rate limit headers may differ. The operation must call neither the mail platform nor the DNS.
func TestForeignAndUnknownIDsAreIndistinguishable(t *testing.T) {
	env := newTestEnv(t)
	owned, notOwned := addOwnedObjects(env, t)
	client := serve(t, env.handler(t))
	for _, op := range allOperations() {
		name := strings.ToUpper(op.method) + " " + op.path
		params := parametersOf(op.path)
		if len(params) == 0 {
			if withoutOwnedIDs[name] == "" {
				t.Errorf("%s is missing in withoutOwnedIDs", name)
			}
			continue
		}
		for _, param := range params {
			if notOwned[param] == nil || owned[param] == "" {
				t.Errorf("%s: addOwnedObjects has no values for %s", name, param)
				continue
			}
			t.Run(name+" "+param, func(t *testing.T) {
				checkIndistinguishable(t, client.forTest(t), env, name, param, owned, notOwned[param])
			})
		}
	}
	for method := range reflect.TypeFor[ports.MailTenant]().Methods() {
		if calls := env.platform.Calls(method.Name); calls != 0 {
			t.Errorf("%s was called %d times, want 0", method.Name, calls)
		}
	}
	if env.platform.DNS.Reads() != 0 {
		t.Errorf("the DNS was read %d times, want 0", env.platform.DNS.Reads())
	}
}

// checkIndistinguishable sends an operation with each of the values for a parameter and compares
// the answers.
func checkIndistinguishable(t *testing.T, client *apiClient, env *testEnv, name, param string, owned map[string]string, notOwnedValues []string) {
	t.Helper()
	method, template, _ := strings.Cut(name, " ")
	var firstReply reply
	for i, value := range notOwnedValues {
		values := maps.Clone(owned)
		values[param] = value
		got := client.expect(call{method: method, path: fillPath(template, values), body: validBodies[name], key: env.accountA.key}, http.StatusNotFound, notFoundCodes[param])
		if i == 0 {
			firstReply = got
		}
		if comparableText(got) != comparableText(firstReply) {
			t.Errorf("the answer to %q differs from the answer to %q:\n%s\n%s", value, notOwnedValues[0], comparableText(got), comparableText(firstReply))
		}
	}
}

// comparableText returns the headers and body of an answer without the parts that can differ
// between two equal requests.
func comparableText(r reply) string {
	id := r.header.Get("X-Request-ID")
	var lines []string
	for name, values := range r.header {
		if name != "Date" && name != "X-Ratelimit-Remaining" && name != "X-Ratelimit-Reset" {
			lines = append(lines, name+": "+strings.Join(values, ","))
		}
	}
	slices.Sort(lines)
	return strings.ReplaceAll(strings.Join(lines, "\n")+"\n\n"+r.raw, id, "ID")
}

// TestForeignDomainInBodyIsNotFound checks that a request whose body names a domain of a different
// account gets the same answer as a request with an unknown or invalid domain.
func TestForeignDomainInBodyIsNotFound(t *testing.T) {
	env := newTestEnv(t)
	owned, notOwned := addOwnedObjects(env, t)
	client := serve(t, env.handler(t))
	var answers []string
	for _, name := range []string{notOwned["domain_name"][0], "unknown.example", "no domain", ""} {
		body := strings.ReplaceAll(validBodies["POST /v1/tenants/{tenant_id}/mailboxes"], `"new.example"`, `"`+name+`"`)
		got := client.expect(call{method: "POST", path: "/v1/tenants/" + owned["tenant_id"] + "/mailboxes", body: body, key: env.accountA.key}, 404, "domain_not_found")
		answers = append(answers, comparableText(got))
	}
	if len(slices.Compact(answers)) != 1 {
		t.Errorf("the answers are %q, want the same answer for each domain", answers)
	}
}

// parametersOf returns the names of the parameters of a path template.
func parametersOf(template string) (names []string) {
	for segment := range strings.SplitSeq(template, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// fillPath returns a path template with its parameters replaced by values. To the path of the OAuth
// status it adds the required query parameter session_id.
func fillPath(template string, values map[string]string) string {
	if strings.HasSuffix(template, "/oauth/microsoft/status") {
		template += "?session_id={session_id}"
	}
	for name, value := range values {
		template = strings.ReplaceAll(template, "{"+name+"}", value)
	}
	return template
}

func TestTenantListIsLimitedToTheAccount(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for _, owner := range []testAccount{env.accountA, env.accountB} {
		got := client.expect(call{method: "GET", path: "/v1/tenants", key: owner.key}, 200, "")
		tenants := got.body["tenants"].([]any)
		if len(tenants) != 1 || tenants[0].(map[string]any)["tenant_id"] != string(owner.tenant) {
			t.Errorf("got %s, want only the tenant %s", got.raw, owner.tenant)
		}
	}
}

func TestIDsAreCaseInsensitive(t *testing.T) {
	env := newTestEnv(t)
	owned, _ := addOwnedObjects(env, t)
	client := serve(t, env.handler(t))
	for _, path := range []string{
		"/v1/tenants/" + strings.ToUpper(owned["tenant_id"]) + "/domains",
		"/v1/tenants/" + owned["tenant_id"] + "/domains/" + strings.ToUpper(owned["domain_name"]) + "./dns",
		"/v1/domains/" + strings.ToUpper(owned["domain_id"]) + "/dns",
		"/v1/dns/provisioning-runs/" + strings.ToUpper(owned["run_id"]),
		"/v1/integrations/" + strings.ToUpper(owned["integration_id"]),
		fillPath(oauthPath+"/status", map[string]string{"integration_id": strings.ToUpper(owned["integration_id"]), "mailbox_id": strings.ToUpper(owned["mailbox_id"]),
			"session_id": strings.ToUpper(owned["session_id"])}),
		"/v1/tenants/" + owned["tenant_id"] + "/mailboxes/" + strings.ToUpper(owned["mailbox_id"]) + "/usage",
	} {
		got := client.expect(call{method: "GET", path: path, key: env.accountA.key}, 200, "")
		if id, ok := got.body["tenant_id"]; ok && id != owned["tenant_id"] {
			t.Errorf("the answer to %s has the tenant id %v, want %s", path, id, owned["tenant_id"])
		}
	}
}
