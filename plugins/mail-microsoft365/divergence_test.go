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

// Where what is known of the platform leaves room, it may do either.

func TestRefusalsOfAKindWeDoNotKnow(t *testing.T) {
	im := newImitation(t)
	odd := `{"error":{"code":"BadRequest","message":"x","innererror":{"internalexception":{"type":"Contoso.OddException","message":"x"}}}}`
	for _, what := range []string{"PATCH /users/o-1", "New-Mailbox", "Set-Mailbox", "Set-CASMailbox", "PATCH /domains/a.example"} {
		im.answers[what], im.statuses[what] = odd, 400
	}
	im.answers["Get-Mailbox"] = `{"value":[]}`
	_, err := im.client.CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "Anna", Address: "anna@a.example"})
	ends(t, err, outcome.Refused, fault.ProviderError)
	same(t, nil, err.Error(), "provider refused (exchange 400 BadRequest OddException): the mail platform refused this")
	err = im.client.OpenSignIn(t.Context(), "o-1", "anna@a.example", secret.New("Corr3ct-horse-battery"))
	ends(t, err, outcome.Refused, fault.ProviderError)
	ends(t, im.client.OpenSubmission(t.Context(), "anna@a.example"), outcome.Refused, fault.ProviderError)
	ends(t, im.client.Rename(t.Context(), "anna@a.example", "Anna"), outcome.Refused, fault.ProviderError)
	ends(t, im.client.EnableMail(t.Context(), "a.example"), outcome.Refused, fault.ProviderError)
}

// A verified domain may list the service before the mail server accepts it.
func TestMailIsEnabledThoughTheServiceIsListed(t *testing.T) {
	im := newImitation(t)
	im.answers["GET /domains/a.example"] = `{"id":"a.example","isVerified":true,"supportedServices":["OfficeCommunicationsOnline","Email"]}`
	for range 2 {
		delete(im.bodies, "PATCH /domains/a.example")
		err := im.client.EnableMail(t.Context(), "a.example")
		same(t, err, im.bodies["PATCH /domains/a.example"], `{"supportedServices":["Email","OfficeCommunicationsOnline"]}`)
	}
}

func TestSMTPAuthThatTakesEffectLater(t *testing.T) {
	im := newImitation(t)
	im.answers["Get-TransportConfig"] = `{"value":[{"SmtpClientAuthenticationDisabled":true}]}`
	ends(t, im.client.EnableSMTPAuth(t.Context()), outcome.NotReady, fault.Code{})
	im.statuses["Set-TransportConfig"] = 400
	ends(t, im.client.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
}

func TestOurPrincipalWhereTheDirectoryDoesNotShowIt(t *testing.T) {
	const sp = "GET /servicePrincipals(appId='c')"
	for name, tt := range map[string]struct {
		status int
		oid    string
		step   tenant.BootstrapStep
		body   string // of the role's assignment
	}{
		"not found, the token names it": {404, "sp-9", tenant.StepNone, `{"@odata.type":"#microsoft.graph.unifiedRoleAssignment",` +
			`"directoryScopeId":"/","principalId":"sp-9","roleDefinitionId":"29232cdf-9323-42fd-ade2-1d097af3e4de"}`},
		"not found, nor named": {404, "", tenant.StepWait, ""},
		"hidden, nor named":    {403, "", tenant.StepGrantRole, ""},
	} {
		t.Run(name, func(t *testing.T) {
			im := newImitation(t)
			im.statuses[sp] = tt.status
			payload := base64.RawURLEncoding.EncodeToString([]byte(`{"oid":"` + tt.oid + `"}`))
			im.answers["POST /oauth2/v2.0/token"] = `{"access_token":"e30.` + payload + `.s"}`
			if tt.oid == "" {
				im.statuses["Get-OrganizationConfig"] = 403
			}
			p, err := im.client.Bootstrap(t.Context())
			same(t, err, p.Step, tt.step)
			same(t, nil, im.bodies["POST /roleManagement/directory/roleAssignments"], tt.body)
		})
	}
}
