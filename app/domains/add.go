// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// AddResult is the result of Add.
type AddResult struct {
	Exists bool // the tenant already had the domain, so nothing was changed at the platform
	Domain domain.Domain
	Live   dns.Status
	DKIM   DKIMState
}

// DKIMState is the DKIM status of a domain and a sentence that explains it.
type DKIMState struct {
	Status  string // pending, ready or enabled
	Message string
}

// Add adds a domain to a tenant and returns it with the DNS records that it needs. Adding a domain
// again returns the existing domain.
//
// It fails with tenant_not_found, invalid_domain, builtin_domain_not_allowed, access_denied,
// domain_limit_reached, tenant_limit_reached, domain_unavailable, or an error of the platform.
func (s *Service) Add(ctx context.Context, acc access.Account, id tenant.GUID, requestedName string, encoder ports.AnswerEncoder[AddResult]) (AddResult, error) {
	t, err := s.Tenants.Tenant(ctx, acc.ID, id)
	if err != nil {
		return AddResult{}, err
	}
	facts, factsErr := s.Facts.Facts(ctx)
	name, err := domain.ParseName(requestedName, facts.BuiltinDomains)
	if err != nil {
		return AddResult{}, err
	}
	if factsErr != nil {
		return AddResult{}, factsErr
	}
	if err := t.CheckConsent(); err != nil {
		return AddResult{}, err
	}
	if err := s.checkLimits(ctx, acc, id, name); err != nil {
		return AddResult{}, err
	}
	return s.reserveAndAdd(ctx, acc.ID, t, name, encoder)
}

// checkLimits checks that the tenant may have one more domain, unless the tenant already has this
// domain. It then checks that the account has no more tenants than its plan allows.
func (s *Service) checkLimits(ctx context.Context, acc access.Account, id tenant.GUID, name string) error {
	stored, err := s.Domains.Domains(ctx, acc.ID, id)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(stored, func(d domain.Domain) bool { return d.Name == name }) {
		if err := domain.CheckDomainLimit(len(stored), domain.MaxPerTenant); err != nil {
			return err
		}
	}
	tenantCount, err := s.Tenants.TenantCount(ctx, acc.ID)
	if err != nil {
		return err
	}
	return acc.CheckMayGrow(tenantCount)
}

// reserveAndAdd stores a row before it calls the platform. Otherwise a crash could leave a domain
// at the platform that has no row and does not count towards the tenant's limit. reserveAndAdd
// calls ReserveDomain even for a domain that was added already. ReserveDomain deletes the record of
// an earlier removal, so that the next removal does not count as a repetition of the earlier one.
func (s *Service) reserveAndAdd(ctx context.Context, owner access.AccountID, t tenant.Tenant, name string,
	encoder ports.AnswerEncoder[AddResult]) (AddResult, error) {
	d, err := s.Domains.ReserveDomain(ctx, owner, t.GUID, name, domain.MaxPerTenant, s.Now())
	if err != nil {
		return AddResult{}, err
	}
	if d.Added {
		return s.liveResult(ctx, owner, d, true), nil
	}
	ctx, cancel := reconcile.Detach(ctx, workTimeout)
	defer cancel()
	exists, err := s.addAtPlatform(ctx, t.GUID, &d)
	if err != nil {
		return AddResult{}, s.releaseReservation(ctx, owner, t.GUID, d, err)
	}
	result := s.liveResult(ctx, owner, d, exists)
	err = s.saveAdded(ctx, owner, result, encoder)
	if errors.Is(err, fault.DomainNotFound) {
		// A concurrent request for the same domain failed and deleted the row.
		if d, err = s.Domains.ReserveDomain(ctx, owner, t.GUID, name, domain.MaxPerTenant, s.Now()); err != nil {
			return AddResult{}, err
		}
		result.Domain.ID, result.Domain.CreatedAt = d.ID, d.CreatedAt
		err = s.saveAdded(ctx, owner, result, encoder)
	}
	if err != nil {
		return AddResult{}, fmt.Errorf("save domain: %w", err)
	}
	return result, nil
}

func (s *Service) saveAdded(ctx context.Context, owner access.AccountID, result AddResult, encoder ports.AnswerEncoder[AddResult]) error {
	storedAnswer, err := encoder.Encode(result)
	if err != nil {
		return err
	}
	return reconcile.Store(ctx, func(ctx context.Context) error {
		return s.Domains.SaveDomain(ctx, owner, result.Domain, storedAnswer)
	})
}

// releaseReservation decides on the reservation of a failed Add, and returns the error for the
// caller. The decision depends on what the request may have changed:
//
//   - The platform refused the domain: the reservation ends.
//   - The request changed nothing, but an earlier request had reserved the row and may have added
//     the domain: only the reservation of this request is withdrawn, and the row stays.
//   - The request changed nothing, and the row is new or its domain is still missing: the
//     reservation ends.
//   - Otherwise the tenant may have the domain now: the reservation stays.
//
// A row that a later request has reserved stays as it is. When a reservation ends, the row is
// deleted, with one exception: the row of a domain that a discovery missed becomes missing again.
func (s *Service) releaseReservation(ctx context.Context, owner access.AccountID, id tenant.GUID, d domain.Domain, cause error) error {
	refused := errors.Is(cause, fault.DomainUnavailable) || errors.Is(cause, fault.InvalidDomain)
	unchanged := outcome.ChangedNothing(cause)
	err := reconcile.Store(ctx, func(ctx context.Context) error {
		switch {
		case unchanged && !refused && !d.PreviousReservedAt.IsZero():
			return s.Domains.WithdrawReservation(ctx, owner, d)
		case refused, unchanged && (d.JustReserved || !d.Observed.PreviousMissingSince.IsZero()):
			return s.Domains.EndReservation(ctx, owner, d.ID, d.ReservedAt)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("release reservation of domain: %w", err)
	}
	if outcome.KindOf(cause) == outcome.NotReady {
		return fault.ProviderTimeout.With("the mail platform has not finished adding the domain yet")
	}
	return s.RecordLostConsent(ctx, owner, id, cause)
}

func (s *Service) liveResult(ctx context.Context, owner access.AccountID, d domain.Domain, exists bool) AddResult {
	began := s.Now()
	zoneRead, err := reconcile.ReadZone(ctx, s.DNS, owner, d.Name, d.Signing.Wanted()...)
	if err != nil {
		zoneRead = dns.ZoneRead{Domain: d.Name}
	} else {
		d = d.WithRead(zoneRead, began, reconcile.PlatformHosts(ctx, s.Facts))
	}
	status := d.DKIMStatus(dns.SelectorStates(zoneRead, d.Signing))
	return AddResult{
		Exists: exists, Domain: d, Live: dns.ReadStatus(zoneRead, d.Verification, d.Signing),
		DKIM: DKIMState{status, d.DKIMMessage(status)},
	}
}
