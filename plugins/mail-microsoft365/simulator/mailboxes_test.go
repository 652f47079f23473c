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

// TestDerivedAliasesCollide creates mailboxes with the same local part on two domains. Without an
// alias parameter both get the same alias, so the second creation fails.
func TestDerivedAliasesCollide(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.addMailDomain("second.example")
	for i, d := range []string{domain, "second.example"} {
		answer := testTenant.runCmdlet("New-Mailbox", jsonObject{"Shared": true, "Name": "kim@" + d, "PrimarySmtpAddress": "kim@" + d})
		if i == 0 && answer.valueAt("value", 0, "Alias") != "kim" {
			t.Fatalf("the first mailbox is %d %s, want the alias kim", answer.status, answer.raw)
		}
		if i == 1 {
			assertGolden(t, "exchange-proxy-address", answer)
		}
	}
}

func TestNewMailboxRefusesTakenAlias(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(jsonObject{"alias_taken": true})
	assertGolden(t, "exchange-proxy-address", testTenant.runCmdlet("New-Mailbox", mailboxParams("bob@"+domain, "bob.d")))
	assertGolden(t, "exchange-proxy-address", testTenant.runCmdlet("New-Mailbox", mailboxParams("bob@"+domain, "bob.d")))
	if answer := testTenant.runCmdlet("New-Mailbox", mailboxParams("bob@"+domain, "bob.d.2")); answer.status != http.StatusOK {
		t.Errorf("another alias: %d %s, want 200", answer.status, answer.raw)
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
		t.Errorf("a refused call left an object behind: %s", answer.raw)
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
		inGraph, inExchange bool // found after five seconds
	}{
		{"Graph and Exchange lag", jsonObject{"mailbox_ms": 10_000}, false, false},
		{"only Exchange lags", jsonObject{"mailbox_ms": 1000, "cas_ms": 10_000}, true, false},
		{"the lag has passed", jsonObject{"mailbox_ms": 1000}, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := newTenantWithMailbox(t)
			testTenant.setBehaviour(tc.behaviour)
			id := testTenant.newMailbox("bob@"+domain, "bob.d")["ExternalDirectoryObjectId"].(string)
			assertGolden(t, "graph-not-found", testTenant.callGraph("PATCH", "/users/"+id, enableWithPassword))
			assertGolden(t, "exchange-not-found", testTenant.runCmdlet("Set-CASMailbox", enableSMTPAuth))
			testTenant.control("POST", "/clock", jsonObject{"advance": "5s"})
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
	read := func() any {
		return testTenant.runCmdlet("Get-CASMailbox", jsonObject{"Identity": "anna@" + domain}).valueAt("value", 0, "SmtpClientAuthenticationDisabled")
	}
	if read() != nil {
		t.Errorf("SMTP AUTH of a new mailbox is %v, want null: it follows the organization", read())
	}
	for _, value := range []any{false, true, nil} {
		answer := testTenant.runCmdlet("Set-CASMailbox", jsonObject{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": value})
		if answer.status != http.StatusOK || read() != value {
			t.Errorf("the value %v: %d %s, and then %v is read, want 200 and the value", value, answer.status, answer.raw, read())
		}
	}
	repeated := testTenant.runCmdlet("Set-CASMailbox", jsonObject{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": nil})
	if len(repeated.valueAt("@adminapi.warnings").([]any)) != 1 {
		t.Errorf("a call that changes nothing does not have exactly one warning: %s", repeated.raw)
	}
	if answer := testTenant.runCmdlet("Get-CASMailbox", jsonObject{}); len(answer.rows()) != 3 {
		t.Errorf("the list does not have three mailboxes: %s", answer.raw)
	}
}

func TestSMTPAuthOfOrganizationCanBeSet(t *testing.T) {
	for _, smtpAuth := range []string{"allowed", "refused"} {
		t.Run(smtpAuth, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant(jsonObject{"smtp_auth": smtpAuth})
			read := func() any {
				return testTenant.runCmdlet("Get-TransportConfig", jsonObject{}).valueAt("value", 0, "SmtpClientAuthenticationDisabled")
			}
			if read() != true {
				t.Error("authenticated SMTP is enabled in a new tenant")
			}
			answer := testTenant.runCmdlet("Set-TransportConfig", jsonObject{"SmtpClientAuthenticationDisabled": false})
			if (answer.status == http.StatusOK) != (smtpAuth == "allowed") || read() != (smtpAuth == "refused") {
				t.Errorf("%s: the answer is %d %s, and disabled is %v", smtpAuth, answer.status, answer.raw, read())
			}
		})
	}
}

func TestRemoveMailboxFreesAddresses(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	id := testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "anna@" + domain}).valueAt("value", 0, "ExternalDirectoryObjectId").(string)
	if answer := testTenant.runCmdlet("Remove-Mailbox", jsonObject{"Identity": "anna@" + domain, "Confirm": false}); answer.status != http.StatusOK {
		t.Fatalf("the answer is %d %s, want 200", answer.status, answer.raw)
	}
	assertGolden(t, "graph-not-found", testTenant.callGraph("GET", "/users/"+id, nil))
	testTenant.newMailbox("anna@"+domain, "anna.d") // the addresses can be used again
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
