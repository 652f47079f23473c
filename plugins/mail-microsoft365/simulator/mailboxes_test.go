// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// mailboxParams returns the parameters of New-Mailbox for a shared mailbox.
func mailboxParams(address, alias string) jsonObject {
	return jsonObject{"Shared": true, "Name": address, "DisplayName": "x", "Alias": alias, "PrimarySmtpAddress": address}
}

func TestNewMailboxIsFoundByAllIdentities(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	row := testTenant.newMailbox("bob.b@"+domain, "bob.d")
	for name, want := range (jsonObject{"Name": "bob.b@" + domain, "Alias": "bob.d", "PrimarySmtpAddress": "bob.b@" + domain,
		"UserPrincipalName": "bob.b@" + domain, "RecipientTypeDetails": "SharedMailbox", "IsShared": true, "AccountDisabled": true}) {
		if row[name] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	addresses, _ := row["EmailAddresses"].([]any)
	if !slices.Equal(addresses, []any{"SMTP:bob.b@" + domain, "smtp:bob.d@" + testTenant.initialDomain()}) {
		t.Errorf("the addresses are %v, want the primary one and one at the initial domain", addresses)
	}
	for _, identity := range []string{"bob.b@" + domain, "BOB.B@" + domain, "bob.d", row["ExternalDirectoryObjectId"].(string),
		row["Guid"].(string), "bob.d@" + testTenant.initialDomain()} {
		if answer := testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": identity}); answer.valueAt("value", 0, "Guid") != row["Guid"] {
			t.Errorf("the identity %s finds %s, want the new mailbox", identity, answer.raw)
		}
	}
}

// TestDerivedAliasesCollide creates mailboxes with the same local part in two domains. Without the
// parameter Alias, the alias is the local part, so the second creation fails.
func TestDerivedAliasesCollide(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.addMailDomain("second.example")
	create := func(address string) response {
		return testTenant.runCmdlet("New-Mailbox", jsonObject{"Shared": true, "Name": address, "PrimarySmtpAddress": address})
	}
	if answer := create("kim@" + domain); answer.valueAt("value", 0, "Alias") != "kim" {
		t.Fatalf("the first mailbox is %d %s, want the alias kim", answer.status, answer.raw)
	}
	assertGolden(t, "exchange-proxy-address", create("kim@second.example"))
}

// TestNewMailboxRefusesTakenAlias uses the setting alias_taken, with which the alias of the next
// mailbox is taken by an object that is not a mailbox. The alias stays taken.
func TestNewMailboxRefusesTakenAlias(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(jsonObject{"alias_taken": true})
	assertGolden(t, "exchange-proxy-address", testTenant.runCmdlet("New-Mailbox", mailboxParams("bob@"+domain, "bob.d")))
	assertGolden(t, "exchange-proxy-address", testTenant.runCmdlet("New-Mailbox", mailboxParams("bob@"+domain, "bob.d")))
	if answer := testTenant.runCmdlet("New-Mailbox", mailboxParams("bob@"+domain, "bob.d.2")); answer.status != http.StatusOK {
		t.Errorf("New-Mailbox with a different alias: %d %s, want 200", answer.status, answer.raw)
	}
}

func TestNewMailboxRefusesInvalidParameters(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	for name, change := range map[string]jsonObject{
		"name too long":         {"Name": strings.Repeat("x", 65)},
		"name not ASCII":        {"Name": "jürgen"},
		"name empty":            {"Name": ""},
		"alias too long":        {"Alias": strings.Repeat("x", 65)},
		"alias with a space":    {"Alias": "a b"},
		"alias ends in a dot":   {"Alias": "a."},
		"two dots":              {"Alias": "a..b"},
		"not shared":            {"Shared": false},
		"unsupported parameter": {"MicrosoftOnlineServicesID": "x@" + domain},
	} {
		params := mailboxParams("new@"+domain, "new.d")
		maps.Copy(params, change)
		if answer := testTenant.runCmdlet("New-Mailbox", params); answer.status != http.StatusBadRequest || answer.valueAt("error", "message") != "Invalid Operation" {
			t.Errorf("%s: %d %s, want 400 Invalid Operation", name, answer.status, answer.raw)
		}
	}
	if answer := testTenant.runCmdlet("New-Mailbox", mailboxParams("new@"+domain, "new.d")); answer.status != http.StatusOK {
		t.Errorf("after the refused calls, New-Mailbox answers %d %s, want 200", answer.status, answer.raw)
	}
}

func TestSignInNameFollowsSetting(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(jsonObject{"upn_alias": true})
	if row := testTenant.newMailbox("bob@"+domain, "bob.d"); row["UserPrincipalName"] != "bob.d@"+testTenant.initialDomain() {
		t.Errorf("the sign-in name is %v, want the alias at the initial domain", row["UserPrincipalName"])
	}
}

func TestMailboxIsVisibleAfterLag(t *testing.T) {
	enableSMTPAuth := jsonObject{"Identity": "bob@" + domain, "SmtpClientAuthenticationDisabled": false}
	for _, tc := range []struct {
		name                string
		behaviour           jsonObject
		inGraph, inExchange bool // whether the mailbox is found after 30 minutes
	}{
		{"Graph and Exchange lag", jsonObject{"mailbox_ms": 3_600_000}, false, false},
		{"only Exchange lags", jsonObject{"mailbox_ms": 600_000, "cas_ms": 3_600_000}, true, false},
		{"the lag has passed", jsonObject{"mailbox_ms": 600_000}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := newTenantWithMailbox(t)
			testTenant.setBehaviour(tc.behaviour)
			id := testTenant.newMailbox("bob@"+domain, "bob.d")["ExternalDirectoryObjectId"].(string)
			assertGolden(t, "graph-not-found", testTenant.callGraph("PATCH", "/users/"+id, enableWithPassword))
			assertGolden(t, "exchange-not-found", testTenant.runCmdlet("Set-CASMailbox", enableSMTPAuth))
			testTenant.control("POST", "/clock", jsonObject{"advance": "30m"})
			if answer := testTenant.callGraph("PATCH", "/users/"+id, enableWithPassword); (answer.status == http.StatusNoContent) != tc.inGraph {
				t.Errorf("Graph: %d %s, want found: %v", answer.status, answer.raw, tc.inGraph)
			}
			if answer := testTenant.runCmdlet("Set-CASMailbox", enableSMTPAuth); (answer.status == http.StatusOK) != tc.inExchange {
				t.Errorf("Set-CASMailbox: %d %s, want found: %v", answer.status, answer.raw, tc.inExchange)
			}
		})
	}
}

func TestSMTPAuthOfMailboxCanBeSet(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	readDisabled := func() any {
		return testTenant.runCmdlet("Get-CASMailbox", jsonObject{"Identity": "anna@" + domain}).valueAt("value", 0, "SmtpClientAuthenticationDisabled")
	}
	if readDisabled() != nil {
		t.Errorf("SMTP AUTH of a new mailbox is %v, want null, with which the setting of the organization applies", readDisabled())
	}
	for _, value := range []any{false, true, nil} {
		answer := testTenant.runCmdlet("Set-CASMailbox", jsonObject{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": value})
		if answer.status != http.StatusOK || readDisabled() != value {
			t.Errorf("the value %v: %d %s, and then %v is read, want 200 and the value", value, answer.status, answer.raw, readDisabled())
		}
	}
	repeated := testTenant.runCmdlet("Set-CASMailbox", jsonObject{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": nil})
	if len(repeated.valueAt("@adminapi.warnings").([]any)) != 1 {
		t.Errorf("a call that changes nothing answers %s, want exactly one warning", repeated.raw)
	}
	if answer := testTenant.runCmdlet("Get-CASMailbox", jsonObject{}); len(answer.rows()) != 3 {
		t.Errorf("Get-CASMailbox lists %s, want three mailboxes", answer.raw)
	}
}

func TestSMTPAuthOfOrganizationCanBeSet(t *testing.T) {
	for _, smtpAuth := range []string{"allowed", "refused"} {
		t.Run(smtpAuth, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant(jsonObject{"smtp_auth": smtpAuth})
			readDisabled := func() any {
				return testTenant.runCmdlet("Get-TransportConfig", jsonObject{}).valueAt("value", 0, "SmtpClientAuthenticationDisabled")
			}
			if readDisabled() != true {
				t.Error("SMTP AUTH is enabled in a new tenant, want it disabled")
			}
			answer := testTenant.runCmdlet("Set-TransportConfig", jsonObject{"SmtpClientAuthenticationDisabled": false})
			if (answer.status == http.StatusOK) != (smtpAuth == "allowed") || readDisabled() != (smtpAuth == "refused") {
				t.Errorf("the answer is %d %s, and disabled is then %v, want the change %s", answer.status, answer.raw, readDisabled(), smtpAuth)
			}
		})
	}
}

func TestRemoveMailboxFreesAddresses(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	id := testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "anna@" + domain}).valueAt("value", 0, "ExternalDirectoryObjectId").(string)
	if answer := testTenant.runCmdlet("Remove-Mailbox", jsonObject{"Identity": "anna@" + domain, "Confirm": false}); answer.status != http.StatusOK {
		t.Fatalf("Remove-Mailbox answers %d %s, want 200", answer.status, answer.raw)
	}
	assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/users/"+id, nil))
	testTenant.newMailbox("anna@"+domain, "anna.d") // fails the test if an address is still taken
}

// TestMailboxAtInternationalDomain creates a mailbox in a domain whose top level is an A-label,
// which contains dashes and may contain digits.
func TestMailboxAtInternationalDomain(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.addMailDomain("xn--e1afmkfd.xn--p1ai")
	if row := testTenant.newMailbox("kim@xn--e1afmkfd.xn--p1ai", "kim.i"); row["PrimarySmtpAddress"] != "kim@xn--e1afmkfd.xn--p1ai" {
		t.Errorf("the mailbox is %v, want the address at the international domain", row)
	}
}
