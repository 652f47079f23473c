// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const fakeTenant tenant.GUID = "7b1d9c52-6a0e-4a55-8f0e-0c2f5b6a9d11"

// minimalAnswers are short answers that the plugin must accept, keyed as fakePlatform.bodies.
// Tokens are opaque, members are missing, null or spelled differently, and some bodies are not
// documented.
var minimalAnswers = map[string]string{
	"POST /oauth2/v2.0/token": `{"access_token":"opaque"}`,
	"GET /organization": `{"value":[{"displayName":"Fabrikam","verifiedDomains":[
		{"name":"fabrikam.onmicrosoft.com","isInitial":true,"isDefault":true},{"name":"A.example"}]}]}`,
	"GET /domains":           `{"value":[{"id":"fabrikam.onmicrosoft.com"},{"id":"A.example","isVerified":true,"isDefault":null,"supportedServices":null}]}`,
	"GET /domains/a.example": `{"id":"A.example","isVerified":true,"supportedServices":["Sharepoint","Yammer"],"extra":{}}`,
	"GET /domains/a.example/verificationDnsRecords": `{"value":[
		{"@odata.type":"microsoft.graph.domainDnsTxtRecord","label":"a.example","text":"MS=ms1"}]}`,
	"GET /domains/a.example/serviceConfigurationRecords": `{"value":[
		{"recordType":"MX","label":"a.example","mailExchange":"x.mx.microsoft","preference":0,"supportedService":"email","isOptional":null},
		{"recordType":"TXT","label":"a.example","text":"v=spf1","supportedService":"Intune"}]}`,
	"POST /domains/a.example/verify":                 `{"id":"a.example"}`,
	"PATCH /domains/a.example":                       `{"id":"a.example"}`,
	"GET /users":                                     `{"value":[{"assignedLicenses":[{}]},{"assignedLicenses":[{}],"mail":null},{"mail":"x@a.example"},{}]}`,
	"GET /users/o-1":                                 `{}`,
	"PATCH /users/o-1":                               `{"id":"o-1"}`,
	"GET /servicePrincipals(appId='c')":              `{"id":"sp-1"}`,
	"GET /roleManagement/directory/roleAssignments":  `{}`,
	"POST /roleManagement/directory/roleAssignments": ``,
	"Get-OrganizationConfig":                         `{"value":[{"Name":"fabrikam.onmicrosoft.com"}]}`,
	"Get-TransportConfig":                            `{"value":[{"SmtpClientAuthenticationDisabled":"False"}]}`,
	"Set-TransportConfig":                            ``,
	"Get-AcceptedDomain":                             `{"value":[{"DomainName":"A.example"},{"DomainName":"b.example","PendingRemoval":true}]}`,
	"Get-DkimSigningConfig": `{"value":[{"Domain":"other.example","Selector1CNAME":"never"},
		{"Name":"A.example","Selector1CNAME":"S1.dkim.example.","Selector2CNAME":"s2.dkim.example"}]}`,
	"Set-DkimSigningConfig": `{"value":null}`,
	"New-Mailbox":           `{"value":[{"ExternalDirectoryObjectId":"o-1"}]}`,
	"Get-Mailbox":           `{"value":[{"ExternalDirectoryObjectId":"o-1","PrimarySmtpAddress":"Anna@A.example","WhenMailboxCreated":null}]}`,
	"Set-CASMailbox":        ``,
	"Set-Mailbox":           `{}`,
}

// fakePlatform is a client of the plugin for fakeTenant, and a server that acts as the login host,
// Graph and Exchange. The server answers each operation with a fixed text.
type fakePlatform struct {
	client sdk.MailTenant
	bodies map[string]string // last request body, keyed by the cmdlet, or by the method and path
	// answers begin as a copy of minimalAnswers. A test can change them.
	answers  map[string]string
	statuses map[string]int // 200 if not set
	// consentRevoked makes the login host refuse requests for tokens. Issued tokens stay valid.
	consentRevoked bool
	tokenRequests  int
	now            time.Time
}

func newFakePlatform(t *testing.T) *fakePlatform {
	t.Helper()
	fake := &fakePlatform{bodies: map[string]string{}, answers: maps.Clone(minimalAnswers), statuses: map[string]int{}, now: time.Now()}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		operation := r.Method + " " + strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1.0"), "/"+string(fakeTenant))
		var command struct{ CmdletInput struct{ CmdletName string } }
		if strings.HasSuffix(r.URL.Path, "/InvokeCommand") && json.Unmarshal(raw, &command) == nil {
			operation = command.CmdletInput.CmdletName
		}
		fake.bodies[operation] = string(raw)
		if operation == "POST /oauth2/v2.0/token" {
			fake.tokenRequests++
			if fake.consentRevoked {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(`{"error":"unauthorized_client","error_codes":[700016]}`))
				return
			}
		}
		answer, isKnown := fake.answers[operation]
		if !isKnown {
			t.Errorf("unexpected call %s", operation)
			w.WriteHeader(http.StatusNotFound)
		}
		if status := fake.statuses[operation]; status != 0 {
			w.WriteHeader(status)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	state := newProcessState()
	state.retry = call.RetryPolicy{MaxAttempts: 3, BaseDelay: time.Millisecond}
	state.now = func() time.Time { return fake.now }
	state.tokenCache.Now = state.now
	platform, err := state.newPlatform(sdk.Connection{
		Settings: map[string]string{"client_id": "c", "login_url": server.URL, "graph_url": server.URL, "exchange_url": server.URL},
		Secrets:  map[string]secret.Text{"client_secret": secret.New("s")},
	})
	if err != nil {
		t.Fatal(err)
	}
	fake.client = platform.For(fakeTenant)
	return fake
}

func TestMinimalGraphAnswersAreUnderstood(t *testing.T) {
	fake := newFakePlatform(t)
	profile, err := fake.client.Profile(t.Context())
	expectEqual(t, err, profile, tenant.Profile{Name: "Fabrikam", BuiltinDomain: "fabrikam.onmicrosoft.com"})
	domains, err := fake.client.Domains(t.Context())
	expectEqual(t, err, domains, []domain.Platform{{Name: "a.example", Verified: true}})
	existing, err := fake.client.AddDomain(t.Context(), "a.example")
	expectEqual(t, err, existing, domain.Platform{Name: "a.example", Verified: true})
	records, err := fake.client.Records(t.Context(), "a.example")
	expectEqual(t, err, records, domain.Records{
		Verification: []dns.Record{{Type: dns.TXT, Name: "a.example", Content: "MS=ms1", TTL: 3600}},
		Service:      []dns.Record{{Type: dns.MX, Name: "a.example", Content: "x.mx.microsoft", TTL: 3600}},
	})
	verified, err := fake.client.VerifyDomain(t.Context(), "a.example")
	expectEqual(t, err, verified, domain.Platform{Name: "a.example", Verified: true})
	// EnableMail adds Email and keeps Yammer. It leaves out Sharepoint, which an application may
	// not set.
	expectEqual(t, fake.client.EnableMail(t.Context(), "a.example"), fake.bodies["PATCH /domains/a.example"], `{"supportedServices":["Email","Yammer"]}`)
	userMailboxes, err := fake.client.UserMailboxes(t.Context())
	expectEqual(t, err, userMailboxes, 1) // only one of the users has an address
}

func TestMinimalExchangeAnswersAreUnderstood(t *testing.T) {
	fake := newFakePlatform(t)
	progress, err := fake.client.Bootstrap(t.Context())
	expectEqual(t, err, progress.Status, tenant.BootstrapReady)
	expectEqual(t, nil, fake.bodies["POST /roleManagement/directory/roleAssignments"],
		`{"@odata.type":"#microsoft.graph.unifiedRoleAssignment","directoryScopeId":"/","principalId":"sp-1",`+
			`"roleDefinitionId":"29232cdf-9323-42fd-ade2-1d097af3e4de"}`)
	state, err := fake.client.SMTPAuth(t.Context())
	expectEqual(t, err, state, tenant.SMTPAuthEnabled)
	expectEqual(t, fake.client.EnableSMTPAuth(t.Context()), fake.bodies["Set-TransportConfig"],
		`{"CmdletInput":{"CmdletName":"Set-TransportConfig","Parameters":{"SmtpClientAuthenticationDisabled":false}}}`)
	names, err := fake.client.MailDomains(t.Context())
	expectEqual(t, err, names, []string{"a.example"})
	signing, err := fake.client.EnsureSigning(t.Context(), "a.example")
	expectEqual(t, err, signing, dns.Signing{
		Selector1: dns.Record{Type: dns.CNAME, Name: "selector1._domainkey.a.example", Content: "s1.dkim.example", TTL: 3600},
		Selector2: dns.Record{Type: dns.CNAME, Name: "selector2._domainkey.a.example", Content: "s2.dkim.example", TTL: 3600},
	})
	expectEqual(t, fake.client.EnableSigning(t.Context(), "a.example"), fake.bodies["Set-DkimSigningConfig"],
		`{"CmdletInput":{"CmdletName":"Set-DkimSigningConfig","Parameters":{"Enabled":true,"Identity":"a.example"}}}`)
}

// TestMinimalRuleAnswersAreUnderstood covers answers in which a list is a single text, null, empty
// or missing, and answers that contain a foreign rule. It also covers a rule with an unknown state,
// and a created rule that no later answer contains.
func TestMinimalRuleAnswersAreUnderstood(t *testing.T) {
	fake := newFakePlatform(t)
	const foreignRule = `{"Name":"Disclaimer","State":"Enabled","From":["anna@a.example"]}`
	managedRule := `{"Name":"Tenantry-Block-a.example","Guid":"r-1","State":"enabled","Mode":"Enforce","From":"Anna@A.example",` +
		`"SenderAddressLocation":"HeaderOrEnvelope","RejectMessageEnhancedStatusCode":"5.7.910","RejectMessageReasonText":"` + rejectText + `"}`
	fake.answers[exchange.SetTransportRule], fake.answers[exchange.EnableTransportRule] = ``, ``
	want := sendlimit.Rule{ID: "r-1", Name: "Tenantry-Block-a.example", Enabled: true, Lists: []string{"anna@a.example"}}
	for name, answer := range map[string]string{
		"one rule":             managedRule,
		"after a foreign rule": foreignRule + "," + managedRule,
		"null members":         strings.Replace(managedRule, `"Guid"`, `"Conditions":null,"Exceptions":null,"ExpiryDate":null,"Guid"`, 1),
		"empty members":        strings.Replace(managedRule, `"Guid"`, `"Conditions":[],"Exceptions":[],"ExpiryDate":"","Guid"`, 1),
	} {
		fake.answers[exchange.GetTransportRule] = `{"value":[` + answer + `]}`
		got, err := fake.client.Block(t.Context(), "a.example", []string{"anna@a.example"})
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	expectEqual(t, nil, fake.bodies[exchange.GetTransportRule], `{"CmdletInput":{"CmdletName":"Get-TransportRule","Parameters":`+
		`{"Identity":"tenantry-block-a.example","ResultSize":"Unlimited"}}}`)
	// The rule already blocks the mailbox, but Block enables it again, because the read may be old.
	expectEqual(t, nil, fake.bodies[exchange.EnableTransportRule], `{"CmdletInput":{"CmdletName":"Enable-TransportRule","Parameters":`+
		`{"Confirm":false,"Identity":"tenantry-block-a.example"}}}`)
	fake.answers[exchange.GetTransportRule] = `{"value":[` + strings.Replace(managedRule, "enabled", "Resting", 1) + `]}`
	_, err := fake.client.Block(t.Context(), "a.example", nil)
	expectOutcome(t, err, outcome.Broken, fault.Code{})
	_, err = fake.client.Rules(t.Context())
	expectOutcome(t, err, outcome.Broken, fault.Code{})

	fake.answers[exchange.GetTransportRule], fake.answers[exchange.NewTransportRule] = `{"value":[`+foreignRule+`]}`, ``
	_, err = fake.client.Block(t.Context(), "a.example", []string{"Anna@a.example"})
	expectOutcome(t, err, outcome.NotReady, fault.Code{}) // no answer contains the created rule
	expectEqual(t, nil, fake.bodies[exchange.NewTransportRule], `{"CmdletInput":{"CmdletName":"New-TransportRule","Parameters":`+
		`{"Comments":"`+commentPrefix+`a.example","Enabled":true,"From":["anna@a.example"],"Mode":"Enforce","Name":"tenantry-block-a.example",`+
		`"Priority":0,"RejectMessageEnhancedStatusCode":"5.7.910","RejectMessageReasonText":"`+rejectText+`",`+
		`"SenderAddressLocation":"HeaderOrEnvelope","StopRuleProcessing":true}}}`)
}

func TestMinimalMailboxAnswersAreUnderstood(t *testing.T) {
	fake := newFakePlatform(t)
	created, err := fake.client.CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "Anna Keller", Address: "Anna@a.example"})
	if err != nil || created.ObjectID != "o-1" || created.Address != "anna@a.example" {
		t.Fatalf("CreateMailbox: %+v, %v, want the mailbox o-1 with the address anna@a.example", created, err)
	}
	expectEqual(t, nil, fake.bodies["New-Mailbox"], `{"CmdletInput":{"CmdletName":"New-Mailbox","Parameters":{"Alias":"`+
		mailbox.Alias("anna@a.example")+`","DisplayName":"Anna Keller","Name":"anna@a.example",`+
		`"PrimarySmtpAddress":"anna@a.example","Shared":true}}}`)
	found, err := fake.client.Mailbox(t.Context(), "ANNA@a.example")
	expectEqual(t, err, found, mailbox.Platform{ObjectID: "o-1", Address: "anna@a.example", AccountEnabled: true})
	err = fake.client.OpenSignIn(t.Context(), "o-1", "anna@a.example", secret.New("Corr3ct-horse-battery"))
	expectEqual(t, err, fake.bodies["PATCH /users/o-1"], `{"accountEnabled":true,"userPrincipalName":"anna@a.example","passwordProfile":`+
		`{"password":"Corr3ct-horse-battery","forceChangePasswordNextSignIn":false,"forceChangePasswordNextSignInWithMfa":false},`+
		`"passwordPolicies":"DisablePasswordExpiration"}`)
	expectEqual(t, fake.client.OpenSubmission(t.Context(), "anna@a.example"), fake.bodies["Set-CASMailbox"],
		`{"CmdletInput":{"CmdletName":"Set-CASMailbox","Parameters":{"Identity":"anna@a.example","SmtpClientAuthenticationDisabled":false}}}`)
	expectEqual(t, fake.client.Rename(t.Context(), "anna@a.example", "Anna <b>"), fake.bodies["Set-Mailbox"],
		`{"CmdletInput":{"CmdletName":"Set-Mailbox","Parameters":{"DisplayName":"Anna \u003cb\u003e","Identity":"anna@a.example"}}}`)
	list, err := fake.client.Mailboxes(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("Mailboxes: %+v, %v, want one mailbox", list, err)
	}
	expectEqual(t, nil, fake.bodies["Get-Mailbox"], `{"CmdletInput":{"CmdletName":"Get-Mailbox","Parameters":`+
		`{"RecipientTypeDetails":["SharedMailbox"],"ResultSize":"Unlimited"}}}`)
}
