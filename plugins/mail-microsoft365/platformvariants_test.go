// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

// The tests of this file cover cases in which the behaviour of Microsoft is not known. The plugin
// must work with each possible behaviour.

func TestUnknownRefusalsAreProviderErrors(t *testing.T) {
	fake := newFakePlatform(t)
	unknownError := `{"error":{"code":"BadRequest","message":"x","innererror":{"internalexception":{"type":"Contoso.OddException","message":"x"}}}}`
	for _, operation := range []string{"PATCH /users/o-1", "New-Mailbox", "Set-Mailbox", "Set-CASMailbox", "PATCH /domains/a.example"} {
		fake.answers[operation], fake.statuses[operation] = unknownError, 400
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

// TestRefusalsAreClassifiedByCodeThenText checks how refusals of Graph are classified: by their
// code, then by a known text. An unknown text never counts as a conflict with an object. A 409
// without a known code is NotReady.
func TestRefusalsAreClassifiedByCodeThenText(t *testing.T) {
	const (
		add, verify, patch = "POST /domains", "POST /domains/a.example/verify", "PATCH /users/o-1"
		badRequestFormat   = `{"error":{"code":"Request_BadRequest","message":"%s"}}`
	)
	noCode := fault.Code{}
	for name, tc := range map[string]struct {
		operation string // the operation that Graph refuses
		status    int
		body      string
		wantKind  outcome.Kind
		wantCode  fault.Code
	}{
		"add, a conflict by its code":         {add, 409, `{"error":{"code":"Request_MultipleObjectsWithSameKeyValue"}}`, outcome.Refused, fault.DomainUnavailable},
		"add, a conflict by a detail's code":  {add, 400, `{"error":{"code":"Request_BadRequest","details":[{"code":"ConflictingObjects"}]}}`, outcome.Refused, fault.DomainUnavailable},
		"add, a conflict by its text":         {add, 400, fmt.Sprintf(badRequestFormat, "A conflicting object with one or more of the specified property values is present in the directory."), outcome.Refused, fault.DomainUnavailable},
		"add, another tenant by the text":     {add, 400, fmt.Sprintf(badRequestFormat, "The domain is used by another organization."), outcome.Refused, fault.DomainUnavailable},
		"add, a lost race":                    {add, 409, `{"error":{"code":"Conflict","message":"another request, already in use"}}`, outcome.NotReady, noCode},
		"add, an invalid name":                {add, 400, fmt.Sprintf(badRequestFormat, "One or more properties contains invalid values."), outcome.Refused, fault.InvalidDomain},
		"add, an unknown text":                {add, 400, fmt.Sprintf(badRequestFormat, "Another request is in use; it exists already."), outcome.Refused, fault.ProviderError},
		"verify, a conflict by its code":      {verify, 409, `{"error":{"code":"Request_MultipleObjectsWithSameKeyValue"}}`, outcome.Refused, fault.DomainUnavailable},
		"verify, another tenant by the text":  {verify, 400, fmt.Sprintf(badRequestFormat, "The domain a.example is already verified in use by another organization."), outcome.Refused, fault.DomainUnavailable},
		"verify, this tenant has verified it": {verify, 400, fmt.Sprintf(badRequestFormat, "Domain is already verified."), outcome.NotReady, noCode},
		"verify, a lost race":                 {verify, 409, `{"error":{"code":"Conflict"}}`, outcome.NotReady, noCode},
		"verify, an answer that is cut off":   {verify, 400, `{"error":{"code":"Request_Bad`, outcome.Broken, noCode},
		"verify, a refusal of a proxy":        {verify, 403, "", outcome.Refused, fault.AccessDenied},
		"verify, an unknown text":             {verify, 400, fmt.Sprintf(badRequestFormat, "A different record exists; another try may help."), outcome.Refused, fault.VerificationFailed},
		"password, by the property":           {patch, 400, `{"error":{"code":"Request_BadRequest","details":[{"code":"InvalidValue","target":"PasswordProfile"}]}}`, outcome.Refused, fault.WeakPassword},
		"password, by the text":               {patch, 400, fmt.Sprintf(badRequestFormat, "The specified password does not comply with password complexity requirements."), outcome.Refused, fault.WeakPassword},
		"password, an unknown text":           {patch, 400, fmt.Sprintf(badRequestFormat, "The password policy is being changed."), outcome.Refused, fault.ProviderError},
		"sign-in name, by the code":           {patch, 400, `{"error":{"code":"Request_BadRequest","details":[{"code":"ObjectConflict","target":"userPrincipalName"}]}}`, outcome.Refused, fault.InvalidMailboxEmail},
		"sign-in name, an unknown text":       {patch, 400, fmt.Sprintf(badRequestFormat, "userPrincipalName cannot be read now."), outcome.Refused, fault.ProviderError},
		"sign-in name, a lost race":           {patch, 409, `{"error":{"code":"Conflict"}}`, outcome.NotReady, noCode},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakePlatform(t)
			fake.answers[tc.operation], fake.statuses[tc.operation] = tc.body, tc.status
			var err error
			switch tc.operation {
			case add:
				fake.answers["GET /domains/a.example"], fake.statuses["GET /domains/a.example"] = `{"error":{"code":"Request_ResourceNotFound"}}`, 404
				_, err = fake.client.AddDomain(t.Context(), "a.example")
			case verify:
				fake.answers["GET /domains/a.example"] = `{"id":"a.example"}`
				_, err = fake.client.VerifyDomain(t.Context(), "a.example")
			default:
				err = fake.client.OpenSignIn(t.Context(), "o-1", "anna@a.example", secret.New("Corr3ct-horse-battery"))
			}
			expectOutcome(t, err, tc.wantKind, tc.wantCode)
		})
	}
}

// Graph may list the service Email for a verified domain before Exchange accepts the domain, so
// EnableMail writes the services each time.
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

func TestServicePrincipalIsReadFromTheTokenIfGraphDoesNotReturnIt(t *testing.T) {
	const readServicePrincipal = "GET /servicePrincipals(appId='c')"
	for name, tc := range map[string]struct {
		status   int    // answer to the request for the service principal
		oid      string // claim of the token
		wantStep tenant.BootstrapStep
		wantBody string // request body of the role assignment, "" if none is sent
	}{
		"not found, id in the token": {404, "sp-9", tenant.StepNone, `{"@odata.type":"#microsoft.graph.unifiedRoleAssignment",` +
			`"directoryScopeId":"/","principalId":"sp-9","roleDefinitionId":"29232cdf-9323-42fd-ade2-1d097af3e4de"}`},
		"not found, no id in the token": {404, "", tenant.StepWait, ""},
		"forbidden, no id in the token": {403, "", tenant.StepGrantRole, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fake := newFakePlatform(t)
			fake.statuses[readServicePrincipal] = tc.status
			payload := base64.RawURLEncoding.EncodeToString([]byte(`{"oid":"` + tc.oid + `"}`))
			fake.answers["POST /oauth2/v2.0/token"] = `{"access_token":"e30.` + payload + `.s"}`
			if tc.oid == "" {
				fake.statuses["Get-OrganizationConfig"] = 403
			}
			progress, err := fake.client.Bootstrap(t.Context())
			expectEqual(t, err, progress.Step, tc.wantStep)
			expectEqual(t, nil, fake.bodies["POST /roleManagement/directory/roleAssignments"], tc.wantBody)
		})
	}
}
