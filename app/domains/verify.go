// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Verify asks the platform to verify a domain, and returns the stored domain. It is idempotent.
//
// It fails with tenant_not_found, domain_not_found, a code of Tenant.Reachable,
// verification_failed, or an error of the platform.
func (s *Service) Verify(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	t, d, err := s.loadReachable(ctx, owner, id, name)
	if err != nil {
		return domain.Domain{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, workLimit)
	defer cancel()
	if d, err = s.verifyAndStore(ctx, owner, d); err != nil {
		return domain.Domain{}, err
	}
	// The domain is verified even if the pass fails. The next sync, enable-dkim or provision
	// repeats the pass.
	settled, err := s.Reconciler.Domain(ctx, owner, d, t.Bootstrap == tenant.BootstrapReady)
	if err != nil {
		_ = s.recordLostConsent(ctx, owner, id, err)
	}
	return settled, nil
}

// verifyAndStore asks the platform to verify a domain, and stores the result.
func (s *Service) verifyAndStore(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	held, err := verifyAtPlatform(ctx, s.Platform.For(d.TenantGUID), d.Name)
	if err != nil {
		return d, s.recordFailedVerification(ctx, owner, d, err)
	}
	return reconcile.Change(ctx, s.Domains, owner, d, func(stored *domain.Domain) { *stored = stored.As(held) })
}

func (s *Service) loadDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (tenant.Tenant, domain.Domain, error) {
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return t, domain.Domain{}, err
	}
	d, err := s.Domains.Domain(ctx, owner, id, domain.Lookup(name))
	return t, d, err
}

// loadReachable loads a tenant and its domain. It fails when the tenant cannot be reached.
func (s *Service) loadReachable(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (tenant.Tenant, domain.Domain, error) {
	t, d, err := s.loadDomain(ctx, owner, id, name)
	if err == nil {
		err = t.Reachable()
	}
	return t, d, err
}

// verifyAtPlatform resolves an unknown outcome by reading the domain.
func verifyAtPlatform(ctx context.Context, platform ports.MailTenant, name string) (held domain.Platform, err error) {
	failpoint.Hit("domains.before-verify")
	err = reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) (err error) {
		held, err = platform.VerifyDomain(ctx, name)
		failpoint.Hit("domains.after-verify")
		return err
	}, func(ctx context.Context) (_ bool, err error) {
		held, err = fetchDomain(ctx, platform, name)
		return held.Verified, err
	})
	return held, err
}

// recordFailedVerification stores the current DNS of a domain that failed verification. The DNS
// distinguishes a missing record from one that the platform does not see yet.
func (s *Service) recordFailedVerification(ctx context.Context, owner access.AccountID, d domain.Domain, cause error) error {
	if errors.Is(cause, fault.VerificationFailed) {
		if _, err := reconcile.Change(ctx, s.Domains, owner, s.Reconciler.Look(ctx, d), noChange); err != nil {
			return err
		}
	}
	return s.recordLostConsent(ctx, owner, d.TenantGUID, cause)
}

func noChange(*domain.Domain) {}
