// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/tenant"
)

// Verify asks the platform to verify a domain, and returns the domain. It is idempotent.
//
// It fails with tenant_not_found, domain_not_found, access_denied, verification_failed, or an error
// of the platform.
func (s *Service) Verify(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	t, d, err := s.loadWithConsent(ctx, owner, id, name)
	if err != nil {
		return domain.Domain{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, workTimeout)
	defer cancel()
	if d, err = s.VerifyAndStore(ctx, owner, d); err != nil {
		return domain.Domain{}, err
	}
	// The domain is verified even if Reconciler.ReconcileDomain fails. The next request that
	// enables DKIM, syncs the tenant or creates mailboxes calls ReconcileDomain again.
	reconciled, err := s.Reconciler.ReconcileDomain(ctx, owner, d, t.Bootstrap == tenant.BootstrapReady)
	if err != nil {
		_ = s.RecordLostConsent(ctx, owner, id, err)
	}
	return reconciled, nil
}

func (s *Service) loadDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (tenant.Tenant, domain.Domain, error) {
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return t, domain.Domain{}, err
	}
	d, err := s.Domains.Domain(ctx, owner, id, domain.ParseNameOrNone(name))
	return t, d, err
}

// loadWithConsent loads a tenant and its domain. It fails with access_denied if the consent was
// revoked.
func (s *Service) loadWithConsent(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (tenant.Tenant, domain.Domain, error) {
	t, d, err := s.loadDomain(ctx, owner, id, name)
	if err == nil {
		err = t.CheckConsent()
	}
	return t, d, err
}
