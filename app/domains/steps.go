// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

// The methods in this file are steps of provisioning jobs at the mail platform. Each tries once.
// The job schedules its own retries.

// Prove asks the mail platform to verify a domain, and stores the result. It fails with
// verification_failed when the platform does not see the record.
func (s *Service) Prove(ctx context.Context, owner access.AccountID, domainID string) error {
	_, d, err := s.loadReachableByID(ctx, owner, domainID)
	if err == nil {
		_, err = s.verifyAndStore(ctx, owner, d)
	}
	return err
}

// EnableMail enables the e-mail service of a verified domain. It fails with exchange_not_ready
// while the tenant's mail server is not prepared.
func (s *Service) EnableMail(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.loadReachableByID(ctx, owner, domainID)
	if err != nil {
		return err
	}
	if _, err = s.Reconciler.Mail(ctx, owner, d, t.Bootstrap == tenant.BootstrapReady); err != nil {
		return s.recordLostConsent(ctx, owner, t.GUID, err)
	}
	return checkMailServerReady(t)
}

// EnsureSigning makes the platform create the DKIM records of a domain. It fails with
// exchange_not_ready, or with dkim_not_ready while the records do not exist.
func (s *Service) EnsureSigning(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.loadReachableByID(ctx, owner, domainID)
	if err == nil {
		err = checkMailServerReady(t)
	}
	if err != nil {
		return err
	}
	d, err = s.Reconciler.Signing(ctx, owner, d)
	if err == nil && d.Signing.Selector1.Name == "" {
		return signingNotCreated()
	}
	return s.recordLostConsent(ctx, owner, t.GUID, err)
}

// StartSigning enables DKIM signing once the DKIM records are visible. It does nothing when the
// stored state says that signing is enabled. It fails with exchange_not_ready or dkim_not_ready.
func (s *Service) StartSigning(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.loadReachableByID(ctx, owner, domainID)
	if err == nil {
		err = checkMailServerReady(t)
	}
	if err == nil && !d.DKIM {
		_, err = s.startSigning(ctx, owner, d)
	}
	return err
}

// Signs returns whether the platform signs a domain, and stores the answer. It fails with
// exchange_not_ready or an error of the platform.
func (s *Service) Signs(ctx context.Context, owner access.AccountID, domainID string) (bool, error) {
	t, d, err := s.loadReachableByID(ctx, owner, domainID)
	if err == nil {
		err = checkMailServerReady(t)
	}
	if err == nil {
		d, err = s.fetchSigning(ctx, owner, t, d)
	}
	if err != nil {
		return false, err
	}
	d, err = reconcile.Change(ctx, s.Domains, owner, d, func(stored *domain.Domain) { stored.DKIM, stored.Signing = d.DKIM, d.Signing })
	return d.DKIM, err
}

func (s *Service) loadReachableByID(ctx context.Context, owner access.AccountID, domainID string) (tenant.Tenant, domain.Domain, error) {
	d, err := s.Domains.DomainByID(ctx, owner, domainID)
	if err != nil {
		return tenant.Tenant{}, d, err
	}
	t, err := s.Tenants.Tenant(ctx, owner, d.TenantGUID)
	if err == nil {
		err = t.Reachable()
	}
	return t, d, err
}

// checkMailServerReady fails with exchange_not_ready unless the tenant's mail server is prepared.
func checkMailServerReady(t tenant.Tenant) error {
	if t.Bootstrap != tenant.BootstrapReady {
		return fault.ExchangeNotReady.With("the mail server of the tenant is not prepared yet")
	}
	return nil
}

func signingNotCreated() error {
	return fault.DKIMNotReady.With("the mail platform has not made the DKIM records yet")
}
