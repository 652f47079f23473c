// SPDX-License-Identifier: Apache-2.0

package domainsteps

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// EnsureSigning makes the platform create the DKIM configuration of a domain, which specifies the
// two CNAME records. It fails with exchange_bootstrap_not_ready until the tenant's mail server is
// prepared, and with dkim_not_ready if the records do not exist yet.
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
// if the DNS does not show the DKIM records, or the platform does not see them.
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

// StartSigningOf starts DKIM signing of a domain and returns the stored domain. The caller must
// have checked the consent and the mail server. StartSigningOf checks the public DNS before it
// calls the platform, because the platform caches for a long time that a record is missing.
func (s *Steps) StartSigningOf(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	if d.Signing.Selector1.Name == "" {
		return domain.Domain{}, signingNotCreated()
	}
	if err := s.checkPublished(ctx, owner, d); err != nil {
		return domain.Domain{}, err
	}
	if err := enableSigning(ctx, s.Platform.For(d.TenantGUID), d.Name); err != nil {
		return domain.Domain{}, s.RecordLostConsent(ctx, owner, d.TenantGUID, err)
	}
	d.DKIMEnabled, d.Signing.Enabled, d.Observed.Signing = true, true, s.Now()
	return reconcile.SaveDomain(ctx, s.Domains, owner, d)
}

// checkPublished fails with dkim_not_ready if a DKIM record is not visible in the DNS, or if the
// DNS cannot be read.
func (s *Steps) checkPublished(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	zoneRead, err := reconcile.ReadZone(ctx, s.DNS, owner, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return fault.DKIMNotReady.With("the DKIM records could not be read from the DNS in time")
	}
	selector1, selector2 := dns.SelectorStates(zoneRead, d.Signing)
	if selector1 != dns.SelectorPropagated || selector2 != dns.SelectorPropagated {
		return fault.DKIMNotReady.With("selector1 is %s, selector2 is %s in the DNS", selector1, selector2)
	}
	return nil
}

// enableSigning starts signing at the platform. It resolves an unknown outcome by reading the
// signing state.
func enableSigning(ctx context.Context, platform ports.MailTenant, name string) error {
	return reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) error {
		return platform.EnableSigning(ctx, name)
	}, func(ctx context.Context) (bool, error) {
		var found dns.Signing
		err := reconcile.Call(ctx, func(ctx context.Context) (err error) {
			found, err = platform.Signing(ctx, name)
			return err
		})
		return found.Enabled, err
	})
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

// FetchSigning returns d with the signing state that the platform reports. It stores nothing,
// except a revocation of the tenant's consent.
func (s *Steps) FetchSigning(ctx context.Context, owner access.AccountID, t tenant.Tenant, d domain.Domain) (domain.Domain, error) {
	if err := t.CheckConsent(); err != nil {
		return d, err
	}
	err := reconcile.Call(ctx, func(ctx context.Context) error {
		began := s.Now()
		found, err := s.Platform.For(t.GUID).Signing(ctx, d.Name)
		if err == nil {
			d = d.WithSigning(found, began)
		}
		return err
	})
	return d, s.RecordLostConsent(ctx, owner, t.GUID, err)
}

func signingNotCreated() error {
	return fault.DKIMNotReady.With("the mail platform has not made the DKIM records yet")
}
