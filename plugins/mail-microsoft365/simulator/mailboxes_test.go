// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestNewMailbox(t *testing.T) {
	tn := ready(t)
	row := tn.newMailbox("bob.b@"+domain, "bob.d")
	for name, want := range (m{"Name": "bob.b@" + domain, "Alias": "bob.d", "PrimarySmtpAddress": "bob.b@" + domain,
		"UserPrincipalName": "bob.b@" + domain, "RecipientTypeDetails": "SharedMailbox", "IsShared": true, "AccountDisabled": true}) {
		if row[name] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	addresses, _ := row["EmailAddresses"].([]any)
	if !slices.Equal(addresses, []any{"SMTP:bob.b@" + domain, "smtp:bob.d@" + tn.initial()}) {
		t.Errorf("%v", addresses)
	}
	for _, identity := range []string{"bob.b@" + domain, "BOB.B@" + domain, "bob.d", row["ExternalDirectoryObjectId"].(string),
		row["Guid"].(string), "bob.d@" + tn.initial()} {
		if a := tn.exchange("Get-Mailbox", m{"Identity": identity}); a.at("value", 0, "Guid") != row["Guid"] {
			t.Errorf("%s finds %s", identity, a.raw)
		}
	}
}

// TestSameLocalPartOnTwoDomains is the classic failure: without an alias it is
// derived, and the derived aliases collide.
func TestSameLocalPartOnTwoDomains(t *testing.T) {
	tn := ready(t)
	tn.addDomain("second.example")
	for i, d := range []string{domain, "second.example"} {
		a := tn.exchange("New-Mailbox", m{"Shared": true, "Name": "kim@" + d, "PrimarySmtpAddress": "kim@" + d})
		if i == 0 && a.at("value", 0, "Alias") != "kim" {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		if i == 1 {
			golden(t, "exchange-proxy-address", a)
		}
	}
}

func TestAliasTaken(t *testing.T) {
	tn := ready(t)
	tn.behave(m{"alias_taken": true})
	golden(t, "exchange-proxy-address", tn.exchange("New-Mailbox", box("bob@"+domain, "bob.d")))
	golden(t, "exchange-proxy-address", tn.exchange("New-Mailbox", box("bob@"+domain, "bob.d")))
	if a := tn.exchange("New-Mailbox", box("bob@"+domain, "bob.d.2")); a.status != http.StatusOK {
		t.Errorf("another alias: %d %s", a.status, a.raw)
	}
}

func TestNewMailboxRefusals(t *testing.T) {
	tn := ready(t)
	for name, change := range map[string]m{
		"name too long":       {"Name": strings.Repeat("x", 65)},
		"name not ASCII":      {"Name": "jürgen"},
		"name empty":          {"Name": ""},
		"alias too long":      {"Alias": strings.Repeat("x", 65)},
		"alias with a space":  {"Alias": "a b"},
		"alias ends in a dot": {"Alias": "a."},
		"two dots":            {"Alias": "a..b"},
		"not shared":          {"Shared": false},
		"own sign-in name":    {"MicrosoftOnlineServicesID": "x@" + domain},
	} {
		params := box("new@"+domain, "new.d")
		for k, v := range change {
			params[k] = v
		}
		if a := tn.exchange("New-Mailbox", params); a.status != http.StatusBadRequest || a.at("error", "message") != "Invalid Operation" {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	if a := tn.exchange("New-Mailbox", box("new@"+domain, "new.d")); a.status != http.StatusOK {
		t.Errorf("the refused ones left something behind: %s", a.raw)
	}
}

func TestSignInNameByAlias(t *testing.T) {
	tn := ready(t)
	tn.behave(m{"upn_alias": true})
	if row := tn.newMailbox("bob@"+domain, "bob.d"); row["UserPrincipalName"] != "bob.d@"+tn.initial() {
		t.Errorf("%v", row["UserPrincipalName"])
	}
}

func TestMailboxLags(t *testing.T) {
	submission := m{"Identity": "bob@" + domain, "SmtpClientAuthenticationDisabled": false}
	for _, tt := range []struct {
		name          string
		behaviour     m
		graph, submit bool // visible after five seconds
	}{
		{"both lag", m{"mailbox_ms": 10_000}, false, false},
		{"only sending lags", m{"mailbox_ms": 1000, "cas_ms": 10_000}, true, false},
		{"both are there", m{"mailbox_ms": 1000}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := ready(t)
			tn.behave(tt.behaviour)
			id := tn.newMailbox("bob@"+domain, "bob.d")["ExternalDirectoryObjectId"].(string)
			golden(t, "graph-not-found", tn.graph("PATCH", "/users/"+id, openAccount))
			golden(t, "exchange-not-found", tn.exchange("Set-CASMailbox", submission))
			tn.control("POST", "/clock", m{"advance": "5s"})
			if a := tn.graph("PATCH", "/users/"+id, openAccount); (a.status == http.StatusNoContent) != tt.graph {
				t.Errorf("Graph: %d %s", a.status, a.raw)
			}
			if a := tn.exchange("Set-CASMailbox", submission); (a.status == http.StatusOK) != tt.submit {
				t.Errorf("Set-CASMailbox: %d %s", a.status, a.raw)
			}
		})
	}
}

func TestSubmission(t *testing.T) {
	tn := ready(t)
	read := func() any {
		return tn.exchange("Get-CASMailbox", m{"Identity": "anna@" + domain}).at("value", 0, "SmtpClientAuthenticationDisabled")
	}
	if read() != nil {
		t.Errorf("a new mailbox does not follow the organization: %v", read())
	}
	for _, value := range []any{false, true, nil} {
		a := tn.exchange("Set-CASMailbox", m{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": value})
		if a.status != http.StatusOK || read() != value {
			t.Errorf("%v: %d %s, read %v", value, a.status, a.raw, read())
		}
	}
	again := tn.exchange("Set-CASMailbox", m{"Identity": "anna@" + domain, "SmtpClientAuthenticationDisabled": nil})
	if len(again.at("@adminapi.warnings").([]any)) != 1 {
		t.Errorf("%s", again.raw)
	}
	if a := tn.exchange("Get-CASMailbox", m{}); len(a.rows()) != 3 {
		t.Errorf("%s", a.raw)
	}
}

func TestOrganizationSMTPAuth(t *testing.T) {
	for _, may := range []string{"allowed", "refused"} {
		t.Run(may, func(t *testing.T) {
			tn := start(t).connected(m{"smtp_auth": may})
			read := func() any {
				return tn.exchange("Get-TransportConfig", m{}).at("value", 0, "SmtpClientAuthenticationDisabled")
			}
			if read() != true {
				t.Error("it is on from the start")
			}
			a := tn.exchange("Set-TransportConfig", m{"SmtpClientAuthenticationDisabled": false})
			if (a.status == http.StatusOK) != (may == "allowed") || read() != (may == "refused") {
				t.Errorf("%d %s, read %v", a.status, a.raw, read())
			}
		})
	}
}

func TestRemoveMailbox(t *testing.T) {
	tn := ready(t)
	id := tn.exchange("Get-Mailbox", m{"Identity": "anna@" + domain}).at("value", 0, "ExternalDirectoryObjectId").(string)
	if a := tn.exchange("Remove-Mailbox", m{"Identity": "anna@" + domain, "Confirm": false}); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	golden(t, "graph-not-found", tn.graph("GET", "/users/"+id, nil))
	tn.newMailbox("anna@"+domain, "anna.d") // the addresses are free again
}
