// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// DKIMReport is the live state of a domain's DKIM.
type DKIMReport struct {
	Domain               domain.Domain
	Status               string // pending, ready or enabled
	Selector1, Selector2 dns.Selector
	ReadyToEnable        bool
	CheckedAt            time.Time
}

// EnableDKIM starts DKIM signing for a domain. It is safe to repeat.
func (s *Service) EnableDKIM(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	t, d, err := s.reach(ctx, owner, id, name)
	if err != nil {
		return domain.Domain{}, err
	}
	if !d.Verified {
		return domain.Domain{}, fault.DKIMNotReady.With("the domain is not verified yet")
	}
	if err := prepared(t); err != nil {
		return domain.Domain{}, err
	}
	ctx, cancel := settling.Detach(ctx, workLimit)
	defer cancel()
	d, err = s.Settling.Domain(ctx, owner, d, true)
	if err != nil {
		return domain.Domain{}, s.noticed(ctx, owner, id, err)
	}
	if !d.DKIM {
		return s.startSigning(ctx, owner, d)
	}
	return d, nil
}

// startSigning looks at the DNS first: the platform remembers for a long time
// that it did not see a record.
func (s *Service) startSigning(ctx context.Context, owner access.AccountID, d domain.Domain) (domain.Domain, error) {
	if d.Signing.Selector1.Name == "" {
		return domain.Domain{}, unsigned()
	}
	if err := s.published(ctx, d); err != nil {
		return domain.Domain{}, err
	}
	if err := enable(ctx, s.Platform.For(d.TenantGUID), d.Name); err != nil {
		return domain.Domain{}, s.noticed(ctx, owner, d.TenantGUID, err)
	}
	return settling.Change(ctx, s.Domains, owner, d, func(stored *domain.Domain) {
		stored.DKIM, stored.Signing.Enabled = true, true
	})
}

func (s *Service) published(ctx context.Context, d domain.Domain) error {
	sight, err := settling.Sight(ctx, s.DNS, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return fault.DKIMNotReady.With("the DKIM records could not be read from the DNS in time")
	}
	selector1, selector2 := dns.ReadSelectors(sight, d.Signing)
	if selector1 != dns.SelectorPropagated || selector2 != dns.SelectorPropagated {
		return fault.DKIMNotReady.With("selector1 is %s, selector2 is %s in the DNS", selector1, selector2)
	}
	return nil
}

// enable settles a lost answer by looking.
func enable(ctx context.Context, at ports.MailTenant, name string) error {
	failpoint.Hit("domains.before-enable-dkim")
	err := settling.Call(ctx, func(ctx context.Context) error { return at.EnableSigning(ctx, name) })
	failpoint.Hit("domains.after-enable-dkim")
	if err == nil || outcome.Settled(err) {
		return err
	}
	var found dns.Signing
	lost := settling.Call(ctx, func(ctx context.Context) (err error) {
		found, err = at.Signing(ctx, name)
		return err
	})
	if lost == nil && found.Enabled {
		return nil
	}
	return err
}

// DKIMStatus reads a domain's DKIM records live. It asks the platform only for
// targets that are not stored yet.
func (s *Service) DKIMStatus(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (DKIMReport, error) {
	t, d, err := s.find(ctx, owner, id, name)
	if err != nil {
		return DKIMReport{}, err
	}
	if d.Signing.Selector1.Name == "" && d.Verified && t.Bootstrap == tenant.BootstrapReady {
		if d, err = s.learnSigning(ctx, owner, t, d); err != nil {
			return DKIMReport{}, err
		}
	}
	return s.report(ctx, owner, d)
}

func (s *Service) learnSigning(ctx context.Context, owner access.AccountID, t tenant.Tenant, d domain.Domain) (domain.Domain, error) {
	if err := t.Reachable(); err != nil {
		return d, err
	}
	err := settling.Call(ctx, func(ctx context.Context) (err error) {
		d.Signing, err = s.Platform.For(t.GUID).Signing(ctx, d.Name)
		return err
	})
	d.DKIM = d.Signing.Enabled
	return d, s.noticed(ctx, owner, t.GUID, err)
}

func (s *Service) report(ctx context.Context, owner access.AccountID, d domain.Domain) (DKIMReport, error) {
	sight, err := settling.Sight(ctx, s.DNS, d.Name, d.Signing.Wanted()...)
	if err != nil {
		return DKIMReport{}, fault.ProviderTimeout.With("the DNS could not be read in time")
	}
	learned := d.Signing
	d, err = settling.Change(ctx, s.Domains, owner, d.Looked(sight, s.Now()), func(stored *domain.Domain) {
		if stored.Signing.Selector1.Name == "" {
			stored.Signing, stored.DKIM = learned, learned.Enabled
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
