// SPDX-License-Identifier: Apache-2.0

// Package domainsteps has the steps that take a custom domain from its first DNS record to signed
// mail. Requests (app/domains) and provisioning jobs (app/dnsruns) share them.
//
// Start reading at Steps.
//
//   - steps.go: Steps, and the steps of provisioning jobs at the mail platform
//   - verify.go: the verification of a domain, which requests also use
//   - dkim.go: making, checking and enabling the DKIM records
//   - survey.go: Survey, the live read of a domain's DNS with its plan, and the write of the plan
//   - zone_holder.go: finds the DNS provider that serves a zone
//   - zone.go: OpenZone, which opens a zone to undo the changes of a run
package domainsteps

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Steps has the steps of domains and the ports that they use. A step does not retry. Its caller
// decides whether to run the step again. All fields except DMARC are required.
type Steps struct {
	Tenants    ports.Tenants
	Domains    ports.Domains
	Platform   ports.MailPlatform
	DNS        ports.DNSReader
	Facts      ports.PlatformFacts
	Reconciler *reconcile.Reconciler
	// Connections opens the zones of accounts at their DNS providers. Writes stores which records
	// tenantry intends to write and which it has written. Records that tenantry has not written are
	// foreign.
	Connections *dnsconnections.Service
	Writes      ports.DNSWrites
	// DMARC is the operator's DMARC record for domains that have none. It defaults to
	// dns.DefaultPolicy.
	DMARC string
	Now   func() time.Time
}

// EnableMail enables the e-mail service of a verified domain. It fails with
// exchange_bootstrap_not_ready until the tenant's mail server is prepared.
func (s *Steps) EnableMail(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.loadWithConsent(ctx, owner, domainID)
	if err != nil {
		return err
	}
	if _, err = s.Reconciler.SetUpMail(ctx, owner, d, t.Bootstrap == tenant.BootstrapReady); err != nil {
		return s.RecordLostConsent(ctx, owner, t.GUID, err)
	}
	return t.CheckMailServer()
}

func (s *Steps) loadWithConsent(ctx context.Context, owner access.AccountID, domainID string) (tenant.Tenant, domain.Domain, error) {
	d, err := s.Domains.DomainByID(ctx, owner, domainID)
	if err != nil {
		return tenant.Tenant{}, d, err
	}
	t, err := s.loadTenantWithConsent(ctx, owner, d)
	return t, d, err
}

// loadTenantWithConsent returns the tenant of a domain. It fails with access_denied if the consent
// was revoked.
func (s *Steps) loadTenantWithConsent(ctx context.Context, owner access.AccountID, d domain.Domain) (tenant.Tenant, error) {
	t, err := s.Tenants.Tenant(ctx, owner, d.TenantGUID)
	if err == nil {
		err = t.CheckConsent()
	}
	return t, err
}

// RecordLostConsent returns err, joined with the store's error if storing fails. If err is
// access_denied because the tenant's consent was revoked, RecordLostConsent first stores the
// revocation.
func (s *Steps) RecordLostConsent(ctx context.Context, owner access.AccountID, id tenant.GUID, err error) error {
	return reconcile.Consent{Tenants: s.Tenants, Platform: s.Platform, Now: s.Now}.RecordIfRevoked(ctx, owner, id, err)
}
