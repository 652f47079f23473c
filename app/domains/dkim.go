// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// DKIMReport is the live DKIM state of a domain.
type DKIMReport struct {
	Domain               domain.Domain
	Status               string // pending, ready or enabled
	Selector1, Selector2 dns.Selector
	ReadyToEnable        bool
	CheckedAt            time.Time
}

// EnableDKIM starts DKIM signing for a domain and returns the domain. It is idempotent.
//
// It fails with tenant_not_found, domain_not_found, dkim_not_ready, exchange_not_ready, a code of
// Tenant.Reachable, or an error of the platform.
func (s *Service) EnableDKIM(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	t, d, err := s.loadReachable(ctx, owner, id, name)
	if err != nil {
		return domain.Domain{}, err
	}
	if !d.Verified {
		return domain.Domain{}, fault.DKIMNotReady.With("the domain is not verified yet")
	}
	if err := checkMailServerReady(t); err != nil {
		return domain.Domain{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, workLimit)
	defer cancel()
	d, err = s.Reconciler.Domain(ctx, owner, d, true)
	if err != nil {
		return domain.Domain{}, s.recordLostConsent(ctx, owner, id, err)
	}
	if !d.DKIM {
		return s.startSigning(ctx, owner, d)
	}
	return d, nil
}

// startSigning checks the public DNS before it calls the platform. The platform caches a missing
// record for a long time.
func (s *Service) startSigning(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	if d.Signing.Selector1.Name == "" {
		return domain.Domain{}, signingNotCreated()
	}
	if err := s.checkPublished(ctx, d); err != nil {
		return domain.Domain{}, err
	}
	if err := enable(ctx, s.Platform.For(d.TenantGUID), d.Name); err != nil {
		return domain.Domain{}, s.recordLostConsent(ctx, owner, d.TenantGUID, err)
	}
	return reconcile.Change(ctx, s.Domains, owner, d, func(stored *domain.Domain) {
		stored.DKIM, stored.Signing.Enabled = true, true
	})
}

// checkPublished fails with dkim_not_ready unless both DKIM records are visible in the DNS.
func (s *Service) checkPublished(ctx context.Context, d domain.Domain) error {
	sight, err := reconcile.Sight(ctx, s.DNS, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return fault.DKIMNotReady.With("the DKIM records could not be read from the DNS in time")
	}
	selector1, selector2 := dns.ReadSelectors(sight, d.Signing)
	if selector1 != dns.SelectorPropagated || selector2 != dns.SelectorPropagated {
		return fault.DKIMNotReady.With("selector1 is %s, selector2 is %s in the DNS", selector1, selector2)
	}
	return nil
}

// enable starts signing at the platform. It resolves an unknown outcome by reading the signing
// state.
func enable(ctx context.Context, platform ports.MailTenant, name string) error {
	failpoint.Hit("domains.before-enable-dkim")
	return reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) error {
		err := platform.EnableSigning(ctx, name)
		failpoint.Hit("domains.after-enable-dkim")
		return err
	}, func(ctx context.Context) (bool, error) {
		var found dns.Signing
		err := reconcile.Call(ctx, func(ctx context.Context) (err error) {
			found, err = platform.Signing(ctx, name)
			return err
		})
		return found.Enabled, err
	})
}

// DKIMStatus reads a domain's DKIM records from the DNS and stores the result. It asks the platform
// only for CNAME targets that are not stored yet.
//
// It fails with tenant_not_found or domain_not_found, with provider_timeout when the DNS cannot be
// read, or with an error of the platform.
func (s *Service) DKIMStatus(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (DKIMReport, error) {
	t, d, err := s.loadDomain(ctx, owner, id, name)
	if err != nil {
		return DKIMReport{}, err
	}
	if d.Signing.Selector1.Name == "" && d.Verified && t.Bootstrap == tenant.BootstrapReady {
		if d, err = s.fetchSigning(ctx, owner, t, d); err != nil {
			return DKIMReport{}, err
		}
	}
	return s.report(ctx, owner, d)
}

// fetchSigning returns d with the signing state that the platform reports. It does not store it.
func (s *Service) fetchSigning(ctx context.Context, owner access.AccountID, t tenant.Tenant, d domain.Domain) (domain.Domain, error) {
	if err := t.Reachable(); err != nil {
		return d, err
	}
	err := reconcile.Call(ctx, func(ctx context.Context) (err error) {
		d.Signing, err = s.Platform.For(t.GUID).Signing(ctx, d.Name)
		return err
	})
	d.DKIM = d.Signing.Enabled
	return d, s.recordLostConsent(ctx, owner, t.GUID, err)
}

func (s *Service) report(ctx context.Context, owner access.AccountID, d domain.Domain) (DKIMReport, error) {
	sight, err := reconcile.Sight(ctx, s.DNS, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return DKIMReport{}, fault.ProviderTimeout.With("the DNS could not be read in time")
	}
	fetched := d.Signing
	d, err = reconcile.Change(ctx, s.Domains, owner, d.WithRead(sight, s.Now()), func(stored *domain.Domain) {
		if stored.Signing.Selector1.Name == "" {
			stored.Signing, stored.DKIM = fetched, fetched.Enabled
		}
	})
	if err != nil {
		return DKIMReport{}, err
	}
	r := DKIMReport{Domain: d, CheckedAt: d.CheckedAt}
	r.Selector1, r.Selector2 = dns.ReadSelectors(sight, d.Signing)
	r.Status = d.DKIMStatus(r.Selector1, r.Selector2)
	r.ReadyToEnable = r.Status == domain.DKIMReady
	return r, nil
}
