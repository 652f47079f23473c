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
)

// DKIMReport is the DKIM state of a domain, with the live state of its two selectors.
type DKIMReport struct {
	Domain               domain.Domain
	Status               string // pending, ready or enabled
	Selector1, Selector2 dns.SelectorState
	ReadyToEnable        bool
	CheckedAt            time.Time
}

// EnableDKIM starts DKIM signing for a domain and returns the domain. It is idempotent.
//
// It fails with tenant_not_found, domain_not_found, dkim_not_ready, exchange_bootstrap_not_ready,
// access_denied, or an error of the platform.
func (s *Service) EnableDKIM(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	t, d, err := s.loadWithConsent(ctx, owner, id, name)
	if err != nil {
		return domain.Domain{}, err
	}
	if !d.Verified {
		return domain.Domain{}, fault.DKIMNotReady.With("the domain is not verified yet")
	}
	if err := t.CheckMailServer(); err != nil {
		return domain.Domain{}, err
	}
	ctx, cancel := reconcile.Detach(ctx, workTimeout)
	defer cancel()
	d, err = s.Reconciler.ReconcileDomain(ctx, owner, d, reconcile.MailServerReady)
	if err != nil {
		return domain.Domain{}, s.RecordLostConsent(ctx, owner, id, err)
	}
	if !d.DKIMEnabled {
		return s.StartSigningOf(ctx, owner, d)
	}
	return d, nil
}

// DKIMStatus reads a domain's DKIM records from the DNS and stores the result. It asks the platform
// for the CNAME targets only if they are not stored yet.
//
// It fails with tenant_not_found or domain_not_found, with provider_timeout when the DNS cannot be
// read, or with access_denied or an error of the platform.
func (s *Service) DKIMStatus(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (DKIMReport, error) {
	t, d, err := s.loadDomain(ctx, owner, id, name)
	if err != nil {
		return DKIMReport{}, err
	}
	if d.Signing.Selector1.Name == "" && d.Verified && t.Bootstrap == tenant.BootstrapReady {
		if d, err = s.FetchSigning(ctx, owner, t, d); err != nil {
			return DKIMReport{}, err
		}
	}
	return s.readDKIMReport(ctx, owner, d)
}

func (s *Service) readDKIMReport(ctx context.Context, owner access.AccountID, d domain.Domain) (DKIMReport, error) {
	began := s.Now()
	zoneRead, err := reconcile.ReadZone(ctx, s.DNS, owner, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return DKIMReport{}, fault.ProviderTimeout.With("the DNS could not be read in time")
	}
	if d, err = reconcile.SaveDomain(ctx, s.Domains, owner, d.WithRead(zoneRead, began, reconcile.PlatformHosts(ctx, s.Facts))); err != nil {
		return DKIMReport{}, err
	}
	r := DKIMReport{Domain: d, CheckedAt: d.CheckedAt}
	r.Selector1, r.Selector2 = dns.SelectorStates(zoneRead, d.Signing)
	r.Status = d.DKIMStatus(r.Selector1, r.Selector2)
	r.ReadyToEnable = r.Status == domain.DKIMReady
	return r, nil
}
