// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/ports/contract"
)

func step(t *testing.T, c sdk.MailTenant, status tenant.Bootstrap, want tenant.BootstrapStep) {
	t.Helper()
	p, err := c.Bootstrap(t.Context())
	if err != nil || p.Status != status || p.Step != want || p.Message == "" {
		t.Fatalf("got %+v, %v, want %s %s", p, err, status, want)
	}
}

func TestBootstrapWaitsForTheRoleToSpread(t *testing.T) {
	w := newWorld(t)
	who, c := w.consented(t, contract.Setup{}, knobs{"role_ms": 60_000})
	step(t, c, tenant.BootstrapPending, tenant.StepWait)
	step(t, c, tenant.BootstrapPending, tenant.StepWait)
	assign := "POST /graph/v1.0/roleManagement/directory/roleAssignments"
	if n := w.calls(t)[assign]; n != 1 {
		t.Fatalf("the role was assigned %d times", n)
	}
	w.Advance(t, 61e9)
	step(t, c, tenant.BootstrapReady, tenant.StepNone)
	w.Revoke(t, who.GUID, contract.GrantExchangeRole)
	w.behave(t, who.GUID, knobs{"role_ms": 0})
	step(t, c, tenant.BootstrapReady, tenant.StepNone)
	if n := w.calls(t)[assign]; n != 2 {
		t.Fatalf("the withdrawn role was assigned %d times", n-1)
	}
}

func TestBootstrapWithoutTheRolePermission(t *testing.T) {
	w := newWorld(t)
	_, c := w.consented(t, contract.Setup{Denied: true}, nil)
	step(t, c, tenant.BootstrapPending, tenant.StepGrantRole)
}

func TestBootstrapNoticesAWithdrawnAppRole(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, nil)
	w.control(t, http.MethodPost, "/tenants/"+string(who.GUID)+"/revoke", knobs{"what": "app_role"})
	_, err := c.Mailboxes(t.Context())
	ends(t, err, outcome.Refused, fault.AccessDenied)
	step(t, c, tenant.BootstrapFailed, tenant.StepReconnect)
}

func TestBootstrapNoticesWithdrawnConsent(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, nil)
	w.Revoke(t, who.GUID, contract.GrantConsent)
	_, err := c.Bootstrap(t.Context())
	ends(t, err, outcome.Refused, fault.AccessDenied)
}

func TestBootstrapWithoutExchange(t *testing.T) {
	w := newWorld(t)
	_, c := w.consented(t, contract.Setup{}, knobs{"no_exchange": true})
	step(t, c, tenant.BootstrapFailed, tenant.StepNoExchange)
	_, err := c.Mailboxes(t.Context())
	ends(t, err, outcome.Refused, fault.ExchangeNotReady)
}

func TestCustomizationIsAskedForOnce(t *testing.T) {
	w := newWorld(t)
	_, c := w.consented(t, contract.Setup{Dehydrated: true}, knobs{"hydrate_ms": 60_000})
	for range 3 {
		step(t, c, tenant.BootstrapPending, tenant.StepWait)
	}
	if n := w.calls(t)["Enable-OrganizationCustomization"]; n != 1 {
		t.Fatalf("asked for %d times", n)
	}
	w.Advance(t, 61e9)
	step(t, c, tenant.BootstrapReady, tenant.StepNone)
}

// Another process, or a run before a crash, may have asked already: then
// Exchange answers with an error that says nothing.
func TestCustomizationThatAnotherAskedFor(t *testing.T) {
	w := newWorld(t)
	who, c := w.consented(t, contract.Setup{Dehydrated: true}, knobs{"hydrate_ms": 60_000})
	step(t, c, tenant.BootstrapPending, tenant.StepWait)
	w.platform.(*platform).house.hydrated = &marks{}
	step(t, c, tenant.BootstrapPending, tenant.StepWait)
	w.Advance(t, 61e9)
	step(t, w.platform.For(who.GUID), tenant.BootstrapReady, tenant.StepNone)
}

// Asking while the mail server is busy was no request: it is made again.
func TestCustomizationThatWasNotTaken(t *testing.T) {
	w := newWorld(t)
	_, c := w.consented(t, contract.Setup{Dehydrated: true}, knobs{"hydrate_ms": 60_000, "cmdlets": busyOnce("Enable-OrganizationCustomization")})
	_, err := c.Bootstrap(t.Context())
	ends(t, err, outcome.Down, fault.ProviderUnavailable)
	step(t, c, tenant.BootstrapPending, tenant.StepWait)
	step(t, c, tenant.BootstrapPending, tenant.StepWait)
	w.Advance(t, 61e9)
	step(t, c, tenant.BootstrapReady, tenant.StepNone)
}

func TestSMTPAuth(t *testing.T) {
	w := newWorld(t)
	_, c := w.prepared(t, nil)
	smtpAuth(t, c, tenant.SMTPAuthDisabled)
	w.fault(t, knobs{"operation": "Set-TransportConfig", "kind": "status", "status": 403, "times": 2})
	ends(t, c.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
	smtpAuth(t, c, tenant.SMTPAuthDisabled)
	for range 2 {
		if err := c.EnableSMTPAuth(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	smtpAuth(t, c, tenant.SMTPAuthEnabled)
}

func TestSMTPAuthThatIsTakenWithoutEffect(t *testing.T) {
	w := newWorld(t)
	_, c := w.prepared(t, knobs{"cmdlets": knobs{
		"Set-TransportConfig": knobs{"errors": []string{"|System.Exception|not allowed"}},
	}})
	ends(t, c.EnableSMTPAuth(t.Context()), outcome.Refused, fault.SMTPAuthNotEnabled)
	smtpAuth(t, c, tenant.SMTPAuthDisabled)
}

func smtpAuth(t *testing.T, c sdk.MailTenant, want tenant.SMTPAuth) {
	t.Helper()
	if got, err := c.SMTPAuth(t.Context()); err != nil || got != want {
		t.Fatalf("got %s, %v, want %s", got, err, want)
	}
}
