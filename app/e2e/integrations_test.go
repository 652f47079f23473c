// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

const integrationMembers = "id provider name provider_workspace_id provider_workspace_name status last_tested_at has_error created_at updated_at capabilities"

// TestIntegrationShapes walks an integration with each platform from its
// addition to its end.
func TestIntegrationShapes(t *testing.T) {
	t.Parallel()
	c := common(t)
	eachPlatform(t, "mailbox_refresh", func(t *testing.T, name string) {
		t.Parallel()
		i := c.with(t).connectable("ada", "max", "lise").integrates(name)
		detail := i.get(i.path(""))
		has(t, "detail", detail.object, integrationMembers+" mailbox_connections")
		has(t, "capabilities", detail.at("capabilities"), "microsoft_oauth mailbox_refresh mailbox_disconnect")
		has(t, "mailbox_connections", detail.at("mailbox_connections"), "total connected pending failed disconnected other has_errors")
		sees(t, detail.object, object{"id": i.id, "provider": i.provider, "name": "Outbound " + i.provider, "status": "connected", "has_error": false,
			"mailbox_connections.total": 0, "mailbox_connections.has_errors": false})
		for _, capability := range []string{"microsoft_oauth", "mailbox_refresh", "mailbox_disconnect"} {
			if i.can[capability] != promised[name][capability] {
				t.Errorf("%s is %v", capability, i.can[capability])
			}
		}
		if i.can["microsoft_oauth"] != true {
			i.expect("POST", i.mailbox(0, "/oauth/microsoft/init"), nil, 409, "capability_not_supported")
		}
		list := i.get("/v1/integrations")
		has(t, "list", list.object, "integrations count")
		sees(t, list.object, object{"count": 1})
		has(t, "entry", map[string]any(list.objects("integrations")[0]), integrationMembers)

		tested := i.post(i.path("/test"), nil)
		has(t, "test", tested.object, "status integration_id provider message tested_at")
		sees(t, tested.object, object{"status": "connected", "integration_id": i.id, "provider": i.provider})

		eligible := i.get(i.path("/mailboxes"))
		has(t, "eligible", eligible.object, "integration_id mailboxes count")
		sees(t, eligible.object, object{"integration_id": i.id, "count": 3})
		one := eligible.objects("mailboxes")[0]
		has(t, "mailbox", one, "mailbox_id tenant_id tenant_name domain_name display_name primary_smtp account_enabled managed_by_tenantcore connection")
		sees(t, one, object{"tenant_id": i.guid, "display_name": "Ada", "account_enabled": true, "managed_by_tenantcore": true, "connection": nil})

		refreshed := i.refreshes(object{"integration_id": i.id, "provider": i.provider, "checked": 3, "connected": 0, "newly_connected": 0, "unchanged": 3, "error_count": 0})
		has(t, "refresh", refreshed.object, "integration_id provider checked connected newly_connected unchanged error_count status")

		never := i.expect("DELETE", i.mailbox(0, ""), nil, 200, "")
		has(t, "disconnect", never.object, "status integration_id mailbox_id message")
		sees(t, never.object, object{"status": "disconnected", "mailbox_id": i.mailboxes[0].text("id")})

		gone := i.expect("DELETE", i.path(""), nil, 200, "")
		has(t, "delete", gone.object, "status integration_id message")
		sees(t, gone.object, object{"status": "deleted", "integration_id": i.id})
		i.expect("GET", i.path(""), nil, 404, "integration_not_found")
		sees(t, i.get("/v1/integrations").object, object{"count": 0, "integrations": "[]"})
	})
}

// TestCredentialsAreTestedFirst: what the platform does not take is not stored,
// and a choice of workspaces is offered.
func TestCredentialsAreTestedFirst(t *testing.T) {
	t.Parallel()
	c := connectable{holding: holding{caller: common(t).newCaller(nil)}}
	for _, provider := range sendingNames {
		good, body := c.credentialAt(provider), object{"provider": provider, "name": "n", "api_key": "no-such-key"}
		if provider == "emailbison" {
			host, _, _ := strings.Cut(fmt.Sprint(good["api_key"]), "#")
			body["api_key"] = host + "#9|no-such-token"
		}
		c.expect("POST", "/v1/integrations", body, 400, "provider_credential_rejected")
	}
	for provider, code := range map[string]string{"plusvibe": "plusvibe_workspace_required", "salesblink": "salesblink_workspace_required"} {
		body := c.credentialAt(provider)
		chosen := body["workspace_id"]
		if chosen == nil {
			continue // its customer has one workspace
		}
		for _, wrong := range []any{nil, "no-such-workspace"} {
			delete(body, "workspace_id")
			if wrong != nil {
				body["workspace_id"] = wrong
			}
			got := c.expect("POST", "/v1/integrations", body, 400, code)
			listed := got.objects("workspaces")
			if len(listed) < 2 || listed[0]["id"] != chosen {
				t.Errorf("%s offers %s", provider, got.raw)
			}
			has(t, "workspace", listed[0], "id name")
		}
		body["workspace_id"] = chosen
		made := c.post("/v1/integrations", body)
		sees(t, made.object, object{"provider_workspace_id": chosen})
	}
	for _, body := range []object{{"provider": "nobody", "name": "n", "api_key": "k"}, {"provider": "cloudflare", "name": "n", "api_key": "k"},
		{"provider": "microsoft365", "name": "n", "api_key": "k"}, {"provider": "Instantly", "name": "n", "api_key": "k"}} {
		c.expect("POST", "/v1/integrations", body, 400, "unknown_provider")
	}
	c.expect("POST", "/v1/integrations", object{"provider": "instantly", "name": "n", "api_key": `{"api_key":"a","no_field":"b"}`}, 400, "invalid_request")
}

// connecting are the databases on which mailboxes are connected.
func connecting(t *testing.T) map[string]func(t *testing.T) caller {
	t.Helper()
	return map[string]func(t *testing.T) caller{
		"sqlite":   func(t *testing.T) caller { return startSending(t) },
		"postgres": func(t *testing.T) caller { return startSending(t, "--database", testserver.Database(t)) },
	}
}

// TestMailboxesConnect walks sessions and connections through all their states,
// at each platform that has OAuth.
func TestMailboxesConnect(t *testing.T) {
	t.Parallel()
	for name, start := range connecting(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			eachPlatform(t, "microsoft_oauth", func(t *testing.T, name string) {
				t.Parallel()
				i := c.with(t).connectable("ada", "max", "lise").integrates(name)
				i.connects()
				if i.provider == "instantly" { // which alone tells how a session went
					i.fails()
				}
				i.missed()
				i.leaves()
			})
		})
	}
}

// connects is the way as it should be, with what is refused meanwhile.
func (i integrated) connects() {
	i.t.Helper()
	s := i.begins(0)
	has(i.t, "init", s.answer.object, "status integration_id provider mailbox_id mailbox session_id auth_url expires_at")
	sees(i.t, s.answer.object, object{"status": "pending", "integration_id": i.id, "provider": i.provider, "mailbox": i.address(0)})
	i.expect("POST", i.mailbox(0, "/oauth/microsoft/init"), nil, 409, "oauth_session_pending")
	pending := i.get(s.statusPath())
	has(i.t, "status", pending.object, "status integration_id mailbox_id session_id provider_account_id provider_account_name connected_at expires_at")
	sees(i.t, pending.object, object{"status": "pending", "session_id": s.id, "provider_account_id": nil, "connected_at": nil, "expires_at": s.answer.object["expires_at"]})
	i.stands(0, "pending")
	sees(i.t, i.get(i.path("")).object, object{"mailbox_connections.total": 1, "mailbox_connections.pending": 1})

	elsewhere := i.integrates("smartlead")
	same := i.integrates("instantly")
	elsewhere.expect("POST", elsewhere.mailbox(0, "/oauth/microsoft/init"), nil, 409, "capability_not_supported")
	same.expect("POST", same.mailbox(0, "/oauth/microsoft/init"), nil, 409, "mailbox_already_connected_elsewhere")

	s.signsIn(i.address(0), "accept")
	done := s.becomes("connected")
	if done.object["provider_account_id"] == nil || done.object["connected_at"] == nil {
		i.t.Errorf("connected as %s", done.raw)
	}
	c := i.stands(0, "connected")
	has(i.t, "connection", c, "id status provider_account_id provider_account_email has_error connected_at updated_at")
	sees(i.t, c, object{"provider_account_email": i.address(0), "has_error": false, "connected_at": done.object["connected_at"]})
	same.expect("POST", same.mailbox(0, "/oauth/microsoft/init"), nil, 409, "mailbox_already_connected_elsewhere")
	for _, other := range []integrated{elsewhere, same} {
		other.expect("DELETE", other.path(""), nil, 200, "")
	}
}

// fails is a person who declines, and one who is somebody else; then the way is
// free for another session.
func (i integrated) fails() {
	i.t.Helper()
	again := i.begins(0)
	again.signsIn(i.address(0), "deny")
	again.becomes("failed")
	i.stands(0, "connected") // as it was: nothing was taken away

	for _, attempt := range [][2]string{{i.address(1), "deny"}, {"stranger@elsewhere.test", "accept"}} {
		s := i.begins(1)
		s.signsIn(attempt[0], attempt[1])
		s.becomes("failed")
		s.becomes("failed") // which is final
		i.stands(1, "failed")
		sees(i.t, i.get(i.path("")).object, object{"mailbox_connections.failed": 1, "mailbox_connections.connected": 1})
	}
	if i.held(1) {
		i.t.Error("the mailbox is at the platform")
	}
	i.signs(1)
	i.stands(1, "connected")
}

// missed is what happened while nobody looked, which a refresh finds.
func (i integrated) missed() {
	i.t.Helper()
	s := i.begins(2)
	s.signsIn(i.address(2), "accept") // and the popup is closed
	i.refreshes(object{"checked": 3, "newly_connected": 1})
	i.stands(2, "connected")
	s.becomes("connected")

	i.byHand("DELETE", 2, nil)
	i.refreshes(object{"checked": 3, "newly_connected": 0})
	i.stands(2, "disconnected")
	i.signs(2)
}

// leaves takes mailboxes out of the platform, or finds that it cannot.
func (i integrated) leaves() {
	i.t.Helper()
	if i.can["mailbox_disconnect"] != true {
		i.expect("DELETE", i.mailbox(0, ""), nil, 409, "capability_not_supported")
		i.stands(0, "connected")
		i.byHand("DELETE", 0, nil)
	}
	i.expect("DELETE", i.mailbox(0, ""), nil, 200, "")
	i.stands(0, "disconnected")
	if i.held(0) {
		i.t.Error("the account is still at the platform")
	}
	asked := i.askedAbout(0)
	i.expect("DELETE", i.mailbox(0, ""), nil, 200, "")
	if now := i.askedAbout(0); now != asked {
		i.t.Errorf("what is disconnected was asked for %d times more", now-asked)
	}
	i.expect("DELETE", i.path(""), nil, 200, "") // with mailbox 2 connected
	other := i.integrates("instantly")
	other.signs(2)
	other.stands(2, "connected")
}
