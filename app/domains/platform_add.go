// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tenantry/tenantry/app/domainsteps"
	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// addAtPlatform adds the domain at the platform, unless a read finds it there. exists is true if
// the tenant had the domain before tenantry tried to add it. exists is also true for a domain that
// an earlier sync found and a later sync missed. exists is false if this request added the domain,
// or if an earlier request of tenantry may have added it.
func (s *Service) addAtPlatform(ctx context.Context, id tenant.GUID, d *domain.Domain) (exists bool, err error) {
	platform := s.Platform.For(id)
	readAt := s.Now()
	found, err := domainsteps.FetchDomain(ctx, platform, d.Name)
	switch {
	case err == nil:
		exists = d.JustReserved || !d.Observed.State.IsZero()
	case !errors.Is(err, fault.DomainNotFound):
		return false, err
	default:
		if found, err = s.add(ctx, platform, d.Name); err != nil {
			return false, s.explainRefusal(*d, err)
		}
		readAt = s.Now()
		exists = d.Verified && found.Verified // a domain that was added just now is not verified yet
		// From here on the platform has the domain, so releaseReservation must keep the row.
		d.JustReserved, d.PreviousReservedAt = false, time.Time{}
	}
	*d = d.WithPlatformState(found, readAt)
	return exists, s.readRecords(ctx, platform, d)
}

// explainRefusal returns the error of a failed add. While a lagging replica may hide the domain, a
// refusal can also mean that this tenant has the domain already. explainRefusal then returns the
// outcome NotReady. When the replicas no longer lag, a repeated request finds the domain or gets
// the refusal.
func (s *Service) explainRefusal(d domain.Domain, err error) error {
	if d.MayBeHidden(s.Now()) && errors.Is(err, fault.DomainUnavailable) {
		return &outcome.Error{Kind: outcome.NotReady, Cause: "domain_taken", Detail: "the tenant may already have the domain, but the platform does not show it yet"}
	}
	return err
}

func (s *Service) add(ctx context.Context, platform ports.MailTenant, name string) (found domain.Platform, err error) {
	err = reconcile.Run(ctx, reconcile.Once, func(ctx context.Context) (err error) {
		found, err = platform.AddDomain(ctx, name)
		return err
	}, func(ctx context.Context) (_ bool, err error) {
		found, err = s.search(ctx, platform, name)
		return err == nil, err
	})
	return found, err
}

// search polls for a domain after an add with an unknown outcome. Replicas of the platform can show
// a new domain late.
func (s *Service) search(ctx context.Context, platform ports.MailTenant, name string) (found domain.Platform, err error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Search, searchTime))
	defer cancel()
	err = reconcile.Run(ctx, reconcile.RetryPolicy{Pause: s.Reconciler.Pause}, func(ctx context.Context) error {
		found, err = platform.Domain(ctx, name)
		return retryNotFound(err)
	}, nil)
	return found, err
}

// retryNotFound turns domain_not_found into NotReady, so that the read is retried.
func retryNotFound(err error) error {
	if errors.Is(err, fault.DomainNotFound) {
		return &outcome.Error{Kind: outcome.NotReady, Detail: "the platform does not show the domain yet"}
	}
	return err
}

// readRecords reads the DNS records that the platform requires. It retries, because the platform
// may not show a new domain for some seconds.
func (s *Service) readRecords(ctx context.Context, platform ports.MailTenant, d *domain.Domain) error {
	return reconcile.Run(ctx, reconcile.RetryPolicy{Pause: s.Reconciler.Pause}, func(ctx context.Context) error {
		began := s.Now()
		r, err := platform.Records(ctx, d.Name)
		if err == nil {
			*d = d.WithRecords(r, began)
		}
		return retryNotFound(err)
	}, nil)
}
