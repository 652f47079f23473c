// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

const integrationMembers = "id provider name provider_workspace_id provider_workspace_name status last_tested_at has_error created_at updated_at capabilities"

// TestIntegrationGoesFromAdditionToDeletion adds, tests, refreshes and deletes an integration with
// each platform, and checks the responses.
func TestIntegrationGoesFromAdditionToDeletion(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t)
	forEachPlatform(t, "mailbox_refresh", func(t *testing.T, name string) {
		t.Parallel()
		integration := c.withT(t).newMailboxTenant("ada", "max", "lise").addIntegration(name)
		detail := integration.get(integration.path(""))
		checkMembers(t, "detail", detail.object, integrationMembers+" mailbox_connections")
		checkMembers(t, "capabilities", detail.valueAt("capabilities"), "microsoft_oauth mailbox_refresh mailbox_disconnect")
		checkMembers(t, "mailbox_connections", detail.valueAt("mailbox_connections"), "total connected pending failed disconnected other has_errors")
		checkValues(t, detail.object, object{"id": integration.id, "provider": integration.provider, "name": "Outbound " + integration.provider, "status": "connected", "has_error": false,
			"mailbox_connections.total": 0, "mailbox_connections.has_errors": false})
		for _, capability := range []string{"microsoft_oauth", "mailbox_refresh", "mailbox_disconnect"} {
			if integration.capabilities[capability] != expectedCapabilities[name][capability] {
				t.Errorf("the capability %s is %v, want %v", capability, integration.capabilities[capability], expectedCapabilities[name][capability])
			}
		}
		if integration.capabilities["microsoft_oauth"] != true {
			integration.expect("POST", integration.mailboxPath(0, "/oauth/microsoft/init"), nil, 409, "capability_not_supported")
		}
		list := integration.get("/v1/integrations")
		checkMembers(t, "list", list.object, "integrations count")
		checkValues(t, list.object, object{"count": 1})
		checkMembers(t, "entry", map[string]any(list.objects("integrations")[0]), integrationMembers)

		tested := integration.post(integration.path("/test"), nil)
		checkMembers(t, "test", tested.object, "status integration_id provider message tested_at")
		checkValues(t, tested.object, object{"status": "connected", "integration_id": integration.id, "provider": integration.provider})

		eligible := integration.get(integration.path("/mailboxes"))
		checkMembers(t, "eligible", eligible.object, "integration_id mailboxes count")
		checkValues(t, eligible.object, object{"integration_id": integration.id, "count": 3})
		eligibleMailbox := eligible.objects("mailboxes")[0]
		checkMembers(t, "mailbox", eligibleMailbox, "mailbox_id tenant_id tenant_name domain_name display_name primary_smtp account_enabled managed_by_tenantcore connection")
		checkValues(t, eligibleMailbox, object{"tenant_id": integration.guid, "display_name": "Ada", "account_enabled": true, "managed_by_tenantcore": true, "connection": nil})

		refreshed := integration.refresh(object{"integration_id": integration.id, "provider": integration.provider, "checked": 3, "connected": 0, "newly_connected": 0, "unchanged": 3, "error_count": 0})
		checkMembers(t, "refresh", refreshed.object, "integration_id provider checked connected newly_connected unchanged error_count status")

		disconnected := integration.expect("DELETE", integration.mailboxPath(0, ""), nil, 200, "")
		checkMembers(t, "disconnect", disconnected.object, "status integration_id mailbox_id message")
		checkValues(t, disconnected.object, object{"status": "disconnected", "mailbox_id": integration.mailboxes[0].text("id")})

		deleted := integration.expect("DELETE", integration.path(""), nil, 200, "")
		checkMembers(t, "delete", deleted.object, "status integration_id message")
		checkValues(t, deleted.object, object{"status": "deleted", "integration_id": integration.id})
		integration.expect("GET", integration.path(""), nil, 404, "integration_not_found")
		checkValues(t, integration.get("/v1/integrations").object, object{"count": 0, "integrations": "[]"})
	})
}

// TestCredentialsAreTestedBeforeStoring checks that a request to add an integration is refused if
// the platform rejects the credential. The error lists the workspaces if there is a choice.
func TestCredentialsAreTestedBeforeStoring(t *testing.T) {
	t.Parallel()
	c := mailboxTenant{accountTenant: accountTenant{caller: sharedSandbox(t).newAccount(nil)}}
	for _, provider := range sendingPlatforms {
		validBody, body := c.integrationBody(provider), object{"provider": provider, "name": "n", "api_key": "no-such-key"}
		if provider == "emailbison" {
			host, _, _ := strings.Cut(fmt.Sprint(validBody["api_key"]), "#")
			body["api_key"] = host + "#9|no-such-token"
		}
		c.expect("POST", "/v1/integrations", body, 400, "provider_credential_rejected")
	}
	stored := 0
	for provider, code := range map[string]string{"plusvibe": "plusvibe_workspace_required", "salesblink": "salesblink_workspace_required"} {
		body := c.integrationBody(provider)
		chosen := body["workspace_id"]
		if chosen == nil {
			continue // the sandbox lists no workspaces of the customer
		}
		for _, wrong := range []any{nil, "no-such-workspace"} {
			delete(body, "workspace_id")
			if wrong != nil {
				body["workspace_id"] = wrong
			}
			got := c.expect("POST", "/v1/integrations", body, 400, code)
			listed := got.objects("workspaces")
			if len(listed) < 2 || listed[0]["id"] != chosen {
				t.Errorf("%s: the refusal is %s, want at least 2 workspaces, first %v", provider, got.raw, chosen)
			}
			checkMembers(t, "workspace", listed[0], "id name")
		}
		body["workspace_id"] = chosen
		created := c.post("/v1/integrations", body)
		stored++
		checkValues(t, created.object, object{"provider_workspace_id": chosen})
	}
	if stored == 0 {
		t.Error("the sandbox lists no workspaces, want the workspaces of a customer at plusvibe or salesblink")
	}
	for _, body := range []object{{"provider": "nobody", "name": "n", "api_key": "k"}, {"provider": "cloudflare", "name": "n", "api_key": "k"},
		{"provider": "microsoft365", "name": "n", "api_key": "k"}, {"provider": "Instantly", "name": "n", "api_key": "k"}} {
		got := c.expect("POST", "/v1/integrations", body, 400, "unknown_provider")
		if !strings.Contains(got.text("detail"), "emailbison, instantly, plusvibe, salesblink, smartlead.") {
			t.Errorf("the detail does not name the known providers: %s", got.raw)
		}
	}
	c.expect("POST", "/v1/integrations", object{"provider": "instantly", "name": "n", "api_key": `{"api_key":"a","no_field":"b"}`}, 400, "invalid_request")
	checkValues(t, c.get("/v1/integrations").object, object{"count": stored})
}

// TestAddedSendingPlatformOffersItsWorkspaces checks a platform that the operator added. The API
// has no error code for a missing workspace of this platform, so the refusal is invalid_request at
// workspace_id. The refusal lists the workspaces.
func TestAddedSendingPlatformOffersItsWorkspaces(t *testing.T) {
	t.Parallel()
	_, ready := startDev(t, requirePrograms(t, releaseBuild), t.TempDir(), nil, "--plugin", testserver.Program(t, "testdata/go-sending"))
	c := seededAccount(t, ready)
	workspaces := []object{{"id": "ws-1", "name": "One"}, {"id": "ws-2", "name": "Two"}}
	c.control("PUT", "/sending/example/keys/key-of-two", object{"workspaces": workspaces})
	body := object{"provider": "example", "name": "n", "api_key": "key-of-two"}
	got := c.expect("POST", "/v1/integrations", body, http.StatusBadRequest, "invalid_request")
	listed := got.objects("workspaces")
	if len(listed) != len(workspaces) || listed[1].text("id") != "ws-2" || got.objects("errors")[0].text("location") != "body.workspace_id" {
		t.Errorf("the refusal is %s, want both workspaces and the location body.workspace_id", got.raw)
	}
	body["workspace_id"] = "ws-2"
	checkValues(t, c.post("/v1/integrations", body).object, object{"provider_workspace_id": "ws-2", "provider_workspace_name": "Two"})
}

// sendingSandboxes returns a constructor of a sandbox for each database.
func sendingSandboxes(t *testing.T) map[string]func(t *testing.T) caller {
	t.Helper()
	return map[string]func(t *testing.T) caller{
		"sqlite":   func(t *testing.T) caller { return newSendingSandbox(t) },
		"postgres": func(t *testing.T) caller { return newSendingSandbox(t, "--database", testserver.Database(t)) },
	}
}

// TestMailboxConnectionsChangeTheirStatus checks the status of sessions and connections while
// mailboxes are connected and disconnected, at each platform with OAuth.
func TestMailboxConnectionsChangeTheirStatus(t *testing.T) {
	t.Parallel()
	for name, start := range sendingSandboxes(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			forEachPlatform(t, "microsoft_oauth", func(t *testing.T, name string) {
				t.Parallel()
				integration := c.withT(t).newMailboxTenant("ada", "max", "lise").addIntegration(name)
				integration.checkConnect()
				if integration.provider == "instantly" { // only Instantly reports that a sign-in failed
					integration.checkFailedSignIns()
				}
				integration.checkMissedChanges()
				integration.checkDisconnect()
			})
		})
	}
}

// checkConnect connects a mailbox and checks the requests that are refused while its session is
// pending.
func (i testIntegration) checkConnect() {
	i.t.Helper()
	session := i.beginSession(0)
	checkMembers(i.t, "init", session.answer.object, "status integration_id provider mailbox_id mailbox session_id auth_url expires_at")
	checkValues(i.t, session.answer.object, object{"status": "pending", "integration_id": i.id, "provider": i.provider, "mailbox": i.address(0)})
	i.expect("POST", i.mailboxPath(0, "/oauth/microsoft/init"), nil, 409, "oauth_session_pending")
	pending := i.get(session.statusPath())
	checkMembers(i.t, "status", pending.object, "status integration_id mailbox_id session_id provider_account_id provider_account_name connected_at expires_at")
	checkValues(i.t, pending.object, object{"status": "pending", "session_id": session.id, "provider_account_id": nil, "connected_at": nil, "expires_at": session.answer.object["expires_at"]})
	i.checkConnection(0, "pending")
	checkValues(i.t, i.get(i.path("")).object, object{"mailbox_connections.total": 1, "mailbox_connections.pending": 1})

	atOtherPlatform := i.addIntegration("smartlead")
	secondIntegration := i.addIntegration("instantly")
	atOtherPlatform.expect("POST", atOtherPlatform.mailboxPath(0, "/oauth/microsoft/init"), nil, 409, "capability_not_supported")
	secondIntegration.expect("POST", secondIntegration.mailboxPath(0, "/oauth/microsoft/init"), nil, 409, "mailbox_already_connected_elsewhere")

	session.signIn(i.address(0), "accept")
	connected := session.waitForStatus("connected")
	if connected.object["provider_account_id"] == nil || connected.object["connected_at"] == nil {
		i.t.Errorf("the connected session lacks the platform's account or the time: %s", connected.raw)
	}
	connection := i.checkConnection(0, "connected")
	checkMembers(i.t, "connection", connection, "id status provider_account_id provider_account_email has_error connected_at updated_at")
	checkValues(i.t, connection, object{"provider_account_email": i.address(0), "has_error": false, "connected_at": connected.object["connected_at"]})
	secondIntegration.expect("POST", secondIntegration.mailboxPath(0, "/oauth/microsoft/init"), nil, 409, "mailbox_already_connected_elsewhere")
	for _, unused := range []testIntegration{atOtherPlatform, secondIntegration} {
		unused.expect("DELETE", unused.path(""), nil, 200, "")
	}
}

// checkFailedSignIns lets a person decline, and a different person sign in. Afterwards a new
// session is possible.
func (i testIntegration) checkFailedSignIns() {
	i.t.Helper()
	session := i.beginSession(0)
	session.signIn(i.address(0), "deny")
	session.waitForStatus("failed")
	i.checkConnection(0, "connected") // a failed session keeps the existing connection

	for _, attempt := range [][2]string{{i.address(1), "deny"}, {"stranger@elsewhere.test", "accept"}} {
		s := i.beginSession(1)
		s.signIn(attempt[0], attempt[1])
		s.waitForStatus("failed")
		s.waitForStatus("failed") // the status is final
		i.checkConnection(1, "failed")
		checkValues(i.t, i.get(i.path("")).object, object{"mailbox_connections.failed": 1, "mailbox_connections.connected": 1})
	}
	if i.hasAccount(1) {
		i.t.Error("a failed sign-in created an account at the platform")
	}
	i.connectMailbox(1)
	i.checkConnection(1, "connected")
}

// checkMissedChanges changes connections without requests to the service. A refresh finds the
// changes.
func (i testIntegration) checkMissedChanges() {
	i.t.Helper()
	i.postponeBackgroundRefresh()
	s := i.beginSession(2)
	s.signIn(i.address(2), "accept") // the popup is closed without a status request
	i.refresh(object{"checked": 3, "newly_connected": 1})
	i.checkConnection(2, "connected")
	s.waitForStatus("connected")

	i.editPlatformAccount("DELETE", 2, nil)
	i.refresh(object{"checked": 3, "newly_connected": 0})
	i.checkConnection(2, "disconnected")
	i.connectMailbox(2)
}

// checkDisconnect disconnects a mailbox. If the platform cannot disconnect, checkDisconnect first
// checks the error and removes the account at the platform.
func (i testIntegration) checkDisconnect() {
	i.t.Helper()
	if i.capabilities["mailbox_disconnect"] != true {
		i.expect("DELETE", i.mailboxPath(0, ""), nil, 409, "capability_not_supported")
		i.checkConnection(0, "connected")
		i.editPlatformAccount("DELETE", 0, nil)
	}
	i.expect("DELETE", i.mailboxPath(0, ""), nil, 200, "")
	i.checkConnection(0, "disconnected")
	if i.hasAccount(0) {
		i.t.Error("the account is still at the platform")
	}
	callsBefore := i.countCalls(0)
	i.expect("DELETE", i.mailboxPath(0, ""), nil, 200, "")
	if now := i.countCalls(0); now != callsBefore {
		i.t.Errorf("the platform was called %d times more for a disconnected mailbox", now-callsBefore)
	}
	i.expect("DELETE", i.path(""), nil, 200, "") // mailbox 2 is still connected
	laterIntegration := i.addIntegration("instantly")
	laterIntegration.connectMailbox(2)
	laterIntegration.checkConnection(2, "connected")
}
