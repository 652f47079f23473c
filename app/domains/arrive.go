// SPDX-License-Identifier: Apache-2.0

package domains

import (
	"context"
	"errors"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// addAtPlatform looks before it adds. What is there is ours when an earlier
// attempt left its intent; when the intent is fresh it was there before us.
func (s *Service) addAtPlatform(ctx context.Context, id tenant.GUID, d *domain.Domain) (exists bool, err error) {
	at := s.Platform.For(id)
	held, err := lookUp(ctx, at, d.Name)
	switch {
	case err == nil:
		exists = d.Fresh
	case !errors.Is(err, fault.DomainNotFound):
		return false, err
	default:
		if held, err = s.add(ctx, at, d.Name); err != nil {
			return false, err
		}
		// From here on a failure leaves a domain at the platform.
		d.Fresh = false
	}
	*d = d.As(held)
	return exists, s.readRecords(ctx, at, d)
}

func (s *Service) add(ctx context.Context, at ports.MailTenant, name string) (held domain.Platform, err error) {
	failpoint.Hit("domains.before-add")
	err = settling.Call(ctx, func(ctx context.Context) error {
		held, err = at.AddDomain(ctx, name)
		return err
	})
	failpoint.Hit("domains.after-add")
	if err == nil || outcome.Settled(err) {
		return held, err
	}
	if found, lost := s.search(ctx, at, name); lost == nil {
		return found, nil
	}
	return held, err
}

// search looks for a domain whose adding brought no answer, for as long as the
// platform may not show it yet.
func (s *Service) search(ctx context.Context, at ports.MailTenant, name string) (held domain.Platform, err error) {
	limit := s.Search
	if limit == 0 {
		limit = searchLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = s.Settling.Persist(ctx, func(ctx context.Context) error {
		held, err = at.Domain(ctx, name)
		return unseen(err)
	})
	return held, err
}

// unseen takes a domain that is not found for one that is not shown yet.
func unseen(err error) error {
	if errors.Is(err, fault.DomainNotFound) {
		return &outcome.Error{Kind: outcome.NotReady, Detail: "the platform does not show the domain yet"}
	}
	return err
}

func lookUp(ctx context.Context, at ports.MailTenant, name string) (held domain.Platform, err error) {
	err = settling.Call(ctx, func(ctx context.Context) error {
		held, err = at.Domain(ctx, name)
		return err
	})
	return held, err
}

// readRecords waits for the platform to show the records of a domain that it
// has just taken: for some seconds it may not know the domain itself.
func (s *Service) readRecords(ctx context.Context, at ports.MailTenant, d *domain.Domain) error {
	return s.Settling.Persist(ctx, func(ctx context.Context) error {
		r, err := at.Records(ctx, d.Name)
		if err == nil {
			d.Verification, d.Service = r.Verification, r.Service
		}
		return unseen(err)
	})
}
