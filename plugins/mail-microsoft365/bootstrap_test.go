// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

func expectBootstrap(t *testing.T, client sdk.MailTenant, wantStatus tenant.Bootstrap, wantStep tenant.BootstrapStep) {
	t.Helper()
	p, err := client.Bootstrap(t.Context())
	if err != nil || p.Status != wantStatus || p.Step != wantStep || p.Message == "" {
		t.Fatalf("Bootstrap returns %+v, %v, want %s %s with a message", p, err, wantStatus, wantStep)
	}
}

func TestBootstrapWaitsUntilTheRoleTakesEffect(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.consentedTenant(t, contract.Setup{}, options{"role_ms": 60_000})
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	roleAssignment := "POST /graph/v1.0/roleManagement/directory/roleAssignments"
	if n := env.calls(t)[roleAssignment]; n != 1 {
		t.Fatalf("the role was assigned %d times, want once", n)
	}
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, client, tenant.BootstrapReady, tenant.StepNone)
	env.Revoke(t, tenantInfo.GUID, contract.GrantExchangeRole)
	env.setBehaviour(t, tenantInfo.GUID, options{"role_ms": 0})
	expectBootstrap(t, client, tenant.BootstrapReady, tenant.StepNone)
	if n := env.calls(t)[roleAssignment]; n != 2 {
		t.Fatalf("the withdrawn role was assigned again %d times, want once", n-1)
	}
}

func TestBootstrapAsksForTheRoleItMayNotAssign(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.consentedTenant(t, contract.Setup{Denied: true}, nil)
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepGrantRole)
}

func TestBootstrapReportsARevokedAppRole(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	env.control(t, http.MethodPost, "/tenants/"+string(tenantInfo.GUID)+"/revoke", options{"what": "app_role"})
	_, err := client.Mailboxes(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
	expectBootstrap(t, client, tenant.BootstrapFailed, tenant.StepReconnect)
}

func TestBootstrapReportsRevokedConsent(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	env.Revoke(t, tenantInfo.GUID, contract.GrantConsent)
	_, err := client.Bootstrap(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
}

func TestBootstrapFailsWithoutExchange(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.consentedTenant(t, contract.Setup{}, options{"no_exchange": true})
	expectBootstrap(t, client, tenant.BootstrapFailed, tenant.StepNoExchange)
	_, err := client.Mailboxes(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.ExchangeNotReady)
}

func TestBootstrapRequestsCustomizationOnce(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.consentedTenant(t, contract.Setup{Dehydrated: true}, options{"hydrate_ms": 60_000})
	for range 3 {
		expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	}
	if n := env.calls(t)["Enable-OrganizationCustomization"]; n != 1 {
		t.Fatalf("the customization was requested %d times, want once", n)
	}
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, client, tenant.BootstrapReady, tenant.StepNone)
}

// A different process, or a run before a crash, may have requested the customization. Exchange then
// answers with an unspecific error.
func TestBootstrapAcceptsCustomizationRequestedElsewhere(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.consentedTenant(t, contract.Setup{Dehydrated: true}, options{"hydrate_ms": 60_000})
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	env.platform.(*platform).state.customizationRequested = &tenantTimes{}
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, env.platform.For(tenantInfo.GUID), tenant.BootstrapReady, tenant.StepNone)
}

// A customization request that Exchange refuses because Exchange is busy does not count as made.
func TestBootstrapRepeatsACustomizationRequestThatFailed(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.consentedTenant(t, contract.Setup{Dehydrated: true}, options{"hydrate_ms": 60_000, "cmdlets": busyOnce("Enable-OrganizationCustomization")})
	_, err := client.Bootstrap(t.Context())
	expectOutcome(t, err, outcome.Down, fault.ProviderUnavailable)
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, client, tenant.BootstrapReady, tenant.StepNone)
}

func TestEnableSMTPAuthCanBeRepeatedAfterARefusal(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, nil)
	expectSMTPAuth(t, client, tenant.SMTPAuthDisabled)
	env.injectFault(t, options{"operation": "Set-TransportConfig", "kind": "status", "status": 403, "times": 2})
	expectOutcome(t, client.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
	expectSMTPAuth(t, client, tenant.SMTPAuthDisabled)
	for range 2 {
		if err := client.EnableSMTPAuth(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expectSMTPAuth(t, client, tenant.SMTPAuthEnabled)
}

func TestEnableSMTPAuthIsRefusedWhenTheSettingStaysOff(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, options{"cmdlets": options{
		"Set-TransportConfig": options{"errors": []string{"|System.Exception|not allowed"}},
	}})
	expectOutcome(t, client.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
	expectSMTPAuth(t, client, tenant.SMTPAuthDisabled)
}

func expectSMTPAuth(t *testing.T, client sdk.MailTenant, want tenant.SMTPAuth) {
	t.Helper()
	if got, err := client.SMTPAuth(t.Context()); err != nil || got != want {
		t.Fatalf("SMTPAuth returns %s, %v, want %s", got, err, want)
	}
}
