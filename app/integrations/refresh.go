// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Refresh reads the platform's list of accounts and stores which of the
// service's mailboxes are connected. A list that breaks off changes nothing,
// and one that does not begin is the platform's error. Refusals:
// integration_not_found, capability_not_supported,
// provider_credential_rejected.
func (s *Service) Refresh(ctx context.Context, owner access.AccountID, id string) (Refreshed, error) {
	return s.refresh(ctx, owner, id, &reading{})
}

// refresh reads on where a reading has begun.
func (s *Service) refresh(ctx context.Context, owner access.AccountID, id string, r *reading) (Refreshed, error) {
	i, sealed, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return Refreshed{}, err
	}
	if !s.view(ctx, i).Capabilities.MailboxRefresh {
		return Refreshed{}, fault.CapabilityMissing.With("this integration cannot list what is connected")
	}
	at, err := s.reach(i, sealed)
	if err != nil {
		return Refreshed{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit())
	defer cancel()
	if r.listing == nil {
		r.began = s.now()
		if r.all, err = s.Connections.Eligible(ctx, owner, i.ID); err != nil {
			return Refreshed{}, err
		}
		r.listing = newListing(r.all)
	}
	r.at = at
	if r.why = r.read(ctx); r.why != nil {
		return s.brokeOff(ctx, i, r)
	}
	return s.reconcile(ctx, i, r.began, r.listing, r.all)
}

// brokeOff leaves all connections as they are, and notes that the refresh
// failed, unless its list is read on.
func (s *Service) brokeOff(ctx context.Context, i integration.Integration, of *reading) (Refreshed, error) {
	why := of.why
	if errors.Is(ctx.Err(), context.Canceled) {
		return Refreshed{}, why // given up: that says nothing of the integration
	}
	if turnedAway(why) {
		s.drift(i.Provider, integration.DriftRefused)
		return Refreshed{}, s.notice(ctx, i.AccountID, i.ID, why)
	}
	// That we ask too often says nothing of the integration, unless its list is
	// longer than what the platform lets us read of one.
	_, later := of.goesOn(s.now())
	if outcome.Of(why) != outcome.Throttled || of.pages > 0 && !later {
		if err := s.mark(ctx, i.AccountID, i.ID, func(i *integration.Integration) { i.HasError = true }); err != nil {
			return Refreshed{}, errors.Join(why, err)
		}
	}
	if of.pages == 0 {
		return Refreshed{}, why
	}
	r := Refreshed{IntegrationID: i.ID, Provider: i.Provider, Status: RefreshPartial}
	for n, e := range of.all {
		if of.found[n].There() {
			r.Count(e.Connection, e.Connection, false)
		} else {
			r.Unread(e.Connection)
		}
	}
	return r, nil
}

// reconcile stores what a complete listing means.
func (s *Service) reconcile(ctx context.Context, i integration.Integration, began time.Time, l *listing, all []integration.Eligible) (Refreshed, error) {
	r := Refreshed{IntegrationID: i.ID, Provider: i.Provider, Status: RefreshCompleted}
	now := s.now()
	var changes []integration.Connection
	var drifts []integration.Drift
	for n, e := range all {
		c, changed := integration.Reconcile(e, l.found[n], now)
		r.Count(e.Connection, c, changed)
		if !changed {
			continue
		}
		if c.ID == "" {
			id, err := s.newID(now)
			if err != nil {
				return Refreshed{}, err
			}
			c.ID, c.IntegrationID, c.MailboxID = id, i.ID, e.Mailbox.ID
		}
		changes = append(changes, c)
		if drift, drifted := integration.Drifted(e.Connection, c); drifted {
			drifts = append(drifts, drift)
		}
	}
	if err := s.saveRefresh(ctx, i, began, changes, r); err != nil {
		return Refreshed{}, err
	}
	for _, drift := range drifts {
		s.drift(i.Provider, drift)
	}
	return r, nil
}

func (s *Service) saveRefresh(ctx context.Context, i integration.Integration, began time.Time, changes []integration.Connection, r Refreshed) error {
	ctx, err := ports.Complete(ctx, r)
	if err != nil {
		return err
	}
	failpoint.Hit("integrations.before-refresh")
	err = settling.Store(ctx, func(ctx context.Context) error {
		held, _, err := s.Integrations.Integration(ctx, i.AccountID, i.ID) // a test may have ended meanwhile
		if err != nil {
			return err
		}
		held.Status, held.HasError, held.RefreshedAt = integration.Connected, false, s.now()
		held.UpdatedAt = held.RefreshedAt
		_, err = s.Connections.SaveRefresh(ctx, i.AccountID, held, began, changes)
		return err
	})
	if err != nil {
		return fmt.Errorf("save refresh: %w", err)
	}
	failpoint.Hit("integrations.after-refresh")
	return nil
}

func (s *Service) drift(provider string, kind integration.Drift) {
	if s.Drift != nil {
		s.Drift(provider, kind)
	}
}
