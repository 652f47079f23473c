// SPDX-License-Identifier: Apache-2.0

package simulator_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCmdletsReturnDocumentedExceptions(t *testing.T) {
	sharedTenant := newTenantWithMailbox(t) // of all cases that change no setting
	for _, tc := range []struct {
		name      string
		behaviour jsonObject // settings to change before the call
		cmdlet    string
		params    any
		golden    string
	}{
		{"unknown parameter", nil, "Get-Mailbox", jsonObject{"Bogus": 1}, "exchange-unknown-parameter"},
		{"unknown parameter before a missing one", nil, "Set-Mailbox", jsonObject{"Bogus": 1}, "exchange-unknown-parameter"},
		{"text for a boolean", nil, "Set-TransportConfig", jsonObject{"SmtpClientAuthenticationDisabled": "no"}, "exchange-wrong-type"},
		{"number for a text", nil, "Get-Mailbox", jsonObject{"Identity": 5}, "exchange-wrong-type"},
		{"invalid address", nil, "New-Mailbox", jsonObject{"Shared": true, "Name": "x", "PrimarySmtpAddress": "not an address"}, "exchange-wrong-type"},
		{"unknown enumeration value", nil, "Get-Mailbox", jsonObject{"RecipientTypeDetails": []string{"Pigeonhole"}}, "exchange-wrong-type"},
		{"mailbox not found", nil, "Get-Mailbox", jsonObject{"Identity": "nobody@" + domain}, "exchange-not-found"},
		{"mailbox of another kind", nil, "Get-Mailbox", jsonObject{"Identity": "anna@" + domain, "RecipientTypeDetails": "UserMailbox"}, "exchange-not-found"},
		{"changed mailbox not found", nil, "Set-Mailbox", jsonObject{"Identity": "nobody@" + domain, "DisplayName": "x"}, "exchange-not-found"},
		{"removed mailbox not found", nil, "Remove-Mailbox", jsonObject{"Identity": "nobody@" + domain, "Confirm": false}, "exchange-not-found"},
		{"primary address taken", nil, "New-Mailbox", mailboxParams("anna@"+domain, "other"), "exchange-proxy-address"},
		{"alias taken", nil, "New-Mailbox", mailboxParams("bob@"+domain, "anna.d"), "exchange-proxy-address"},
		{"alias taken by the administrator", nil, "New-Mailbox", mailboxParams("admin@"+domain, "admin"), "exchange-proxy-address"},
		{"name taken", nil, "New-Mailbox", jsonObject{"Shared": true, "Name": "anna@" + domain, "Alias": "n", "PrimarySmtpAddress": "n@" + domain}, "exchange-name-taken"},
		{"domain not accepted", nil, "New-Mailbox", mailboxParams("a@elsewhere.example", "a.e"), "exchange-not-accepted"},
		{"DKIM configuration not found", nil, "Get-DkimSigningConfig", jsonObject{"Identity": domain}, "exchange-not-found"},
		{"DKIM of an unknown domain", nil, "New-DkimSigningConfig", jsonObject{"DomainName": "elsewhere.example", "Enabled": false}, "exchange-not-found"},
		{"CNAME records missing", nil, "New-DkimSigningConfig", jsonObject{"DomainName": domain, "Enabled": true}, "exchange-no-cname"},
		{"already customized", nil, "Enable-OrganizationCustomization", jsonObject{}, "exchange-already-hydrated"},
		{"scripted exception", scriptedCmdlets(jsonObject{"Get-Mailbox": jsonObject{"exception": jsonObject{"id": "Ex6F9304", "text": "The operation couldn't be performed because object 'x' couldn't be found on 'y'.",
			"type": "Microsoft.Exchange.Configuration.Tasks.ManagementObjectNotFoundException"}}}), "Get-Mailbox", jsonObject{}, "exchange-not-found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := sharedTenant
			if tc.behaviour != nil {
				testTenant = newTenantWithMailbox(t)
				testTenant.setBehaviour(tc.behaviour)
			}
			assertGolden(t, tc.golden, testTenant.runCmdlet(tc.cmdlet, tc.params))
		})
	}
}

func TestExchangeRequiresBothGrants(t *testing.T) {
	for _, tc := range []struct {
		name      string
		revoke    string     // the grant to revoke, if any
		behaviour jsonObject // settings to change before the call
		header    func(*tenant) http.Header
		status    int
		nul       bool // the body is 4096 NUL bytes
	}{
		{name: "both grants", status: 200},
		{name: "no app role", revoke: "app_role", status: 401},
		{name: "no directory role", revoke: "exchange_role", status: 403, nul: true},
		{name: "no directory role, without NUL bytes", revoke: "exchange_role", behaviour: jsonObject{"nul_403": false}, status: 403},
		{name: "token for Graph", header: func(testTenant *tenant) http.Header { return bearer(testTenant.token(graphScope)) }, status: 401},
		{name: "no token", header: func(*tenant) http.Header { return http.Header{} }, status: 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := startSimulator(t).newConnectedTenant()
			if tc.revoke != "" {
				testTenant.revoke(tc.revoke)
			}
			if tc.behaviour != nil {
				testTenant.setBehaviour(tc.behaviour)
			}
			header := bearer(testTenant.token(exchangeScope))
			if tc.header != nil {
				header = tc.header(testTenant)
			}
			answer := testTenant.runCmdletWith(header, "", "Get-OrganizationConfig", jsonObject{})
			if answer.status != tc.status {
				t.Fatalf("the answer is %d %s, want %d", answer.status, answer.raw, tc.status)
			}
			if nul := bytes.Equal(answer.raw, make([]byte, 4096)); nul != tc.nul || nul && answer.header.Get("Content-Type") != "application/octet-stream" {
				t.Errorf("the body is %d bytes of %s, want 4096 NUL bytes: %v", len(answer.raw), answer.header.Get("Content-Type"), tc.nul)
			}
		})
	}
}

// TestUnknownCmdletIsForbidden checks cmdlets that do not exist, that no longer exist, or that the
// role does not allow. The status is the same as for a missing role.
func TestUnknownCmdletIsForbidden(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	for _, name := range []string{"Get-Everything", "", "Get-MessageTrace", "New-InboundConnector", "New-RoleGroup"} {
		if answer := testTenant.runCmdlet(name, jsonObject{}); answer.status != http.StatusForbidden {
			t.Errorf("%q: %d %s, want 403", name, answer.status, answer.raw)
		}
	}
	if answer := testTenant.runCmdlet("gEt-oRgAnIzAtIoNcOnFiG", jsonObject{}); answer.status != http.StatusOK {
		t.Errorf("a cmdlet name in a different case answers %d, want 200", answer.status)
	}
}

func TestExchangeChecksTenantInPath(t *testing.T) {
	sim := startSimulator(t)
	testTenant, otherTenant := sim.newConnectedTenant(), sim.newConnectedTenant()
	callInPath := func(tenantInPath string) response {
		return sim.do("POST", sim.ready.Settings["exchange_url"]+"/adminapi/v1.0/"+tenantInPath+"/InvokeCommand",
			bearer(testTenant.token(exchangeScope)), `{"CmdletInput":{"CmdletName":"Get-OrganizationConfig","Parameters":{}}}`)
	}
	assertGolden(t, "exchange-unknown-tenant", callInPath("11111111-2222-4333-8444-555555555555"))
	if answer := callInPath(otherTenant.id); answer.status != http.StatusUnauthorized {
		t.Errorf("the path of a different tenant than the token's: %d, want 401", answer.status)
	}
	for _, tenantInPath := range []string{testTenant.id, testTenant.initialDomain()} {
		if answer := callInPath(tenantInPath); answer.valueAt("value", 0, "Name") != testTenant.initialDomain() {
			t.Errorf("the path of %s: %d %s, want the organization of the token", tenantInPath, answer.status, answer.raw)
		}
	}
}

func TestUnreadableCommandsAreRefused(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	for _, body := range []string{"", "[]", `{"CmdletInput":{"CmdletName":"Get-Mailbox","Parameters":null}}`,
		`{"CmdletInput":{"CmdletName":"Get-Mailbox"}}`} {
		answer := testTenant.do("POST", testTenant.ready.Settings["exchange_url"]+"/adminapi/beta/"+testTenant.id+"/InvokeCommand", bearer(testTenant.token(exchangeScope)), body)
		if answer.status != 400 && answer.status != 403 {
			t.Errorf("body %s: %d %s, want 400 or 403", body, answer.status, answer.raw)
		}
	}
}

func TestExchangeAnswerHasEnvelope(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	answer := testTenant.runCmdlet("Get-OrganizationConfig", jsonObject{})
	warnings, isList := answer.valueAt("@adminapi.warnings").([]any)
	if !isList || len(warnings) != 0 || answer.valueAt("adminapi.warnings@odata.type") != "#Collection(String)" ||
		!strings.Contains(answer.valueAt("@odata.context").(string), "#Collection(Exchange.GenericHashTable)") {
		t.Errorf("the answer is %s, want a list of no warnings, its type and the context", answer.raw)
	}
	if answer.valueAt("value", 0, "WhenChanged@data.type") != "System.DateTime" || answer.valueAt("value", 0, "IsDehydrated") != false {
		t.Errorf("the row is %s, want the type System.DateTime of WhenChanged, and IsDehydrated false", answer.raw)
	}
	row := testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "anna@" + domain}).valueAt("value", 0).(jsonObject)
	if row["EmailAddresses@odata.type"] != "#Collection(String)" || row["RecipientLimits@data.type"] != "System.Int32" {
		t.Errorf("the row is %v, want the types of EmailAddresses and RecipientLimits", row)
	}
	selected := testTenant.runCmdletWith(bearer(testTenant.token(exchangeScope)), "?$select=Name,WhenMailboxCreated", "Get-Mailbox", jsonObject{"Identity": "anna@" + domain})
	if len(selected.valueAt("value", 0).(jsonObject)) != 3 {
		t.Errorf("$select: %s, want the two properties and the type of one", selected.raw)
	}
	changed := testTenant.runCmdlet("Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"})
	if rows, isList := changed.valueAt("value").([]any); changed.status != http.StatusOK || !isList || len(rows) != 0 {
		t.Errorf("Set-Mailbox answers %s, want 200 with an empty list", changed.raw)
	}
	repeated := testTenant.runCmdlet("Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"})
	if text, _ := repeated.valueAt("@adminapi.warnings", 0).(string); !strings.HasPrefix(text, "The command completed successfully but no settings of") {
		t.Errorf("a call that changes nothing answers %s, want a warning", repeated.raw)
	}
}

func TestExchangeAnswersInPages(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(jsonObject{"page_size": 2})
	firstPage := testTenant.runCmdlet("Get-Mailbox", jsonObject{"ResultSize": "Unlimited"})
	link, _ := firstPage.valueAt("@odata.nextLink").(string)
	if len(firstPage.rows()) != 2 || link == "" || len(firstPage.valueAt("@adminapi.warnings").([]any)) != 1 {
		t.Fatalf("the first page is %s, want two rows, a link and a warning", firstPage.raw)
	}
	followLink := func() response {
		return testTenant.do("POST", link, bearer(testTenant.token(exchangeScope)), `{"CmdletInput":{"CmdletName":"Get-Mailbox","Parameters":{"ResultSize":"Unlimited"}}}`)
	}
	if secondPage := followLink(); len(secondPage.rows()) != 1 || secondPage.valueAt("@odata.nextLink") != nil {
		t.Errorf("the second page is %s, want one row and no link", secondPage.raw)
	}
	testTenant.setBehaviour(jsonObject{"next_link": "expired"})
	assertGolden(t, "exchange-paging", followLink())

	header := bearer(testTenant.token(exchangeScope))
	header.Set("Prefer", "odata.maxpagesize=1")
	if answer := testTenant.runCmdletWith(header, "", "Get-Mailbox", jsonObject{}); len(answer.rows()) != 1 {
		t.Errorf("Prefer with a page size of 1: %s, want one row", answer.raw)
	}
	if answer := testTenant.runCmdlet("Get-Mailbox", jsonObject{"ResultSize": 1}); len(answer.rows()) != 1 || answer.valueAt("@odata.nextLink") != nil {
		t.Errorf("ResultSize 1: %s, want one row and no link", answer.raw)
	}
}

// TestEnumPrefixIsAcceptedAndMatchesNothing checks the values of RecipientTypeDetails. "Shared" is
// a prefix of a value.
func TestEnumPrefixIsAcceptedAndMatchesNothing(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	for value, want := range map[string]int{"SharedMailbox": 1, "sharedmailbox": 1, "Shared": 0, "UserMailbox": 1, "DiscoveryMailbox": 1} {
		answer := testTenant.runCmdlet("Get-Mailbox", jsonObject{"RecipientTypeDetails": []string{value}, "ResultSize": "Unlimited"})
		if answer.status != http.StatusOK || len(answer.rows()) != want {
			t.Errorf("RecipientTypeDetails %s: %d %s, want 200 with %d mailboxes", value, answer.status, answer.raw, want)
		}
	}
	discoveryMailbox := testTenant.runCmdlet("Get-Mailbox", jsonObject{"RecipientTypeDetails": "DiscoveryMailbox"})
	if discoveryMailbox.valueAt("value", 0, "ExternalDirectoryObjectId") != "" {
		t.Errorf("the discovery mailbox is %s, want an empty object id", discoveryMailbox.raw)
	}
}

func TestModuleFileListsCmdlets(t *testing.T) {
	testTenant := startSimulator(t).newConnectedTenant()
	readModuleFile := func() response {
		return testTenant.do("GET", testTenant.ready.Settings["exchange_url"]+"/adminapi/v1.0/"+testTenant.id+"/EXOModuleFile?Version=3.9.2",
			bearer(testTenant.token(exchangeScope)), "")
	}
	if list, _ := readModuleFile().valueAt("value", 0, "exportedCmdlets").(string); !slices.Contains(strings.Split(list, ","), "New-Mailbox") {
		t.Errorf("the exported cmdlets do not contain New-Mailbox: %q", list)
	}
	testTenant.revoke("exchange_role")
	if answer := readModuleFile(); answer.status != http.StatusForbidden {
		t.Errorf("without the role the module file answers %d, want 403", answer.status)
	}
}

// TestScriptedExceptionReplacesCmdlet checks that the scripted exception is returned and the cmdlet
// is not executed.
func TestScriptedExceptionReplacesCmdlet(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	for _, tc := range []struct{ exception, text string }{
		{"Microsoft.Exchange.Data.Directory.MemberAlreadyExistsException", "The recipient is already a member of the group."},
		{"Microsoft.Exchange.Data.Directory.MemberNotFoundException", "The recipient isn't a member of the group."},
		{"Microsoft.Exchange.Management.Tasks.RulesValidationException", "The maximum number of rules was reached."},
		{"Microsoft.Exchange.Data.ThrottlingException", "Your recent queries have surpassed the permitted limit, please try again later"},
		{"Microsoft.Exchange.Net.SPRetriableException", "A server side error has occurred. Please try again after some time."},
	} {
		testTenant.setBehaviour(scriptedCmdlets(jsonObject{"Set-Mailbox": jsonObject{"exception": jsonObject{"type": tc.exception, "text": tc.text}}}))
		answer := testTenant.runCmdlet("Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"})
		inner := answer.valueAt("error", "innererror", "internalexception").(jsonObject)
		if answer.status != http.StatusBadRequest || inner["type"] != tc.exception || inner["message"] != tc.text ||
			answer.valueAt("error", "details", 0, "message") != "|"+tc.exception+"|"+tc.text {
			t.Errorf("the answer is %d %s, want 400 with the exception %s and its text", answer.status, answer.raw, tc.exception)
		}
	}
	if answer := testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "anna@" + domain}); answer.valueAt("value", 0, "DisplayName") != "Anna Keller" {
		t.Errorf("the mailbox is %s, want the name Anna Keller, because the cmdlet must not run", answer.raw)
	}
}

// TestTransientExceptionIs400 scripts a transient exception. The status of the answer is 400, so
// only the exception says that a retry can succeed.
func TestTransientExceptionIs400(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(scriptedCmdlets(jsonObject{"Set-Mailbox": jsonObject{"times": 2, "exception": jsonObject{
		"type": "Microsoft.Exchange.Data.Directory.ServerBusyException",
		"text": "The server is too busy to process the request. Please try again after some time."}}}))
	for range 2 {
		assertGolden(t, "exchange-busy", testTenant.runCmdlet("Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"}))
	}
	if answer := testTenant.runCmdlet("Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"}); answer.status != http.StatusOK {
		t.Errorf("after the two exceptions: %d %s, want 200", answer.status, answer.raw)
	}
}

// TestStateThatCannotBeSavedIs500 checks that Exchange and Graph answer a call with 500, and not
// with a refusal, when they cannot save the effect of the call.
func TestStateThatCannotBeSavedIs500(t *testing.T) {
	dir := newDataDir(t)
	testTenant := startSimulatorIn(t, dir, newFakeDNS(t)).newConnectedTenant()
	testTenant.addMailDomain(domain)
	if err := os.RemoveAll(filepath.Join(dir, "tenants")); err != nil {
		t.Fatal(err)
	}
	if answer := testTenant.runCmdlet("New-Mailbox", mailboxParams("anna@"+domain, "anna.d")); answer.status != http.StatusInternalServerError {
		t.Errorf("Exchange answers %d %s, want 500", answer.status, answer.raw)
	}
	if answer := testTenant.callGraph("POST", "/domains", jsonObject{"id": "other.example"}); answer.status != http.StatusInternalServerError {
		t.Errorf("Graph answers %d %s, want 500", answer.status, answer.raw)
	}
}

func TestScriptedErrorsAndWarningsAre200(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.setBehaviour(scriptedCmdlets(jsonObject{"Set-Mailbox": jsonObject{"errors": []string{"could not be changed"}}, "Get-Mailbox": jsonObject{"warnings": []string{"Micro delay applied"}}}))
	answer := testTenant.runCmdlet("Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"})
	if answer.status != http.StatusOK || answer.valueAt("@adminapi.errors", 0) != "could not be changed" {
		t.Errorf("Set-Mailbox answers %d %s, want 200 with the scripted error", answer.status, answer.raw)
	}
	answer = testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "anna@" + domain})
	if answer.valueAt("@adminapi.warnings", 0) != "Micro delay applied" || answer.valueAt("value", 0, "DisplayName") != "Anna Keller" {
		t.Errorf("Get-Mailbox answers %s, want the mailbox with the scripted warning", answer.raw)
	}
}

func TestExchangeAnswersPlannedFaults(t *testing.T) {
	for _, tc := range []struct {
		name       string
		status     int
		retryAfter int
		golden     string // "" if the body is not a JSON object
		html       bool   // whether the body is HTML
	}{
		{"refused", 400, 0, "exchange-refused", false},
		{"conflict", 409, 0, "exchange-conflict", false},
		{"unprocessable", 422, 0, "exchange-unprocessable", false},
		{"token refused", 401, 0, "", false},
		{"not allowed", 403, 0, "", false},
		{"unknown tenant", 404, 0, "exchange-unknown-tenant", false},
		{"throttled, without Retry-After", 429, 0, "", false},
		{"throttled, with Retry-After", 429, 9, "", false},
		{"back-end error", 500, 0, "exchange-transient", false},
		{"gateway unavailable", 503, 0, "", true},
		{"gateway timeout", 504, 0, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testTenant := newTenantWithMailbox(t)
			testTenant.planFault(jsonObject{"kind": "status", "status": tc.status, "retry_after": tc.retryAfter, "times": 1, "operation": "Set-Mailbox"})
			answer := testTenant.runCmdlet("Set-Mailbox", jsonObject{"Identity": "anna@" + domain, "DisplayName": "New"})
			switch {
			case tc.golden != "":
				assertGolden(t, tc.golden, answer)
			case answer.status != tc.status || answer.body != nil:
				t.Errorf("the planned fault is answered with %d %s, want its status without a JSON object", answer.status, answer.raw)
			}
			if got := answer.header.Get("Retry-After"); got != map[int]string{0: "", 9: "9"}[tc.retryAfter] {
				t.Errorf("Retry-After is %q, want the planned %d s, or none for 0", got, tc.retryAfter)
			}
			if strings.Contains(answer.header.Get("Content-Type"), "html") != tc.html {
				t.Errorf("the headers are %v, want HTML: %v", answer.header, tc.html)
			}
			// A planned 504 comes after the cmdlet has run. With any other status the cmdlet does
			// not run.
			name := testTenant.runCmdlet("Get-Mailbox", jsonObject{"Identity": "anna@" + domain}).valueAt("value", 0, "DisplayName")
			if want := map[bool]string{true: "New", false: "Anna Keller"}[tc.status == 504]; name != want {
				t.Errorf("after the call the name of the mailbox is %v, want %s", name, want)
			}
		})
	}
}

// TestPlannedFaultHitsOneOfThreeCalls plans a failure of the second New-Mailbox call.
func TestPlannedFaultHitsOneOfThreeCalls(t *testing.T) {
	testTenant := newTenantWithMailbox(t)
	testTenant.planFault(jsonObject{"kind": "status", "status": 500, "times": 1, "skip": 1, "operation": "New-Mailbox"})
	var got []int
	for _, localPart := range []string{"b", "c", "d"} {
		got = append(got, testTenant.runCmdlet("New-Mailbox", mailboxParams(localPart+"@"+domain, localPart+".d")).status)
	}
	if !slices.Equal(got, []int{200, 500, 200}) {
		t.Errorf("the statuses are %v, want 200, 500, 200", got)
	}
}
