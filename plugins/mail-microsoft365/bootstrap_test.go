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
	progress, err := client.Bootstrap(t.Context())
	if err != nil || progress.Status != wantStatus || progress.Step != wantStep || progress.Message == "" {
		t.Fatalf("Bootstrap returns %+v, %v, want the status %s, the step %q and a message", progress, err, wantStatus, wantStep)
	}
}

func TestBootstrapWaitsUntilTheRoleTakesEffect(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.consentedTenant(t, contract.Setup{}, options{"role_ms": 60_000})
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	assignment := "POST /graph/v1.0/roleManagement/directory/roleAssignments"
	if n := env.calls(t)[assignment]; n != 1 {
		t.Fatalf("the role was assigned %d times, want once", n)
	}
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, client, tenant.BootstrapReady, tenant.StepNone)
	env.Revoke(t, tenantInfo.GUID, contract.GrantExchangeRole)
	env.setBehaviour(t, tenantInfo.GUID, options{"role_ms": 0})
	expectBootstrap(t, client, tenant.BootstrapReady, tenant.StepNone)
	if n := env.calls(t)[assignment]; n != 2 {
		t.Fatalf("the role was assigned %d times, want twice, the second time after it was revoked", n)
	}
}

func TestBootstrapAsksForTheRoleThatItMayNotAssign(t *testing.T) {
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

// The test deletes the record that this process has requested the customization. The next request
// is then a second one, as if a different process had sent the first. Exchange refuses it with an
// unspecific error.
func TestBootstrapAcceptsCustomizationRequestedElsewhere(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.consentedTenant(t, contract.Setup{Dehydrated: true}, options{"hydrate_ms": 60_000})
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	env.platform.(*platform).state.customizationRequestedAt = &tenantTimes{}
	expectBootstrap(t, client, tenant.BootstrapPending, tenant.StepWait)
	env.Advance(t, 61*time.Second)
	expectBootstrap(t, env.platform.For(tenantInfo.GUID), tenant.BootstrapReady, tenant.StepNone)
}

// If Exchange refuses the request for the customization because it is busy, the next Bootstrap
// repeats the request.
func TestBootstrapRepeatsACustomizationRequestAfterABusyAnswer(t *testing.T) {
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
	// Two refusals are necessary, because the plugin sends a refused request once more, with a new
	// token.
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
