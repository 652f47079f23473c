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

func expectBootstrap(t *testing.T, c sdk.MailTenant, wantStatus tenant.Bootstrap, wantStep tenant.BootstrapStep) {
	t.Helper()
	p, err := c.Bootstrap(t.Context())
	if err != nil || p.Status != wantStatus || p.Step != wantStep || p.Message == "" {
		t.Fatalf("got %+v, %v, want %s %s", p, err, wantStatus, wantStep)
	}
}

func TestBootstrapWaitsUntilTheRoleTakesEffect(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, c := env.consentedTenant(t, contract.Setup{}, options{"role_ms": 60_000})
	expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepWait)
	expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepWait)
	roleAssignment := "POST /graph/v1.0/roleManagement/directory/roleAssignments"
	if n := env.calls(t)[roleAssignment]; n != 1 {
		t.Fatalf("the role was assigned %d times", n)
	}
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, c, tenant.BootstrapReady, tenant.StepNone)
	env.Revoke(t, tenantInfo.GUID, contract.GrantExchangeRole)
	env.setBehaviour(t, tenantInfo.GUID, options{"role_ms": 0})
	expectBootstrap(t, c, tenant.BootstrapReady, tenant.StepNone)
	if n := env.calls(t)[roleAssignment]; n != 2 {
		t.Fatalf("the withdrawn role was assigned %d times", n-1)
	}
}

func TestBootstrapAsksForTheRoleItMayNotAssign(t *testing.T) {
	env := newTestEnv(t)
	_, c := env.consentedTenant(t, contract.Setup{Denied: true}, nil)
	expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepGrantRole)
}

func TestBootstrapReportsARevokedAppRole(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, c := env.preparedTenant(t, nil)
	env.control(t, http.MethodPost, "/tenants/"+string(tenantInfo.GUID)+"/revoke", options{"what": "app_role"})
	_, err := c.Mailboxes(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
	expectBootstrap(t, c, tenant.BootstrapFailed, tenant.StepReconnect)
}

func TestBootstrapReportsRevokedConsent(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, c := env.preparedTenant(t, nil)
	env.Revoke(t, tenantInfo.GUID, contract.GrantConsent)
	_, err := c.Bootstrap(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.AccessDenied)
}

func TestBootstrapFailsWithoutExchange(t *testing.T) {
	env := newTestEnv(t)
	_, c := env.consentedTenant(t, contract.Setup{}, options{"no_exchange": true})
	expectBootstrap(t, c, tenant.BootstrapFailed, tenant.StepNoExchange)
	_, err := c.Mailboxes(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.ExchangeNotReady)
}

func TestBootstrapRequestsCustomizationOnce(t *testing.T) {
	env := newTestEnv(t)
	_, c := env.consentedTenant(t, contract.Setup{Dehydrated: true}, options{"hydrate_ms": 60_000})
	for range 3 {
		expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepWait)
	}
	if n := env.calls(t)["Enable-OrganizationCustomization"]; n != 1 {
		t.Fatalf("the customization was requested %d times", n)
	}
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, c, tenant.BootstrapReady, tenant.StepNone)
}

// A different process, or a run before a crash, may have requested the customization. Exchange then
// answers with an unspecific error.
func TestBootstrapAcceptsCustomizationRequestedElsewhere(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, c := env.consentedTenant(t, contract.Setup{Dehydrated: true}, options{"hydrate_ms": 60_000})
	expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepWait)
	env.platform.(*platform).state.customizationRequested = &tenantTimes{}
	expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepWait)
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, env.platform.For(tenantInfo.GUID), tenant.BootstrapReady, tenant.StepNone)
}

// A customization request that Exchange refuses because Exchange is busy does not count as made.
func TestBootstrapRepeatsACustomizationRequestThatFailed(t *testing.T) {
	env := newTestEnv(t)
	_, c := env.consentedTenant(t, contract.Setup{Dehydrated: true}, options{"hydrate_ms": 60_000, "cmdlets": busyOnce("Enable-OrganizationCustomization")})
	_, err := c.Bootstrap(t.Context())
	expectOutcome(t, err, outcome.Down, fault.ProviderUnavailable)
	expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepWait)
	expectBootstrap(t, c, tenant.BootstrapPending, tenant.StepWait)
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, c, tenant.BootstrapReady, tenant.StepNone)
}

func TestEnableSMTPAuthCanBeRepeatedAfterARefusal(t *testing.T) {
	env := newTestEnv(t)
	_, c := env.preparedTenant(t, nil)
	expectSMTPAuth(t, c, tenant.SMTPAuthDisabled)
	env.injectFault(t, options{"operation": "Set-TransportConfig", "kind": "status", "status": 403, "times": 2})
	expectOutcome(t, c.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
	expectSMTPAuth(t, c, tenant.SMTPAuthDisabled)
	for range 2 {
		if err := c.EnableSMTPAuth(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expectSMTPAuth(t, c, tenant.SMTPAuthEnabled)
}

func TestEnableSMTPAuthIsRefusedWhenTheSettingStaysOff(t *testing.T) {
	env := newTestEnv(t)
	_, c := env.preparedTenant(t, options{"cmdlets": options{
		"Set-TransportConfig": options{"errors": []string{"|System.Exception|not allowed"}},
	}})
	expectOutcome(t, c.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
	expectSMTPAuth(t, c, tenant.SMTPAuthDisabled)
}

func expectSMTPAuth(t *testing.T, c sdk.MailTenant, want tenant.SMTPAuth) {
	t.Helper()
	if got, err := c.SMTPAuth(t.Context()); err != nil || got != want {
		t.Fatalf("got %s, %v, want %s", got, err, want)
	}
}
