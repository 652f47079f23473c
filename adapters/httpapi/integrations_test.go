// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

// integrationEnv is a test environment in which account A has a mailbox that the service
// provisioned. platform is the fake sending platform that accepts exampleAPIKey.
type integrationEnv struct {
	base      *testEnv
	client    *apiClient
	platform  *fake.SendingPlatform
	mailboxID string
}

func newIntegrationEnv(t *testing.T) integrationEnv {
	t.Helper()
	env := newTestEnv(t)
	_, addedMailbox := env.addDomainAndMailbox(t, env.accountA)
	env.markProvisioned(t, env.accountA, addedMailbox)
	return integrationEnv{base: env, client: serve(t, env.handler(t)), platform: env.sendingPlatform, mailboxID: addedMailbox.ID}
}

// addIntegration creates an integration through the API and returns its path.
func (env integrationEnv) addIntegration(provider string) string {
	env.client.t.Helper()
	created := env.client.expect(call{method: "POST", path: integrationsPath, body: integrationBody(provider, ""), key: env.base.accountA.key}, 200, "")
	return integrationsPath + "/" + fmt.Sprint(created.body["id"])
}

// integrationBody returns the body of a request to create an integration. An empty workspace is
// omitted.
func integrationBody(provider, workspace string) string {
	body := map[string]string{"provider": provider, "name": "Outbound", "api_key": exampleAPIKey}
	if workspace != "" {
		body["workspace_id"] = workspace
	}
	raw, _ := json.Marshal(body)
	return string(raw)
}

// checkMemberNames checks that a JSON object has exactly the members whose names are in want.
// Spaces separate the names.
func checkMemberNames(t testing.TB, got any, want string) {
	t.Helper()
	object, _ := got.(map[string]any)
	var names []string
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	wantNames := strings.Fields(want)
	slices.Sort(wantNames)
	if !slices.Equal(names, wantNames) {
		t.Errorf("the members are %v, want %v", names, wantNames)
	}
}

const integrationMembers = "id provider name provider_workspace_id provider_workspace_name status last_tested_at has_error created_at updated_at capabilities"

func TestIntegrationAnswersHaveTheirMembers(t *testing.T) {
	env := newIntegrationEnv(t)
	create := call{method: "POST", path: integrationsPath, body: integrationBody("instantly", ""), key: env.base.accountA.key, headers: map[string]string{"Idempotency-Key": "once"}}
	created := env.client.expect(create, 200, "")
	checkMemberNames(t, created.body, integrationMembers)
	checkMemberNames(t, created.body["capabilities"], "microsoft_oauth mailbox_refresh mailbox_disconnect")
	if created.body["provider"] != "instantly" || created.body["name"] != "Outbound" || created.body["status"] != "connected" || created.body["has_error"] != false ||
		created.body["provider_workspace_id"] != "ws-1" || created.body["provider_workspace_name"] != "Workspace 1" || created.header.Get("X-RateLimit-Bucket") != "provider_heavy_writes" {
		t.Errorf("got %s, want a connected integration with instantly in Workspace 1, counted in provider_heavy_writes", created.raw)
	}
	if repeated := env.client.expect(create, 200, ""); repeated.raw != created.raw || repeated.header.Get("Idempotency-Replayed") != "true" || env.platform.Calls("Check") != 1 {
		t.Errorf("the repetition got %s after %d checks of the credential, want a replay after 1 check", repeated.raw, env.platform.Calls("Check"))
	}
	path := integrationsPath + "/" + fmt.Sprint(created.body["id"])
	listed := env.client.expect(call{method: "GET", path: integrationsPath, key: env.base.accountA.key}, 200, "")
	checkMemberNames(t, listed.body, "integrations count")
	if listed.body["count"] != 1.0 || listed.header.Get("X-RateLimit-Bucket") != "read" {
		t.Errorf("got the list %s, want one integration, counted in read", listed.raw)
	}
	checkMemberNames(t, listed.body["integrations"].([]any)[0], integrationMembers)
	env.checkConnectionCounts(path, `{"total":0,"connected":0,"pending":0,"failed":0,"disconnected":0,"other":0,"has_errors":false}`)
	tested := env.client.expect(call{method: "POST", path: path + "/test", key: env.base.accountA.key}, 200, "")
	checkMemberNames(t, tested.body, "status integration_id provider message tested_at")
	if tested.body["status"] != "connected" || tested.body["message"] == "" || tested.header.Get("X-RateLimit-Bucket") != "provider_heavy_writes" {
		t.Errorf("the test got %s, want the status connected and a message, counted in provider_heavy_writes", tested.raw)
	}
	eligible := env.client.expect(call{method: "GET", path: path + "/mailboxes", key: env.base.accountA.key}, 200, "")
	checkMemberNames(t, eligible.body, "integration_id mailboxes count")
	mailbox := eligible.body["mailboxes"].([]any)[0].(map[string]any)
	checkMemberNames(t, mailbox, "mailbox_id tenant_id tenant_name domain_name display_name primary_smtp account_enabled managed_by_tenantcore connection")
	if mailbox["connection"] != nil || mailbox["managed_by_tenantcore"] != true || mailbox["mailbox_id"] != env.mailboxID || mailbox["tenant_id"] != string(env.base.accountA.tenant) || mailbox["tenant_name"] != "Tenant" {
		t.Errorf("got the mailboxes %s, want the mailbox of account A without a connection", eligible.raw)
	}
	deletion := call{method: "DELETE", path: path, key: env.base.accountA.key, headers: map[string]string{"Idempotency-Key": "gone"}}
	deleted := env.client.expect(deletion, 200, "")
	checkMemberNames(t, deleted.body, "status integration_id message")
	if repeated := env.client.expect(deletion, 200, ""); repeated.raw != deleted.raw {
		t.Errorf("the repeated deletion got %s, want %s", repeated.raw, deleted.raw)
	}
	env.client.expect(call{method: "GET", path: path, key: env.base.accountA.key}, 404, "integration_not_found")
}

// checkConnectionCounts checks the mailbox_connections of an integration. want is the JSON of that
// member.
func (env integrationEnv) checkConnectionCounts(path, want string) {
	env.client.t.Helper()
	got := env.client.expect(call{method: "GET", path: path, key: env.base.accountA.key}, 200, "")
	checkMemberNames(env.client.t, got.body, integrationMembers+" mailbox_connections")
	if !strings.Contains(got.raw, `"mailbox_connections":`+want) || got.header.Get("X-RateLimit-Bucket") != "read" {
		env.client.t.Errorf("got %s, want the connections %s, counted in read", got.raw, want)
	}
}

func TestOAuthAnswersHaveTheirMembers(t *testing.T) {
	env := newIntegrationEnv(t)
	instantlyPath := env.addIntegration("instantly")
	mailboxOAuthPath := instantlyPath + "/mailboxes/" + env.mailboxID + "/oauth/microsoft"
	start := call{method: "POST", path: mailboxOAuthPath + "/init", key: env.base.accountA.key, headers: map[string]string{"Idempotency-Key": "once"}}
	started := env.client.expect(start, 200, "")
	checkMemberNames(t, started.body, "status integration_id provider mailbox_id mailbox session_id auth_url expires_at")
	if started.body["status"] != "pending" || started.body["mailbox_id"] != env.mailboxID || started.header.Get("X-RateLimit-Bucket") != "provider_heavy_writes" {
		t.Errorf("got %s, want a pending session of the mailbox, counted in provider_heavy_writes", started.raw)
	}
	if repeated := env.client.expect(start, 200, ""); repeated.raw != started.raw || env.platform.Calls("StartSignIn") != 1 {
		t.Errorf("the repetition got %s after %d sign-in links, want a replay after 1 link", repeated.raw, env.platform.Calls("StartSignIn"))
	}
	env.client.expect(call{method: "POST", path: mailboxOAuthPath + "/init", key: env.base.accountA.key}, 409, "oauth_session_pending")
	env.checkConnectionCounts(instantlyPath, `{"total":1,"connected":0,"pending":1,"failed":0,"disconnected":0,"other":0,"has_errors":false}`)
	salesblinkPath := env.addIntegration("salesblink")
	env.client.expect(call{method: "POST", path: salesblinkPath + "/mailboxes/" + env.mailboxID + "/oauth/microsoft/init", key: env.base.accountA.key}, 409, "mailbox_already_connected_elsewhere")

	statusPath := mailboxOAuthPath + "/status?session_id=" + fmt.Sprint(started.body["session_id"])
	env.platform.CompleteSignIn(fmt.Sprint(started.body["auth_url"]), fmt.Sprint(started.body["mailbox"]), "Ana")
	status := env.client.expect(call{method: "GET", path: statusPath, key: env.base.accountA.key}, 200, "")
	checkMemberNames(t, status.body, "status integration_id mailbox_id session_id provider_account_id provider_account_name connected_at expires_at")
	if status.body["status"] != "connected" || status.body["provider_account_id"] == nil || status.body["provider_account_name"] != "Ana" || status.body["connected_at"] == nil || status.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Errorf("the status is %s, want connected to the account Ana, counted in provider_heavy", status.raw)
	}
	mailbox := env.client.expect(call{method: "GET", path: instantlyPath + "/mailboxes", key: env.base.accountA.key}, 200, "").body["mailboxes"].([]any)[0].(map[string]any)
	checkMemberNames(t, mailbox["connection"], "id status provider_account_id provider_account_email has_error connected_at updated_at")
	refreshed := env.client.expect(call{method: "POST", path: instantlyPath + "/mailboxes/refresh", key: env.base.accountA.key}, 200, "")
	checkMemberNames(t, refreshed.body, "integration_id provider checked connected newly_connected unchanged error_count status")
	if !strings.Contains(refreshed.raw, `"checked":1,"connected":1,"newly_connected":0,"unchanged":1,"error_count":0`) {
		t.Errorf("the refresh got %s, want one connected and unchanged mailbox", refreshed.raw)
	}
	disconnected := env.client.expect(call{method: "DELETE", path: instantlyPath + "/mailboxes/" + env.mailboxID, key: env.base.accountA.key}, 200, "")
	checkMemberNames(t, disconnected.body, "status integration_id mailbox_id message")
	callsBefore := env.platform.Calls("Remove") + env.platform.Calls("Account")
	repeated := env.client.expect(call{method: "DELETE", path: instantlyPath + "/mailboxes/" + env.mailboxID, key: env.base.accountA.key}, 200, "")
	if repeated.body["status"] != "disconnected" || len(env.platform.AllAccounts()) != 0 || env.platform.Calls("Remove")+env.platform.Calls("Account") != callsBefore {
		t.Errorf("the repeated disconnection got %s, want the status disconnected, no account and no further call", repeated.raw)
	}
	if repeated.body["message"] != "The mailbox was not connected, so nothing was removed." {
		t.Errorf("the repeated disconnection got %s, want the message that nothing was removed", repeated.raw)
	}
}

// TestOAuthStatusRequiresItsSession checks that a missing, repeated or invalid session_id is
// refused before the integration is read, and that an unknown session is not found.
func TestOAuthStatusRequiresItsSession(t *testing.T) {
	env := newIntegrationEnv(t)
	path := env.addIntegration("instantly")
	statusPath := path + "/mailboxes/" + env.mailboxID + "/oauth/microsoft/status"
	for _, query := range []string{"", "?session_id=", "?session_id=" + unknownID + "&session_id=" + unknownID, "?Session_id=" + unknownID, "?session_id=%ff"} {
		got := env.client.expect(call{method: "GET", path: statusPath + query, key: env.base.accountA.key}, 400, "invalid_request")
		if !strings.Contains(got.raw, `"location":"query.session_id"`) {
			t.Errorf("the answer to the query %q does not name session_id: %s", query, got.raw)
		}
		env.client.expect(call{method: "GET", path: strings.Replace(statusPath, path, integrationsPath+"/"+unknownID, 1) + query, key: env.base.accountA.key}, 400, "invalid_request")
	}
	for _, id := range []string{unknownID, "x", "%2e", strings.Repeat("9", 300)} {
		env.client.expect(call{method: "GET", path: statusPath + "?session_id=" + id, key: env.base.accountA.key}, 404, "oauth_session_not_found")
	}
}

// TestWorkspaceMustBeChosen sends a request without a workspace, although the credential has access
// to two workspaces. The refusal lists the workspaces and is replayed. A new request with one of
// the workspaces succeeds.
func TestWorkspaceMustBeChosen(t *testing.T) {
	env := newIntegrationEnv(t)
	env.platform.Reach = integration.Reach{Workspaces: []integration.Workspace{{ID: "ws-1", Name: "One <b>"}, {ID: "ws-2", Name: "Two"}}}
	withoutWorkspace := call{method: "POST", path: integrationsPath, body: integrationBody("salesblink", ""), key: env.base.accountA.key, headers: map[string]string{"Idempotency-Key": "choose"}}
	refused := env.client.expect(withoutWorkspace, 400, "salesblink_workspace_required")
	if !strings.Contains(refused.raw, `"workspaces":[{"id":"ws-1","name":"One <b>"},{"id":"ws-2","name":"Two"}]`) || strings.Contains(refused.raw, exampleAPIKey) {
		t.Errorf("got %s, want both workspaces and no credential", refused.raw)
	}
	if repeated := env.client.expect(withoutWorkspace, 400, "salesblink_workspace_required"); repeated.raw != refused.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the refusal was not replayed: %s", repeated.raw)
	}
	env.client.expect(call{method: "POST", path: integrationsPath, body: integrationBody("salesblink", "ws-9"), key: env.base.accountA.key}, 400, "salesblink_workspace_required")
	created := env.client.expect(call{method: "POST", path: integrationsPath, body: integrationBody("salesblink", "ws-1"), key: env.base.accountA.key}, 200, "")
	if created.body["provider_workspace_id"] != "ws-1" {
		t.Errorf("got %s, want the workspace ws-1", created.raw)
	}
}

// TestRefusedCredentialsAreNotRepeated sends requests for new integrations with an unknown
// provider, a refused credential or an invalid body. No refusal contains the credential. The
// refusal of a credential is replayed. If the platform refuses a stored credential, a test of the
// integration is answered 200 with the status failed.
func TestRefusedCredentialsAreNotRepeated(t *testing.T) {
	env := newIntegrationEnv(t)
	for body, code := range map[string]string{
		`{"provider":"nobody","name":"n","api_key":"` + canary + `"}`:                          "unknown_provider",
		`{"provider":"","name":"n","api_key":"` + canary + `"}`:                                "unknown_provider",
		`{"provider":"instantly","name":"n","api_key":"` + canary + `"}`:                       "provider_credential_rejected",
		`{"provider":"instantly","name":"n","api_key":{"api_key":"` + canary + `"}}`:           "invalid_request",
		`{"provider":"instantly","name":"n","api_key":"{\"unknown\":\"` + canary + `\"}"}`:     "invalid_request",
		`{"provider":"instantly","name":"n","api_key":""}`:                                     "invalid_request",
		`{"provider":"instantly","api_key":"` + canary + `"}`:                                  "invalid_request",
		`{"provider":"instantly","name":"","api_key":"` + canary + `"}`:                        "invalid_request",
		`{"provider":"instantly","name":"a\nb","api_key":"` + canary + `"}`:                    "invalid_request",
		`{"provider":"instantly","name":"n","api_key":"` + canary + `","base_url":"http://x"}`: "invalid_request",
		`{"provider":"instantly","name":"n","api_key":"` + canary + `","workspace_id":1}`:      "invalid_request",
		`{"provider":"instantly","name":"n","api_key":"` + canary + `","workspace_id":null}`:   "invalid_request",
		`{"provider":7,"name":"n","api_key":"` + canary + `"}`:                                 "invalid_request",
	} {
		if got := env.client.expect(call{method: "POST", path: integrationsPath, body: body, key: env.base.accountA.key}, 400, code); strings.Contains(got.raw, canary) {
			t.Errorf("the answer contains the credential %s: %s", canary, got.raw)
		}
	}
	withRefusedCredential := call{method: "POST", path: integrationsPath, body: `{"provider":"instantly","name":"n","api_key":"not taken"}`, key: env.base.accountA.key, headers: map[string]string{"Idempotency-Key": "refused"}}
	refused := env.client.expect(withRefusedCredential, 400, "provider_credential_rejected")
	if repeated := env.client.expect(withRefusedCredential, 400, "provider_credential_rejected"); repeated.raw != refused.raw || repeated.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the refusal was not replayed: %s", repeated.raw)
	}
	path := env.addIntegration("instantly")
	env.platform.Fail(fake.Fault{Method: "Check", Kind: outcome.Refused, Code: fault.AccessDenied})
	tested := env.client.expect(call{method: "POST", path: path + "/test", key: env.base.accountA.key}, 200, "")
	integrationReply := env.client.expect(call{method: "GET", path: path, key: env.base.accountA.key}, 200, "")
	if tested.body["status"] != "failed" || tested.body["message"] == "" || integrationReply.body["has_error"] != true || integrationReply.body["status"] != "failed" {
		t.Errorf("the test got %s and the integration is %s, want the status failed in both", tested.raw, integrationReply.raw)
	}
}

// TestSendingPlatformFailuresMapToProblems checks the status and code of the answer to each failure
// of a sending platform. The answer is not replayed: the same request with the same Idempotency-Key
// succeeds when the platform works again.
func TestSendingPlatformFailuresMapToProblems(t *testing.T) {
	env := newIntegrationEnv(t)
	path := env.addIntegration("instantly")
	testCall := call{method: "POST", path: path + "/test", key: env.base.accountA.key, headers: map[string]string{"Idempotency-Key": "trouble"}}
	for _, tc := range []struct {
		kind       outcome.Kind
		wantStatus int
		wantCode   string
	}{
		{outcome.Throttled, 503, "provider_unavailable"}, {outcome.Down, 503, "provider_unavailable"}, {outcome.Broken, 502, "provider_error"},
		{outcome.Unknown, 504, "provider_timeout"},
	} {
		env.platform.Fail(fake.Fault{Method: "Check", Kind: tc.kind, Times: 1})
		env.client.expect(testCall, tc.wantStatus, tc.wantCode)
	}
	if got := env.client.expect(testCall, 200, ""); got.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("got the replay %s, want a new answer", got.raw)
	}
}

func TestIntegrationsAreVisibleToTheirAccountOnly(t *testing.T) {
	env := newIntegrationEnv(t)
	path := env.addIntegration("instantly")
	listOfB := env.client.expect(call{method: "GET", path: integrationsPath, key: env.base.accountB.key}, 200, "")
	if !strings.HasPrefix(listOfB.raw, `{"integrations":[],"count":0}`) {
		t.Errorf("account B gets %s, want no integrations", listOfB.raw)
	}
	env.client.expect(call{method: "GET", path: path, key: env.base.accountB.key}, 404, "integration_not_found")
	env.client.expect(call{method: "DELETE", path: path, key: env.base.accountB.key}, 404, "integration_not_found")
	env.client.expect(call{method: "GET", path: path, key: env.base.accountA.key}, 200, "")
}

// TestTenantLimitStopsNewOAuthSessions checks that an account with more tenants than its plan
// allows cannot start an OAuth session. The account can still test, refresh and delete the
// integration.
func TestTenantLimitStopsNewOAuthSessions(t *testing.T) {
	env := newIntegrationEnv(t)
	path := env.addIntegration("instantly")
	env.base.attachTenant(t, env.base.accountA, extraTenant)
	env.base.changePlan(t, env.base.accountA, "complete", 1)
	env.client.expect(call{method: "POST", path: path + "/mailboxes/" + env.mailboxID + "/oauth/microsoft/init", key: env.base.accountA.key}, 402, "tenant_limit_reached")
	if calls := env.platform.Calls("StartSignIn") + env.platform.Calls("Account"); calls != 0 {
		t.Errorf("the sending platform was called %d times, want 0", calls)
	}
	env.client.expect(call{method: "POST", path: path + "/test", key: env.base.accountA.key}, 200, "")
	env.client.expect(call{method: "POST", path: path + "/mailboxes/refresh", key: env.base.accountA.key}, 200, "")
	env.client.expect(call{method: "DELETE", path: path, key: env.base.accountA.key}, 200, "")
}
