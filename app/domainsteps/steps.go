// SPDX-License-Identifier: Apache-2.0

// Package domainsteps has the steps that take a custom domain from its first DNS record to signed
// mail. Requests (app/domains) and provisioning jobs (app/dnsruns) share them.
//
// Start reading at Steps.
//
//   - steps.go: Steps, and the steps of provisioning jobs at the mail platform
//   - platform.go: the platform calls of these steps, which requests also use
//   - survey.go: Survey, the live read of a domain's DNS with its plan, and the write of the plan
//   - zone_holder.go: finds the DNS provider that serves a zone
//   - zone.go: OpenZone, which opens a zone to undo the changes of a run
package domainsteps

import (
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/dnsconnections"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
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

// VerifyByID asks the mail platform to verify a domain, and stores the result. It fails with
// verification_failed when the platform does not see the verification record.
func (s *Steps) VerifyByID(ctx context.Context, owner access.AccountID, domainID string) error {
	_, d, err := s.loadWithConsent(ctx, owner, domainID)
	if err == nil {
		_, err = s.VerifyAndStore(ctx, owner, d)
	}
	return err
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

// EnsureSigning makes the platform create the DKIM records of a domain. It fails with
// exchange_bootstrap_not_ready until the tenant's mail server is prepared, and with dkim_not_ready
// if the records do not exist yet.
func (s *Steps) EnsureSigning(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.loadWithConsent(ctx, owner, domainID)
	if err == nil {
		err = t.CheckMailServer()
	}
	if err != nil {
		return err
	}
	d, err = s.Reconciler.CreateSigning(ctx, owner, d)
	if err == nil && d.Signing.Selector1.Name == "" {
		return signingNotCreated()
	}
	return s.RecordLostConsent(ctx, owner, t.GUID, err)
}

// StartSigning enables DKIM signing unless the stored state says that it is enabled. It fails with
// exchange_bootstrap_not_ready until the tenant's mail server is prepared, and with dkim_not_ready
// if the DNS does not show the DKIM records.
func (s *Steps) StartSigning(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.loadWithConsent(ctx, owner, domainID)
	if err == nil {
		err = t.CheckMailServer()
	}
	if err == nil && !d.DKIMEnabled {
		_, err = s.StartSigningOf(ctx, owner, d)
	}
	return err
}

// CheckSigning returns whether the platform signs the domain of a survey. It stores the DNS state
// of the survey, together with the platform's answer if there is one. It fails with access_denied,
// exchange_bootstrap_not_ready, or an error of the platform or the store.
func (s *Steps) CheckSigning(ctx context.Context, owner access.AccountID, survey Survey) (bool, error) {
	t, err := s.loadTenantWithConsent(ctx, owner, survey.Domain)
	if err == nil {
		err = t.CheckMailServer()
	}
	if err == nil {
		survey.Domain, err = s.FetchSigning(ctx, owner, t, survey.Domain)
	}
	stored, storeErr := s.StoreSurvey(ctx, owner, survey)
	return stored.DKIMEnabled, errors.Join(err, storeErr)
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

func signingNotCreated() error {
	return fault.DKIMNotReady.With("the mail platform has not made the DKIM records yet")
}
