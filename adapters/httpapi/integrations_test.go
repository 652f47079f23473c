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
	"github.com/tenantry/tenantry/core/tenant"
)

// sellers is a world in which an account has a mailbox of its own making, and a
// platform that takes the example's credential.
type sellers struct {
	*world
	*api
	at      *fake.SendingPlatform
	mailbox string
}

func newSellers(t *testing.T) sellers {
	t.Helper()
	w := newWorld(t)
	_, m := w.holding(t, w.a)
	w.ours(t, w.a, m)
	return sellers{w, serve(t, w.handler(t)), w.sent, m.ID}
}

// adds creates an integration and returns its path.
func (s sellers) adds(provider string) string {
	s.t.Helper()
	got := s.expect(call{method: "POST", path: sendings, body: creates(provider, "Outbound", ""), key: s.a.key}, 200, "")
	return sendings + "/" + fmt.Sprint(got.body["id"])
}

func creates(provider, name, workspace string) string {
	body := map[string]string{"provider": provider, "name": name, "api_key": sendsWith}
	if workspace != "" {
		body["workspace_id"] = workspace
	}
	raw, _ := json.Marshal(body)
	return string(raw)
}

// members are the names of an object's members.
func members(t testing.TB, got any, want string) {
	t.Helper()
	o, _ := got.(map[string]any)
	var names []string
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	wanted := strings.Fields(want)
	slices.Sort(wanted)
	if !slices.Equal(names, wanted) {
		t.Errorf("members %v, want %v", names, wanted)
	}
}

const integrationMembers = "id provider name provider_workspace_id provider_workspace_name status last_tested_at has_error created_at updated_at capabilities"

// TestIntegrationShapes walks an integration from its addition to its end.
func TestIntegrationShapes(t *testing.T) {
	s := newSellers(t)
	once := call{method: "POST", path: sendings, body: creates("instantly", "Outbound", ""), key: s.a.key, headers: map[string]string{"Idempotency-Key": "once"}}
	made := s.expect(once, 200, "")
	members(t, made.body, integrationMembers)
	members(t, made.body["capabilities"], "microsoft_oauth mailbox_refresh mailbox_disconnect")
	if made.body["provider"] != "instantly" || made.body["name"] != "Outbound" || made.body["status"] != "connected" || made.body["has_error"] != false ||
		made.body["provider_workspace_id"] != "ws-1" || made.body["provider_workspace_name"] != "Workspace 1" || made.header.Get("X-RateLimit-Bucket") != "provider_heavy_writes" {
		t.Errorf("got %s", made.raw)
	}
	if again := s.expect(once, 200, ""); again.raw != made.raw || again.header.Get("Idempotency-Replayed") != "true" || s.at.Calls("Check") != 1 {
		t.Errorf("replayed %s after %d checks", again.raw, s.at.Calls("Check"))
	}
	path := sendings + "/" + fmt.Sprint(made.body["id"])
	list := s.expect(call{method: "GET", path: sendings, key: s.a.key}, 200, "")
	members(t, list.body, "integrations count")
	if list.body["count"] != 1.0 || list.header.Get("X-RateLimit-Bucket") != "read" {
		t.Errorf("listed %s", list.raw)
	}
	members(t, list.body["integrations"].([]any)[0], integrationMembers)
	s.detail(path, `{"total":0,"connected":0,"pending":0,"failed":0,"disconnected":0,"other":0,"has_errors":false}`)
	tested := s.expect(call{method: "POST", path: path + "/test", key: s.a.key}, 200, "")
	members(t, tested.body, "status integration_id provider message tested_at")
	if tested.body["status"] != "connected" || tested.body["message"] == "" || tested.header.Get("X-RateLimit-Bucket") != "provider_heavy_writes" {
		t.Errorf("tested %s", tested.raw)
	}
	eligible := s.expect(call{method: "GET", path: path + "/mailboxes", key: s.a.key}, 200, "")
	members(t, eligible.body, "integration_id mailboxes count")
	one := eligible.body["mailboxes"].([]any)[0].(map[string]any)
	members(t, one, "mailbox_id tenant_id tenant_name domain_name display_name primary_smtp account_enabled managed_by_tenantcore connection")
	if one["connection"] != nil || one["managed_by_tenantcore"] != true || one["mailbox_id"] != s.mailbox || one["tenant_id"] != string(s.a.tenant) || one["tenant_name"] != "Tenant" {
		t.Errorf("eligible %s", eligible.raw)
	}
	deleted := s.expect(call{method: "DELETE", path: path, key: s.a.key, headers: map[string]string{"Idempotency-Key": "gone"}}, 200, "")
	members(t, deleted.body, "status integration_id message")
	if again := s.expect(call{method: "DELETE", path: path, key: s.a.key, headers: map[string]string{"Idempotency-Key": "gone"}}, 200, ""); again.raw != deleted.raw {
		t.Errorf("replayed %s", again.raw)
	}
	s.expect(call{method: "GET", path: path, key: s.a.key}, 404, "integration_not_found")
}

// detail looks at the counts of an integration.
func (s sellers) detail(path, want string) {
	s.t.Helper()
	got := s.expect(call{method: "GET", path: path, key: s.a.key}, 200, "")
	members(s.t, got.body, integrationMembers+" mailbox_connections")
	if !strings.Contains(got.raw, `"mailbox_connections":`+want) || got.header.Get("X-RateLimit-Bucket") != "read" {
		s.t.Errorf("got %s, want %s", got.raw, want)
	}
}

// TestSignInShapes: from the link to a connected mailbox and out again.
func TestSignInShapes(t *testing.T) {
	s := newSellers(t)
	path := s.adds("instantly")
	oauth := path + "/mailboxes/" + s.mailbox + "/oauth/microsoft"
	begun := s.expect(call{method: "POST", path: oauth + "/init", key: s.a.key, headers: map[string]string{"Idempotency-Key": "once"}}, 200, "")
	members(t, begun.body, "status integration_id provider mailbox_id mailbox session_id auth_url expires_at")
	if begun.body["status"] != "pending" || begun.body["mailbox_id"] != s.mailbox || begun.header.Get("X-RateLimit-Bucket") != "provider_heavy_writes" {
		t.Errorf("begun %s", begun.raw)
	}
	if again := s.expect(call{method: "POST", path: oauth + "/init", key: s.a.key, headers: map[string]string{"Idempotency-Key": "once"}}, 200, ""); again.raw != begun.raw || s.at.Calls("StartSignIn") != 1 {
		t.Errorf("replayed %s", again.raw)
	}
	s.expect(call{method: "POST", path: oauth + "/init", key: s.a.key}, 409, "oauth_session_pending")
	s.detail(path, `{"total":1,"connected":0,"pending":1,"failed":0,"disconnected":0,"other":0,"has_errors":false}`)
	elsewhere := s.adds("salesblink")
	s.expect(call{method: "POST", path: elsewhere + "/mailboxes/" + s.mailbox + "/oauth/microsoft/init", key: s.a.key}, 409, "mailbox_already_connected_elsewhere")

	status := oauth + "/status?session_id=" + fmt.Sprint(begun.body["session_id"])
	s.at.Complete(fmt.Sprint(begun.body["auth_url"]), fmt.Sprint(begun.body["mailbox"]), "Ana")
	got := s.expect(call{method: "GET", path: status, key: s.a.key}, 200, "")
	members(t, got.body, "status integration_id mailbox_id session_id provider_account_id provider_account_name connected_at expires_at")
	if got.body["status"] != "connected" || got.body["provider_account_id"] == nil || got.body["provider_account_name"] != "Ana" || got.body["connected_at"] == nil || got.header.Get("X-RateLimit-Bucket") != "provider_heavy" {
		t.Errorf("status %s", got.raw)
	}
	one := s.expect(call{method: "GET", path: path + "/mailboxes", key: s.a.key}, 200, "").body["mailboxes"].([]any)[0].(map[string]any)
	members(t, one["connection"], "id status provider_account_id provider_account_email has_error connected_at updated_at")
	refreshed := s.expect(call{method: "POST", path: path + "/mailboxes/refresh", key: s.a.key}, 200, "")
	members(t, refreshed.body, "integration_id provider checked connected newly_connected unchanged error_count status")
	if !strings.Contains(refreshed.raw, `"checked":1,"connected":1,"newly_connected":0,"unchanged":1,"error_count":0`) {
		t.Errorf("refreshed %s", refreshed.raw)
	}
	gone := s.expect(call{method: "DELETE", path: path + "/mailboxes/" + s.mailbox, key: s.a.key}, 200, "")
	members(t, gone.body, "status integration_id mailbox_id message")
	calls := s.at.Calls("Remove") + s.at.Calls("Account")
	again := s.expect(call{method: "DELETE", path: path + "/mailboxes/" + s.mailbox, key: s.a.key}, 200, "")
	if again.body["status"] != "disconnected" || len(s.at.Held()) != 0 || s.at.Calls("Remove")+s.at.Calls("Account") != calls {
		t.Errorf("disconnected %s", again.raw)
	}
	if again.body["message"] != "The mailbox was not connected: there was nothing to take out." {
		t.Errorf("nobody looked at the platform, yet it says %s", again.raw)
	}
}

// TestStatusNeedsItsSession: the parameter comes before ownership, and a session
// of something else is unknown.
func TestStatusNeedsItsSession(t *testing.T) {
	s := newSellers(t)
	path := s.adds("instantly")
	oauth := path + "/mailboxes/" + s.mailbox + "/oauth/microsoft/status"
	for _, query := range []string{"", "?session_id=", "?session_id=" + nobodysID + "&session_id=" + nobodysID, "?Session_id=" + nobodysID, "?session_id=%ff"} {
		got := s.expect(call{method: "GET", path: oauth + query, key: s.a.key}, 400, "invalid_request")
		if !strings.Contains(got.raw, `"location":"query.session_id"`) {
			t.Errorf("%q: %s", query, got.raw)
		}
		s.expect(call{method: "GET", path: strings.Replace(oauth, path, sendings+"/"+nobodysID, 1) + query, key: s.a.key}, 400, "invalid_request")
	}
	for _, id := range []string{nobodysID, "x", "%2e", strings.Repeat("9", 300)} {
		s.expect(call{method: "GET", path: oauth + "?session_id=" + id, key: s.a.key}, 404, "oauth_session_not_found")
	}
}

// TestWorkspacesToChoose: the refusal lists them, is what a replay says, and
// another key goes on with one of them.
func TestWorkspacesToChoose(t *testing.T) {
	s := newSellers(t)
	s.at.Reach = integration.Reach{Workspaces: []integration.Workspace{{ID: "ws-1", Name: "One <b>"}, {ID: "ws-2", Name: "Two"}}}
	once := call{method: "POST", path: sendings, body: creates("salesblink", "Outbound", ""), key: s.a.key, headers: map[string]string{"Idempotency-Key": "choose"}}
	got := s.expect(once, 400, "salesblink_workspace_required")
	if !strings.Contains(got.raw, `"workspaces":[{"id":"ws-1","name":"One <b>"},{"id":"ws-2","name":"Two"}]`) || strings.Contains(got.raw, sendsWith) {
		t.Errorf("got %s", got.raw)
	}
	if again := s.expect(once, 400, "salesblink_workspace_required"); again.raw != got.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("not replayed: %s", again.raw)
	}
	s.expect(call{method: "POST", path: sendings, body: creates("salesblink", "Outbound", "ws-9"), key: s.a.key}, 400, "salesblink_workspace_required")
	made := s.expect(call{method: "POST", path: sendings, body: creates("salesblink", "Outbound", "ws-1"), key: s.a.key}, 200, "")
	if made.body["provider_workspace_id"] != "ws-1" {
		t.Errorf("got %s", made.raw)
	}
}

// TestRefusedCredentials: at the addition it is refused for good, at a test it is
// an answer; what the caller sent comes back nowhere.
func TestRefusedCredentials(t *testing.T) {
	s := newSellers(t)
	for body, code := range map[string]string{
		`{"provider":"nobody","name":"n","api_key":"` + canary + `"}`:                          "unknown_provider",
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
		if got := s.expect(call{method: "POST", path: sendings, body: body, key: s.a.key}, 400, code); strings.Contains(got.raw, canary) {
			t.Errorf("%s is repeated: %s", canary, got.raw)
		}
	}
	once := call{method: "POST", path: sendings, body: `{"provider":"instantly","name":"n","api_key":"not taken"}`, key: s.a.key, headers: map[string]string{"Idempotency-Key": "refused"}}
	first := s.expect(once, 400, "provider_credential_rejected")
	if again := s.expect(once, 400, "provider_credential_rejected"); again.raw != first.raw || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("not replayed: %s", again.raw)
	}
	path := s.adds("instantly")
	s.at.Fail(fake.Fault{Method: "Check", Kind: outcome.Refused, Code: fault.AccessDenied})
	tested := s.expect(call{method: "POST", path: path + "/test", key: s.a.key}, 200, "")
	detail := s.expect(call{method: "GET", path: path, key: s.a.key}, 200, "")
	if tested.body["status"] != "failed" || tested.body["message"] == "" || detail.body["has_error"] != true || detail.body["status"] != "failed" {
		t.Errorf("tested %s, then %s", tested.raw, detail.raw)
	}
}

// TestTroubleOfSendingPlatforms: each kind of trouble has its code, none of them
// is remembered, and the key goes on when it is over.
func TestTroubleOfSendingPlatforms(t *testing.T) {
	s := newSellers(t)
	path := s.adds("instantly")
	refresh := call{method: "POST", path: path + "/test", key: s.a.key, headers: map[string]string{"Idempotency-Key": "trouble"}}
	for _, tt := range []struct {
		kind   outcome.Kind
		status int
		code   string
	}{
		{outcome.Throttled, 503, "provider_unavailable"}, {outcome.Down, 503, "provider_unavailable"}, {outcome.Broken, 502, "provider_error"},
		{outcome.Unknown, 504, "provider_timeout"},
	} {
		s.at.Fail(fake.Fault{Method: "Check", Kind: tt.kind, Times: 1})
		s.expect(refresh, tt.status, tt.code)
	}
	if got := s.expect(refresh, 200, ""); got.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("replayed %s", got.raw)
	}
}

// TestIntegrationsAreOneAccounts: what one account added no other one sees.
func TestIntegrationsAreOneAccounts(t *testing.T) {
	s := newSellers(t)
	path := s.adds("instantly")
	got := s.expect(call{method: "GET", path: sendings, key: s.b.key}, 200, "")
	if !strings.HasPrefix(got.raw, `{"integrations":[],"count":0}`) {
		t.Errorf("listed %s", got.raw)
	}
	s.expect(call{method: "GET", path: path, key: s.b.key}, 404, "integration_not_found")
	s.expect(call{method: "DELETE", path: path, key: s.b.key}, 404, "integration_not_found")
	s.expect(call{method: "GET", path: path, key: s.a.key}, 200, "")
}

// TestCeilingEndsNewSignIns: an account above its plan's tenants begins no
// session, and everything else of integrations goes on.
func TestCeilingEndsNewSignIns(t *testing.T) {
	s := newSellers(t)
	path := s.adds("instantly")
	s.another(t, s.a, tenant.GUID("cccccccc-0000-4000-8000-000000000003"))
	s.plan(t, s.a, "complete", 1)
	s.expect(call{method: "POST", path: path + "/mailboxes/" + s.mailbox + "/oauth/microsoft/init", key: s.a.key}, 402, "tenant_limit_reached")
	if s.at.Calls("StartSignIn") != 0 || s.at.Calls("Account") != 0 {
		t.Error("the platform was asked")
	}
	s.expect(call{method: "POST", path: path + "/test", key: s.a.key}, 200, "")
	s.expect(call{method: "POST", path: path + "/mailboxes/refresh", key: s.a.key}, 200, "")
	s.expect(call{method: "DELETE", path: path, key: s.a.key}, 200, "")
}
