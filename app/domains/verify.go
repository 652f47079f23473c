// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Verify asks the platform to verify a domain. It is safe to repeat.
func (s *Service) Verify(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	t, d, err := s.reach(ctx, owner, id, name)
	if err != nil {
		return domain.Domain{}, err
	}
	ctx, cancel := settling.Detach(ctx, workLimit)
	defer cancel()
	if d, err = s.prove(ctx, owner, d); err != nil {
		return domain.Domain{}, err
	}
	// The domain is verified, whatever becomes of the pass; the next sync,
	// enable-dkim or provision makes another one.
	settled, err := s.Settling.Domain(ctx, owner, d, t.Bootstrap == tenant.BootstrapReady)
	if err != nil {
		_ = s.noticed(ctx, owner, id, err)
	}
	return settled, nil
}

// prove has the platform verify a domain and stores that it did.
func (s *Service) prove(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	held, err := verify(ctx, s.Platform.For(d.TenantGUID), d.Name)
	if err != nil {
		return d, s.unverified(ctx, owner, d, err)
	}
	return settling.Change(ctx, s.Domains, owner, d, func(stored *domain.Domain) { *stored = stored.As(held) })
}

func (s *Service) find(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (tenant.Tenant, domain.Domain, error) {
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return t, domain.Domain{}, err
	}
	d, err := s.Domains.Domain(ctx, owner, id, domain.Lookup(name))
	return t, d, err
}

// reach finds a domain for work at the platform.
func (s *Service) reach(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (tenant.Tenant, domain.Domain, error) {
	t, d, err := s.find(ctx, owner, id, name)
	if err == nil {
		err = t.Reachable()
	}
	return t, d, err
}

// verify settles a lost answer by looking.
func verify(ctx context.Context, at ports.MailTenant, name string) (held domain.Platform, err error) {
	failpoint.Hit("domains.before-verify")
	err = settling.Call(ctx, func(ctx context.Context) error {
		held, err = at.VerifyDomain(ctx, name)
		return err
	})
	failpoint.Hit("domains.after-verify")
	if err == nil || outcome.Settled(err) {
		return held, err
	}
	if found, lost := lookUp(ctx, at, name); lost == nil && found.Verified {
		return found, nil
	}
	return held, err
}

// unverified stores what the DNS shows now, which tells a record that is
// missing from one that only the platform does not see yet.
func (s *Service) unverified(ctx context.Context, owner access.AccountID, d domain.Domain, why error) error {
	if errors.Is(why, fault.VerificationFailed) {
		if _, err := settling.Change(ctx, s.Domains, owner, s.Settling.Look(ctx, d), nothing); err != nil {
			return err
		}
	}
	return s.noticed(ctx, owner, d.TenantGUID, why)
}

func nothing(*domain.Domain) {}
