// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// Added is the result of adding a domain.
type Added struct {
	Exists bool // it was on this tenant already; nothing changed
	Domain domain.Domain
	Live   dns.Status
	DKIM   DKIMState
}

// DKIMState is a word and a sentence on where DKIM stands.
type DKIMState struct {
	Status  string // pending, ready or enabled
	Message string
}

// Add adds a domain to a tenant.
func (s *Service) Add(ctx context.Context, acc access.Account, id tenant.GUID, raw string) (Added, error) {
	t, err := s.Tenants.Tenant(ctx, acc.ID, id)
	if err != nil {
		return Added{}, err
	}
	name, err := domain.Name(raw)
	if err != nil {
		return Added{}, err
	}
	if err := t.Reachable(); err != nil {
		return Added{}, err
	}
	known, err := s.admit(ctx, acc, id, name)
	if err != nil {
		return Added{}, err
	}
	if known == nil {
		return s.reserveAndAdd(ctx, acc.ID, t, name)
	}
	return s.show(ctx, *known, true), nil
}

// admit checks cap and ceiling, in this order, and returns the domain when it
// is stored already: that takes no place.
func (s *Service) admit(ctx context.Context, acc access.Account, id tenant.GUID, name string) (*domain.Domain, error) {
	stored, err := s.Domains.Domains(ctx, acc.ID, id)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(stored, func(d domain.Domain) bool { return d.Name == name })
	if i < 0 {
		if err := domain.Admit(len(stored), domain.MaxPerTenant); err != nil {
			return nil, err
		}
	}
	held, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return nil, err
	}
	if err := acc.MayGrow(held); err != nil || i < 0 {
		return nil, err
	}
	return &stored[i], nil
}

// reserveAndAdd takes the place first: a domain at the platform that holds no
// place would slip past the cap.
func (s *Service) reserveAndAdd(ctx context.Context, owner access.AccountID, t tenant.Tenant, name string) (Added, error) {
	d, err := s.Domains.ReserveDomain(ctx, owner, t.GUID, name, domain.MaxPerTenant, s.Now())
	if err != nil {
		return Added{}, err
	}
	if d.Added {
		return s.show(ctx, d, true), nil
	}
	failpoint.Hit("domains.after-reserve")
	ctx, cancel := settling.Detach(ctx, workLimit)
	defer cancel()
	exists, err := s.addAtPlatform(ctx, t.GUID, &d)
	if err != nil {
		return Added{}, s.abandon(ctx, owner, t.GUID, d, err)
	}
	d.Added = true
	added := s.show(ctx, d, exists)
	if ctx, err = ports.Complete(ctx, added); err != nil {
		return Added{}, err
	}
	failpoint.Hit("domains.before-save")
	if err := s.save(ctx, owner, added.Domain); err != nil {
		return Added{}, fmt.Errorf("save domain: %w", err)
	}
	failpoint.Hit("domains.after-save")
	return added, nil
}

// abandon gives the place back when nothing of ours can be at the platform: it
// does not take the domain, or this request took the place and nothing left it
// in doubt.
func (s *Service) abandon(ctx context.Context, owner access.AccountID, id tenant.GUID, d domain.Domain, why error) error {
	untaken := errors.Is(why, fault.DomainUnavailable) || errors.Is(why, fault.InvalidDomain)
	if untaken || d.Fresh && outcome.Settled(why) {
		release := func(ctx context.Context) error { return s.Domains.ReleaseDomain(ctx, owner, d.ID) }
		if err := settling.Store(ctx, release); err != nil {
			return fmt.Errorf("release domain: %w", err)
		}
	}
	if outcome.Of(why) == outcome.NotReady {
		return fault.ProviderTimeout.With("the mail platform has not finished its part yet")
	}
	return s.noticed(ctx, owner, id, why)
}

// show reads the domain's DNS for the answer.
func (s *Service) show(ctx context.Context, d domain.Domain, exists bool) Added {
	sight, err := settling.Sight(ctx, s.DNS, d.Name, d.Signing.Wanted()...)
	if err != nil {
		sight = dns.Sight{Domain: d.Name}
	} else {
		d = d.Looked(sight, s.Now())
	}
	status := d.DKIMStatus(dns.ReadSelectors(sight, d.Signing))
	return Added{
		Exists: exists, Domain: d, Live: dns.ReadStatus(sight, d.Verification, d.Signing),
		DKIM: DKIMState{status, d.DKIMMessage(status)},
	}
}
