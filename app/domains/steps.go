// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

// What follows are the steps of jobs at the mail platform. Each tries once; a
// job comes again by itself.

// Prove has the mail platform verify a domain.
func (s *Service) Prove(ctx context.Context, owner access.AccountID, domainID string) error {
	_, d, err := s.reachByID(ctx, owner, domainID)
	if err == nil {
		_, err = s.prove(ctx, owner, d)
	}
	return err
}

// EnableMail has the platform take up the e-mail service of a verified domain.
// It is exchange_not_ready as long as the tenant's mail server is.
func (s *Service) EnableMail(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.reachByID(ctx, owner, domainID)
	if err != nil {
		return err
	}
	if _, err = s.Settling.Mail(ctx, owner, d, t.Bootstrap == tenant.BootstrapReady); err != nil {
		return s.noticed(ctx, owner, t.GUID, err)
	}
	return prepared(t)
}

// EnsureSigning has the platform make the DKIM records of a domain.
func (s *Service) EnsureSigning(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.reachByID(ctx, owner, domainID)
	if err == nil {
		err = prepared(t)
	}
	if err != nil {
		return err
	}
	d, err = s.Settling.Signing(ctx, owner, d)
	if err == nil && d.Signing.Selector1.Name == "" {
		return unsigned()
	}
	return s.noticed(ctx, owner, t.GUID, err)
}

// StartSigning has the platform sign once the DKIM records are visible, unless
// it did when EnsureSigning or Signs last asked.
func (s *Service) StartSigning(ctx context.Context, owner access.AccountID, domainID string) error {
	t, d, err := s.reachByID(ctx, owner, domainID)
	if err == nil {
		err = prepared(t)
	}
	if err == nil && !d.DKIM {
		_, err = s.startSigning(ctx, owner, d)
	}
	return err
}

// Signs asks the platform whether it signs a domain, and stores the answer.
func (s *Service) Signs(ctx context.Context, owner access.AccountID, domainID string) (bool, error) {
	t, d, err := s.reachByID(ctx, owner, domainID)
	if err == nil {
		err = prepared(t)
	}
	if err == nil {
		d, err = s.learnSigning(ctx, owner, t, d)
	}
	if err != nil {
		return false, err
	}
	d, err = settling.Change(ctx, s.Domains, owner, d, func(stored *domain.Domain) { stored.DKIM, stored.Signing = d.DKIM, d.Signing })
	return d.DKIM, err
}

func (s *Service) reachByID(ctx context.Context, owner access.AccountID, domainID string) (tenant.Tenant, domain.Domain, error) {
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

// prepared refuses work at a mail server that is not ready for it.
func prepared(t tenant.Tenant) error {
	if t.Bootstrap != tenant.BootstrapReady {
		return fault.ExchangeNotReady.With("the mail server of the tenant is not prepared yet")
	}
	return nil
}

func unsigned() error {
	return fault.DKIMNotReady.With("the mail platform has not made the DKIM records yet")
}
