// SPDX-License-Identifier: Apache-2.0

package tenant_test

import (
	"testing"

	"github.com/tenantry/tenantry/core/tenant"
)

func TestStatus(t *testing.T) {
	ready := tenant.Tenant{
		Consent: tenant.ConsentGranted, Bootstrap: tenant.BootstrapReady, SMTPAuth: tenant.SMTPAuthEnabled, DomainCount: 1, DomainsVerified: 1,
	}
	for _, tt := range []struct {
		name   string
		change func(*tenant.Tenant)
		want   tenant.Status
	}{
		{"mailboxes can be created", func(*tenant.Tenant) {}, tenant.StatusReady},
		{"a tenant that was just connected", func(held *tenant.Tenant) {
			held.Bootstrap, held.SMTPAuth = tenant.BootstrapPending, tenant.SMTPAuthUnknown
		}, tenant.StatusPending},
		{"no verified domain", func(held *tenant.Tenant) { held.DomainsVerified = 0 }, tenant.StatusPending},
		{"SMTP AUTH is off", func(held *tenant.Tenant) { held.SMTPAuth = tenant.SMTPAuthDisabled }, tenant.StatusPending},
		{"the mail server cannot be prepared", func(held *tenant.Tenant) { held.Bootstrap = tenant.BootstrapFailed }, tenant.StatusFailed},
		{"no consent, whatever else", func(held *tenant.Tenant) {
			held.Consent, held.Bootstrap = tenant.ConsentRevoked, tenant.BootstrapFailed
		}, tenant.StatusRevoked},
	} {
		t.Run(tt.name, func(t *testing.T) {
			held := ready
			tt.change(&held)
			if got := held.Readiness(true).Status(); got != tt.want {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
		})
	}
}
