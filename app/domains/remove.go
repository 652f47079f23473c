// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// RemoveResult is the result of Remove.
type RemoveResult struct {
	Domain domain.Domain
	// FromPlatform is true if the caller asked to remove the domain at the platform too. MayBeNew
	// is true if the domain at the platform may be a new domain that someone added under the same
	// name. Remove leaves such a domain at the platform.
	FromPlatform, MayBeNew bool
}

// Remove deletes a domain. Until the domain is added again, no sync stores it. If fromPlatform is
// true, Remove first removes the domain at the platform. DNS records in the domain's zone stay.
//
// It fails with tenant_not_found, domain_not_found or domain_in_use. If fromPlatform is true, it
// can also fail with access_denied or an error of the platform. A failed removal can be repeated.
func (s *Service) Remove(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, fromPlatform bool, encoder ports.AnswerEncoder[RemoveResult]) (RemoveResult, error) {
	d, err := s.Removals.RemovableDomain(ctx, owner, id, domain.ParseNameOrNone(name))
	if err != nil {
		return RemoveResult{}, err
	}
	result := RemoveResult{Domain: d, FromPlatform: fromPlatform}
	ctx, cancel := reconcile.Detach(ctx, workTimeout)
	defer cancel()
	if fromPlatform {
		t, err := s.Tenants.Tenant(ctx, owner, id)
		if err == nil {
			err = t.CheckConsent()
		}
		if err != nil {
			return RemoveResult{}, err
		}
		if result.MayBeNew, err = s.removeFromPlatform(ctx, owner, d); err != nil {
			return RemoveResult{}, s.RecordLostConsent(ctx, owner, id, err)
		}
	}
	storedAnswer, err := encoder.Encode(result)
	if err != nil {
		return RemoveResult{}, err
	}
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		return s.Removals.RemoveDomain(ctx, owner, d, s.Now(), storedAnswer)
	})
	if err != nil {
		return RemoveResult{}, fmt.Errorf("remove domain: %w", err)
	}
	return result, nil
}

// removeFromPlatform removes the domain from the tenant at the platform. The platform identifies a
// domain only by its name. A verified domain never becomes unverified again. If the stored domain
// is verified and the platform's domain is not, someone has removed the domain and added a new
// domain with this name. removeFromPlatform then does not remove the new domain.
//
// The beginning of the removal is stored before the first call that can remove the domain. If an
// earlier removal had begun, and a later read showed a sign that the domain was removed and added
// again (domain.Observed.Change), the platform's domain may be new. removeFromPlatform does not
// remove this domain either.
//
// If the first read does not find the domain, a lagging replica may hide a domain that was just
// added. removeFromPlatform therefore makes the call that removes the domain nevertheless. If the
// outcome of this call is unknown, the call is repeated without a read, because a second read could
// miss the domain too. If an earlier removal had begun, removeFromPlatform does not make the call:
// the earlier removal has probably removed the domain, and the replica may hide a new one.
func (s *Service) removeFromPlatform(ctx context.Context, owner access.AccountID, d domain.Domain) (mayBeNew bool, err error) {
	platform := s.Platform.For(d.TenantGUID)
	observed := d
	// isGoneOrNew reports whether the platform has no domain to remove. It sets mayBeNew if the
	// platform has a domain that may be new.
	isGoneOrNew := func(ctx context.Context) (bool, error) {
		readAt := s.Now()
		found, err := domainsteps.FetchDomain(ctx, platform, d.Name)
		if errors.Is(err, fault.DomainNotFound) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		observed, mayBeNew = d.WithPlatformState(found, readAt), d.Verified && !found.Verified
		return mayBeNew, nil
	}
	notFound, err := isGoneOrNew(ctx)
	if err != nil || mayBeNew {
		return mayBeNew, err
	}
	check := reconcile.EffectCheck(isGoneOrNew)
	if notFound {
		check = nil
	}
	began := s.Now()
	removal, err := s.Removals.BeginDomainRemoval(ctx, owner, observed, began)
	switch {
	case err != nil:
		return false, fmt.Errorf("begin removal of domain: %w", err)
	case notFound && removal.Repeated:
		return false, nil
	case removal.MayBeNew:
		return true, nil
	}
	unchanged := true // true as long as no call can have removed the domain
	err = reconcile.Run(ctx, reconcile.RetryPolicy{Tries: removeTries, Pause: s.Reconciler.Pause}, func(ctx context.Context) error {
		err := platform.RemoveDomain(ctx, d.Name)
		unchanged = unchanged && outcome.ChangedNothing(err)
		return err
	}, check)
	if err != nil && unchanged && !removal.Repeated {
		cancel := func(ctx context.Context) error { return s.Removals.CancelDomainRemoval(ctx, owner, d, began) }
		if cancelErr := reconcile.Store(ctx, cancel); cancelErr != nil {
			return false, fmt.Errorf("cancel removal of domain: %w", cancelErr)
		}
	}
	return mayBeNew, err
}

// removeTries is the maximum number of RemoveDomain calls in one removal.
const removeTries = 3
