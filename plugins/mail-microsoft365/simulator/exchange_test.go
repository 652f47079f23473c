// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// ready is a tenant with an accepted domain and one mailbox.
func ready(t *testing.T) *tenant {
	t.Helper()
	tn := start(t).connected()
	tn.addDomain(domain)
	tn.newMailbox("anna@"+domain, "anna.d")
	return tn
}

func TestExchangeErrors(t *testing.T) {
	usual := ready(t)
	for _, tt := range []struct {
		name   string
		before m // behaviour
		cmdlet string
		params any
		golden string
	}{
		{"unknown parameter", nil, "Get-Mailbox", m{"Bogus": 1}, "exchange-unknown-parameter"},
		{"unknown parameter before a missing one", nil, "Set-Mailbox", m{"Bogus": 1}, "exchange-unknown-parameter"},
		{"text for a boolean", nil, "Set-TransportConfig", m{"SmtpClientAuthenticationDisabled": "no"}, "exchange-wrong-type"},
		{"number for a text", nil, "Get-Mailbox", m{"Identity": 5}, "exchange-wrong-type"},
		{"no address", nil, "New-Mailbox", m{"Shared": true, "Name": "x", "PrimarySmtpAddress": "not an address"}, "exchange-wrong-type"},
		{"no member of the enumeration", nil, "Get-Mailbox", m{"RecipientTypeDetails": []string{"Pigeonhole"}}, "exchange-wrong-type"},
		{"mailbox not found", nil, "Get-Mailbox", m{"Identity": "nobody@" + domain}, "exchange-not-found"},
		{"mailbox of another kind", nil, "Get-Mailbox", m{"Identity": "anna@" + domain, "RecipientTypeDetails": "UserMailbox"}, "exchange-not-found"},
		{"nothing to change", nil, "Set-Mailbox", m{"Identity": "nobody@" + domain, "DisplayName": "x"}, "exchange-not-found"},
		{"nothing to remove", nil, "Remove-Mailbox", m{"Identity": "nobody@" + domain, "Confirm": false}, "exchange-not-found"},
		{"primary address taken", nil, "New-Mailbox", box("anna@"+domain, "other"), "exchange-proxy-address"},
		{"alias taken", nil, "New-Mailbox", box("bob@"+domain, "anna.d"), "exchange-proxy-address"},
		{"alias taken by the administrator", nil, "New-Mailbox", box("admin@"+domain, "admin"), "exchange-proxy-address"},
		{"name taken", nil, "New-Mailbox", m{"Shared": true, "Name": "anna@" + domain, "Alias": "n", "PrimarySmtpAddress": "n@" + domain}, "exchange-name-taken"},
		{"domain not accepted", nil, "New-Mailbox", box("a@elsewhere.example", "a.e"), "exchange-not-accepted"},
		{"DKIM configuration not found", nil, "Get-DkimSigningConfig", m{"Identity": domain}, "exchange-not-found"},
		{"DKIM of an unknown domain", nil, "New-DkimSigningConfig", m{"DomainName": "elsewhere.example", "Enabled": false}, "exchange-not-found"},
		{"CNAME records missing", nil, "New-DkimSigningConfig", m{"DomainName": domain, "Enabled": true}, "exchange-no-cname"},
		{"already customized", nil, "Enable-OrganizationCustomization", m{}, "exchange-already-hydrated"},
		{"any exception", scripts(m{"Get-Mailbox": m{"exception": m{"id": "Ex6F9304", "text": "The operation couldn't be performed because object 'x' couldn't be found on 'y'.",
			"type": "Microsoft.Exchange.Configuration.Tasks.ManagementObjectNotFoundException"}}}), "Get-Mailbox", m{}, "exchange-not-found"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := usual
			if tt.before != nil {
				tn = ready(t)
				tn.behave(tt.before)
			}
			golden(t, tt.golden, tn.exchange(tt.cmdlet, tt.params))
		})
	}
}

func scripts(cmdlets m) m { return m{"cmdlets": cmdlets} }

func box(address, alias string) m {
	return m{"Shared": true, "Name": address, "DisplayName": "x", "Alias": alias, "PrimarySmtpAddress": address}
}

func TestExchangeGrants(t *testing.T) {
	for _, tt := range []struct {
		name   string
		revoke string
		before m
		header func(*tenant) http.Header
		status int
		nul    bool
	}{
		{name: "both grants", status: 200},
		{name: "no app role", revoke: "app_role", status: 401},
		{name: "no directory role", revoke: "exchange_role", status: 403, nul: true},
		{name: "no directory role, without NUL bytes", revoke: "exchange_role", before: m{"nul_403": false}, status: 403},
		{name: "a token for Graph", header: func(tn *tenant) http.Header { return bearer(tn.token(graphScope)) }, status: 401},
		{name: "no token", header: func(*tenant) http.Header { return http.Header{} }, status: 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tn := start(t).connected()
			if tt.revoke != "" {
				tn.revoke(tt.revoke)
			}
			if tt.before != nil {
				tn.behave(tt.before)
			}
			header := bearer(tn.token(exchangeScope))
			if tt.header != nil {
				header = tt.header(tn)
			}
			a := tn.exchangeWith(header, "", "Get-OrganizationConfig", m{})
			if a.status != tt.status {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			if nul := bytes.Equal(a.raw, make([]byte, 4096)); nul != tt.nul || nul && a.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("%d bytes of %s", len(a.raw), a.header.Get("Content-Type"))
			}
		})
	}
}

// TestUnknownCmdlet: what the role does not allow, or is there no more, is
// refused like a missing role.
func TestUnknownCmdlet(t *testing.T) {
	tn := start(t).connected()
	for _, name := range []string{"Get-Everything", "", "Get-MessageTrace", "New-InboundConnector", "New-RoleGroup"} {
		if a := tn.exchange(name, m{}); a.status != http.StatusForbidden {
			t.Errorf("%q: %d %s", name, a.status, a.raw)
		}
	}
	if a := tn.exchange("gEt-oRgAnIzAtIoNcOnFiG", m{}); a.status != http.StatusOK {
		t.Errorf("cmdlets are named in any case: %d", a.status)
	}
}

func TestExchangeTenantInThePath(t *testing.T) {
	s := start(t)
	tn, other := s.connected(), s.connected()
	post := func(tenant string) answer {
		return s.do("POST", s.ready.Settings["exchange_url"]+"/adminapi/v1.0/"+tenant+"/InvokeCommand",
			bearer(tn.token(exchangeScope)), `{"CmdletInput":{"CmdletName":"Get-OrganizationConfig","Parameters":{}}}`)
	}
	golden(t, "exchange-unknown-tenant", post("11111111-2222-4333-8444-555555555555"))
	if a := post(other.id); a.status != http.StatusUnauthorized {
		t.Errorf("another tenant: %d", a.status)
	}
	for _, name := range []string{tn.id, tn.initial()} {
		if a := post(name); a.at("value", 0, "Name") != tn.initial() {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
}

func TestUnreadableCommands(t *testing.T) {
	tn := start(t).connected()
	for _, body := range []string{"", "[]", `{"CmdletInput":{"CmdletName":"Get-Mailbox","Parameters":null}}`,
		`{"CmdletInput":{"CmdletName":"Get-Mailbox"}}`} {
		a := tn.do("POST", tn.ready.Settings["exchange_url"]+"/adminapi/beta/"+tn.id+"/InvokeCommand", bearer(tn.token(exchangeScope)), body)
		if a.status != 400 && a.status != 403 {
			t.Errorf("%s: %d %s", body, a.status, a.raw)
		}
	}
}

func TestEnvelope(t *testing.T) {
	tn := ready(t)
	a := tn.exchange("Get-OrganizationConfig", m{})
	warnings, isList := a.at("@adminapi.warnings").([]any)
	if !isList || len(warnings) != 0 || a.at("adminapi.warnings@odata.type") != "#Collection(String)" ||
		!strings.Contains(a.at("@odata.context").(string), "#Collection(Exchange.GenericHashTable)") {
		t.Errorf("%s", a.raw)
	}
	if a.at("value", 0, "WhenChanged@data.type") != "System.DateTime" || a.at("value", 0, "IsDehydrated") != false {
		t.Errorf("%s", a.raw)
	}
	row := tn.exchange("Get-Mailbox", m{"Identity": "anna@" + domain}).at("value", 0).(m)
	if row["EmailAddresses@odata.type"] != "#Collection(String)" || row["RecipientLimits@data.type"] != "System.Int32" {
		t.Errorf("sidecars: %v", row)
	}
	selected := tn.exchangeWith(bearer(tn.token(exchangeScope)), "?$select=Name,WhenMailboxCreated", "Get-Mailbox", m{"Identity": "anna@" + domain})
	if len(selected.at("value", 0).(m)) != 3 {
		t.Errorf("$select: %s", selected.raw)
	}
	empty := tn.exchange("Set-Mailbox", m{"Identity": "anna@" + domain, "DisplayName": "New"})
	if rows, isList := empty.at("value").([]any); empty.status != http.StatusOK || !isList || len(rows) != 0 {
		t.Errorf("%s", empty.raw)
	}
	again := tn.exchange("Set-Mailbox", m{"Identity": "anna@" + domain, "DisplayName": "New"})
	if text, _ := again.at("@adminapi.warnings", 0).(string); !strings.HasPrefix(text, "The command completed successfully but no settings of") {
		t.Errorf("%s", again.raw)
	}
}

func TestExchangePaging(t *testing.T) {
	tn := ready(t)
	tn.behave(m{"page_size": 2})
	first := tn.exchange("Get-Mailbox", m{"ResultSize": "Unlimited"})
	link, _ := first.at("@odata.nextLink").(string)
	if len(first.rows()) != 2 || link == "" || len(first.at("@adminapi.warnings").([]any)) != 1 {
		t.Fatalf("%s", first.raw)
	}
	follow := func() answer {
		return tn.do("POST", link, bearer(tn.token(exchangeScope)), `{"CmdletInput":{"CmdletName":"Get-Mailbox","Parameters":{"ResultSize":"Unlimited"}}}`)
	}
	if second := follow(); len(second.rows()) != 1 || second.at("@odata.nextLink") != nil {
		t.Errorf("%s", second.raw)
	}
	tn.behave(m{"next_link": "expired"})
	golden(t, "exchange-paging", follow())

	header := bearer(tn.token(exchangeScope))
	header.Set("Prefer", "odata.maxpagesize=1")
	if a := tn.exchangeWith(header, "", "Get-Mailbox", m{}); len(a.rows()) != 1 {
		t.Errorf("Prefer: %s", a.raw)
	}
	if a := tn.exchange("Get-Mailbox", m{"ResultSize": 1}); len(a.rows()) != 1 || a.at("@odata.nextLink") != nil {
		t.Errorf("ResultSize: %s", a.raw)
	}
}

// TestEnumPrefix: a value that only begins a member is taken and finds
// nothing.
func TestEnumPrefix(t *testing.T) {
	tn := ready(t)
	for value, want := range map[string]int{"SharedMailbox": 1, "sharedmailbox": 1, "Shared": 0, "UserMailbox": 1, "DiscoveryMailbox": 1} {
		a := tn.exchange("Get-Mailbox", m{"RecipientTypeDetails": []string{value}, "ResultSize": "Unlimited"})
		if a.status != http.StatusOK || len(a.rows()) != want {
			t.Errorf("%s: %d %s", value, a.status, a.raw)
		}
	}
	system := tn.exchange("Get-Mailbox", m{"RecipientTypeDetails": "DiscoveryMailbox"})
	if system.at("value", 0, "ExternalDirectoryObjectId") != "" {
		t.Errorf("%s", system.raw)
	}
}

func TestModuleFile(t *testing.T) {
	tn := start(t).connected()
	read := func() answer {
		return tn.do("GET", tn.ready.Settings["exchange_url"]+"/adminapi/v1.0/"+tn.id+"/EXOModuleFile?Version=3.9.2",
			bearer(tn.token(exchangeScope)), "")
	}
	if list, _ := read().at("value", 0, "exportedCmdlets").(string); !slices.Contains(strings.Split(list, ","), "New-Mailbox") {
		t.Errorf("%q", list)
	}
	tn.revoke("exchange_role")
	if a := read(); a.status != http.StatusForbidden {
		t.Errorf("%d", a.status)
	}
}
