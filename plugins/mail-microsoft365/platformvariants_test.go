// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

// These tests cover cases in which Microsoft's behaviour is not known and either behaviour must
// work.

func TestUnknownRefusalsAreProviderErrors(t *testing.T) {
	fake := newFakePlatform(t)
	odd := `{"error":{"code":"BadRequest","message":"x","innererror":{"internalexception":{"type":"Contoso.OddException","message":"x"}}}}`
	for _, what := range []string{"PATCH /users/o-1", "New-Mailbox", "Set-Mailbox", "Set-CASMailbox", "PATCH /domains/a.example"} {
		fake.answers[what], fake.statuses[what] = odd, 400
	}
	fake.answers["Get-Mailbox"] = `{"value":[]}`
	_, err := fake.client.CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "Anna", Address: "anna@a.example"})
	expectOutcome(t, err, outcome.Refused, fault.ProviderError)
	expectEqual(t, nil, err.Error(), "provider refused (exchange 400 BadRequest OddException): the mail platform refused this")
	err = fake.client.OpenSignIn(t.Context(), "o-1", "anna@a.example", secret.New("Corr3ct-horse-battery"))
	expectOutcome(t, err, outcome.Refused, fault.ProviderError)
	expectOutcome(t, fake.client.OpenSubmission(t.Context(), "anna@a.example"), outcome.Refused, fault.ProviderError)
	expectOutcome(t, fake.client.Rename(t.Context(), "anna@a.example", "Anna"), outcome.Refused, fault.ProviderError)
	expectOutcome(t, fake.client.EnableMail(t.Context(), "a.example"), outcome.Refused, fault.ProviderError)
}

// A verified domain may list the service before Exchange accepts the domain.
func TestEnableMailWritesAServiceThatIsAlreadyListed(t *testing.T) {
	fake := newFakePlatform(t)
	fake.answers["GET /domains/a.example"] = `{"id":"a.example","isVerified":true,"supportedServices":["OfficeCommunicationsOnline","Email"]}`
	for range 2 {
		delete(fake.bodies, "PATCH /domains/a.example")
		err := fake.client.EnableMail(t.Context(), "a.example")
		expectEqual(t, err, fake.bodies["PATCH /domains/a.example"], `{"supportedServices":["Email","OfficeCommunicationsOnline"]}`)
	}
}

func TestEnableSMTPAuthIsNotReadyUntilItTakesEffect(t *testing.T) {
	fake := newFakePlatform(t)
	fake.answers["Get-TransportConfig"] = `{"value":[{"SmtpClientAuthenticationDisabled":true}]}`
	expectOutcome(t, fake.client.EnableSMTPAuth(t.Context()), outcome.NotReady, fault.Code{})
	fake.statuses["Set-TransportConfig"] = 400
	expectOutcome(t, fake.client.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
}

func TestServicePrincipalIsReadFromTheToken(t *testing.T) {
	const sp = "GET /servicePrincipals(appId='c')"
	for name, tt := range map[string]struct {
		status int
		oid    string
		step   tenant.BootstrapStep
		body   string // request body of the role assignment, "" if none is sent
	}{
		"not found, id in the token": {404, "sp-9", tenant.StepNone, `{"@odata.type":"#microsoft.graph.unifiedRoleAssignment",` +
			`"directoryScopeId":"/","principalId":"sp-9","roleDefinitionId":"29232cdf-9323-42fd-ade2-1d097af3e4de"}`},
		"not found, no id in the token": {404, "", tenant.StepWait, ""},
		"forbidden, no id in the token": {403, "", tenant.StepGrantRole, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakePlatform(t)
			fake.statuses[sp] = tt.status
			payload := base64.RawURLEncoding.EncodeToString([]byte(`{"oid":"` + tt.oid + `"}`))
			fake.answers["POST /oauth2/v2.0/token"] = `{"access_token":"e30.` + payload + `.s"}`
			if tt.oid == "" {
				fake.statuses["Get-OrganizationConfig"] = 403
			}
			p, err := fake.client.Bootstrap(t.Context())
			expectEqual(t, err, p.Step, tt.step)
			expectEqual(t, nil, fake.bodies["POST /roleManagement/directory/roleAssignments"], tt.body)
		})
	}
}
