// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const (
	mailboxMembers = "id display_name primary_smtp user_principal_name mail_nickname account_enabled daily_send_limit sends_today " +
		"sends_today_at blocked_at created_at domain_name tenant_name"
	usageMembers = "mailbox_id primary_smtp display_name account_enabled daily_send_limit sends_today sends_today_at remaining_sends " +
		"is_blocked blocked_at utilization_pct"
)

// TestMailboxesGoFromCreationToALimit creates and lists mailboxes and changes the limit of a
// mailbox. It checks the responses of each step.
func TestMailboxesGoFromCreationToALimit(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(object{"name": "Boxes Ltd"})
	zone := tenant.newVerifiedDomain()
	checkValues(t, tenant.get(tenant.path("/mailboxes")).object, object{"tenant_id": tenant.guid, "mailboxes": "[]", "count": 0})

	created := tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada", "max"))
	checkMembers(t, "provision", created.object, "created_count exists_count failed_count results")
	checkValues(t, created.object, object{"created_count": 2, "exists_count": 0, "failed_count": 0})
	for i, localPart := range []string{"ada", "max"} {
		result := created.objects("results")[i]
		checkMembers(t, "result", result, "status name email details")
		checkMembers(t, "details", result.valueAt("details"), "display_name primary_smtp user_principal_name alias")
		checkValues(t, result, object{"status": "created", "email": localPart + "@" + zone, "details.primary_smtp": localPart + "@" + zone,
			"details.user_principal_name": localPart + "@" + zone, "details.display_name": result["name"]})
	}
	tenant.checkPlatformMailboxes(zone, "ada", "max")

	list := tenant.get(tenant.path("/mailboxes"))
	checkMembers(t, "list", list.object, "tenant_id mailboxes count")
	ada := list.objects("mailboxes")[0]
	checkMembers(t, "mailbox", ada, mailboxMembers)
	checkValues(t, ada, object{"display_name": "Ada", "primary_smtp": "ada@" + zone, "user_principal_name": "ada@" + zone, "account_enabled": true,
		"daily_send_limit": nil, "sends_today": 0, "sends_today_at": nil, "blocked_at": nil, "domain_name": zone, "tenant_name": "Boxes Ltd"})
	tenant.checkUsage(tenant.path("/mailboxes/" + ada.text("id")))
	checkValues(t, tenant.get(tenant.path("")).object, object{"mailbox_count": 2, "readiness.mailboxes_total": 2, "readiness.ready_to_provision": true})
}

// checkPlatformMailboxes checks that the platform has as many mailboxes as localParts. All must be
// in this zone, be enabled and have a password.
func (tenant accountTenant) checkPlatformMailboxes(zone string, localParts ...string) {
	tenant.t.Helper()
	atPlatform := tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("mailboxes")
	if len(atPlatform) != len(localParts) {
		tenant.t.Errorf("the platform has %v, want %v", atPlatform, localParts)
	}
	for _, m := range atPlatform {
		if m["enabled"] != true || m["password_set"] != true || !strings.HasSuffix(m.text("address"), "@"+zone) {
			tenant.t.Errorf("a mailbox at the platform is disabled, has no password or is in another domain: %v", m)
		}
	}
}

// checkUsage changes the mailbox at path step by step and checks its usage.
func (tenant accountTenant) checkUsage(path string) {
	t := tenant.t
	t.Helper()
	usage := tenant.get(path + "/usage")
	checkMembers(t, "usage", usage.object, usageMembers)
	checkValues(t, usage.object, object{"daily_send_limit": nil, "sends_today": 0, "sends_today_at": nil, "remaining_sends": nil,
		"utilization_pct": nil, "is_blocked": false, "blocked_at": nil})

	limited := tenant.expect("PATCH", path, object{"daily_send_limit": 20}, 200, "")
	checkMembers(t, "update", limited.object, "status mailbox")
	checkMembers(t, "updated mailbox", limited.valueAt("mailbox"), "id display_name primary_smtp daily_send_limit sends_today sends_today_at account_enabled")
	checkValues(t, limited.object, object{"status": "updated", "mailbox.daily_send_limit": 20, "mailbox.display_name": "Ada", "mailbox.sends_today_at": nil})
	checkValues(t, tenant.get(path+"/usage").object, object{"daily_send_limit": 20, "remaining_sends": 20, "utilization_pct": 0})

	renamed := tenant.expect("PATCH", path, object{"display_name": "Ada K.", "daily_send_limit": 25}, 200, "")
	checkValues(t, renamed.object, object{"mailbox.display_name": "Ada K.", "mailbox.daily_send_limit": 25})
	checkValues(t, tenant.get(path+"/usage").object, object{"display_name": "Ada K.", "daily_send_limit": 25})
	tenant.mustSync() // the sync must not change what the service stored
	checkValues(t, tenant.get(path+"/usage").object, object{"display_name": "Ada K.", "daily_send_limit": 25})
}

// TestDomainHasAtMostThreeMailboxes checks that existing addresses need no further slot, and that
// the limit applies to concurrent requests.
func TestDomainHasAtMostThreeMailboxes(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	var requests sync.WaitGroup
	answers := make([]reply, 5)
	for i := range answers {
		requests.Go(func() {
			body := mailboxesBody(zone, "a"+string(rune('a'+i)), "b"+string(rune('a'+i)))
			answers[i], _ = tenant.retryWhileUnavailable(rand.Text(), "POST", tenant.path("/mailboxes"), tenant.key, body)
		})
	}
	requests.Wait()
	firstCreated := "" // the first address of the request that succeeded
	for _, got := range answers {
		switch {
		case got.status == http.StatusOK && got.text("created_count") == "2" && firstCreated == "":
			firstCreated = got.objects("results")[0].text("email")
		case got.status != 400 || got.code() != "mailbox_limit_reached":
			t.Errorf("a request is answered %d %s, want one success, and mailbox_limit_reached for all other requests", got.status, got.raw)
		}
	}
	if firstCreated == "" {
		t.Fatal("no request created its two mailboxes, want one")
	}
	localPart, _, _ := strings.Cut(firstCreated, "@")
	thirdMailbox := tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, localPart, "third"))
	checkValues(t, thirdMailbox.object, object{"created_count": 1, "exists_count": 1})
	checkMembers(t, "existing", thirdMailbox.objects("results")[0], "status name email details")
	checkValues(t, thirdMailbox.objects("results")[0], object{"status": "exists", "email": firstCreated})
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "fourth"), 400, "mailbox_limit_reached")
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, localPart, "fourth"), 400, "mailbox_limit_reached")
	tenant.expect("POST", tenant.path("/mailboxes"), mailboxesBody(zone, "w", "x", "y", "z"), 400, "mailbox_limit_reached")
	if n := tenant.get(tenant.path("/mailboxes")).valueAt("count"); n != 3.0 {
		t.Errorf("the API counts %v mailboxes, want 3", n)
	}
	if atPlatform := tenant.control("GET", "/tenants/"+tenant.guid, nil).objects("mailboxes"); len(atPlatform) != 3 {
		t.Errorf("the platform has %d mailboxes, want 3", len(atPlatform))
	}
}

func TestInvalidMailboxRequestsAreRefused(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	unverified := tenant.newZone()
	tenant.post(tenant.path("/domains"), object{"domain": unverified})
	withMember := func(member string, value any) object {
		body := mailboxesBody(zone, "ada")
		body[member] = value
		return body
	}
	withAddress := func(email string) object {
		return withMember("mailboxes", []object{{"name": "A", "email": email}})
	}
	for _, tc := range []struct {
		name   string
		body   any
		status int
		code   string
	}{
		{"an address in another domain", withAddress("ada@example.com"), 400, "invalid_mailbox_email"},
		{"an address without a domain", withAddress("ada"), 400, "invalid_mailbox_email"},
		{"an address in a subdomain", withAddress("ada@sub." + zone), 400, "invalid_mailbox_email"},
		{"a bad local part", withAddress("a b@" + zone), 400, "invalid_mailbox_email"},
		{"two dots", withAddress("a..b@" + zone), 400, "invalid_mailbox_email"},
		{"no local part", withAddress("@" + zone), 400, "invalid_mailbox_email"},
		{"the same address twice", mailboxesBody(zone, "ada", "ADA"), 400, "duplicate_mailbox_email"},
		{"a short password", withMember("account_password", "Aa1!Aa1"), 400, "weak_password"},
		{"a password with two character classes", withMember("account_password", "abcdefgh1"), 400, "weak_password"},
		{"a long password", withMember("account_password", "Aa1!"+strings.Repeat("x", 253)), 400, "weak_password"},
		{"an unverified domain", mailboxesBody(unverified, "ada"), 400, "domain_not_verified"},
		{"an unknown domain", mailboxesBody("unknown.example", "ada"), 404, "domain_not_found"},
		{"an invalid domain", withMember("domain", "no domain"), 404, "domain_not_found"},
		{"a missing password", object{"domain": zone, "mailboxes": mailboxesBody(zone, "ada")["mailboxes"]}, 400, "invalid_request"},
		{"a password of the wrong type", withMember("account_password", 12345678), 400, "invalid_request"},
		{"a domain of the wrong type", withMember("domain", nil), 400, "invalid_request"},
		{"no mailboxes", withMember("mailboxes", []object{}), 400, "invalid_request"},
		{"a mailbox without a name", withMember("mailboxes", []object{{"email": "ada@" + zone}}), 400, "invalid_request"},
		{"an unknown member", withMember("licence", "E5"), 400, "invalid_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tenant.withT(t).expect("POST", tenant.path("/mailboxes"), tc.body, tc.status, tc.code)
			if body, ok := tc.body.(object); ok {
				if password, ok := body["account_password"].(string); ok && strings.Contains(string(got.raw), password) {
					t.Error("the answer contains the password")
				}
			}
		})
	}
	checkValues(t, tenant.get(tenant.path("/mailboxes")).object, object{"count": 0})
}

func TestInvalidMailboxChangesAreRefused(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "ada"))
	path := tenant.path("/mailboxes/" + tenant.get(tenant.path("/mailboxes")).objects("mailboxes")[0].text("id"))
	for _, limit := range []string{"0", "26", "-1", "2.5", "5.0", "1e1", `"5"`, "null", "true", "[]", "99999999999999999999"} {
		tenant.expect("PATCH", path, json.RawMessage(`{"daily_send_limit":`+limit+`}`), 400, "invalid_send_limit")
	}
	tenant.expect("PATCH", path, object{"display_name": "A", "daily_send_limit": 0}, 400, "invalid_send_limit")
	tenant.expect("PATCH", path, object{}, 400, "no_updates")
	tenant.expect("PATCH", path, object{"unknown": 1}, 400, "no_updates")
	tenant.expect("PATCH", path, object{"unknown": 1, "daily_send_limit": 5}, 400, "invalid_request")
	tenant.expect("PATCH", path, object{"display_name": 7}, 400, "invalid_request")
	tenant.expect("PATCH", path, object{"display_name": ""}, 400, "invalid_request")
	tenant.expect("PATCH", path, []int{1}, 400, "invalid_request")
	for _, limit := range []int{1, 25} {
		checkValues(t, tenant.expect("PATCH", path, object{"daily_send_limit": limit}, 200, "").object, object{"mailbox.daily_send_limit": limit})
	}
}

// TestRefusedMailboxIsAFailedItem checks that a mailbox which the platform refuses permanently is a
// failed item in a successful response.
func TestRefusedMailboxIsAFailedItem(t *testing.T) {
	t.Parallel()
	tenant := sharedSandbox(t).newAccount(nil).newConnectedTenant(nil)
	zone := tenant.newVerifiedDomain()
	tenant.setBehaviour(object{"cmdlets": object{"New-Mailbox": object{"exception": object{
		"id": "", "type": "Microsoft.Exchange.Configuration.Tasks.ManagementObjectAlreadyExistsException",
		"text": "The proxy address \"SMTP:taken@" + zone + "\" is already being used by the proxy addresses or LegacyExchangeDN of \"another\". Please choose another proxy address."}}}})
	got := tenant.post(tenant.path("/mailboxes"), mailboxesBody(zone, "taken"))
	checkValues(t, got.object, object{"created_count": 0, "exists_count": 0, "failed_count": 1})
	result := got.objects("results")[0]
	checkMembers(t, "failed item", result, "status name email details error")
	checkMembers(t, "its error", result.valueAt("error"), "code message")
	checkValues(t, result, object{"status": "failed", "email": "taken@" + zone})
}
