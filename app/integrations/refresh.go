// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// Refresh reads the platform's list of accounts and stores which mailboxes are connected. An
// interrupted listing changes no connection. A listing that fails on its first page returns the
// platform's error. It fails with integration_not_found, capability_not_supported, or
// provider_credential_rejected.
func (s *Service) Refresh(ctx context.Context, owner access.AccountID, id string, answer ports.Answer[Refreshed]) (Refreshed, error) {
	return s.refresh(ctx, owner, id, &accountRead{}, answer)
}

// refresh continues the read r, or starts it if it has not started.
func (s *Service) refresh(ctx context.Context, owner access.AccountID, id string, r *accountRead, answer ports.Answer[Refreshed]) (Refreshed, error) {
	i, sealed, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return Refreshed{}, err
	}
	if !s.view(ctx, i).Capabilities.MailboxRefresh {
		return Refreshed{}, fault.CapabilityMissing.With("this integration cannot list what is connected")
	}
	platform, err := s.openPlatform(i, sealed)
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
	r.platform, r.now = platform, s.now
	if r.cause = r.read(ctx); r.cause != nil {
		return s.handleIncomplete(ctx, i, r)
	}
	return s.reconcile(ctx, i, r, answer)
}

// handleIncomplete leaves all connections unchanged. If the listing is not to be continued, it
// marks the integration as failing.
func (s *Service) handleIncomplete(ctx context.Context, i integration.Integration, read *accountRead) (Refreshed, error) {
	cause := read.cause
	if errors.Is(ctx.Err(), context.Canceled) {
		return Refreshed{}, cause // the request was cancelled; the error says nothing about the integration
	}
	if credentialRejected(cause) {
		s.reportDrift(i.Provider, integration.DriftRefused)
		return Refreshed{}, s.recordRejection(ctx, i, read.asked, cause)
	}
	// Throttling is not an error of the integration, unless the list is longer than the platform
	// lets tenantry read.
	_, later := read.continueAfter(s.now())
	if outcome.Of(cause) != outcome.Throttled || read.pages > 0 && !later {
		if err := s.saveObserved(ctx, i.Erred(read.asked)); err != nil {
			return Refreshed{}, errors.Join(cause, err)
		}
	}
	if read.pages == 0 {
		return Refreshed{}, cause
	}
	r := Refreshed{IntegrationID: i.ID, Provider: i.Provider, Status: RefreshPartial}
	for n, e := range read.all {
		if read.found[n].Exists() {
			r.Count(e.Connection, e.Connection, false)
		} else {
			r.Unread(e.Connection)
		}
	}
	return r, nil
}

// reconcile stores the connections that follow from a complete listing. It rereads the stored
// connections, because another refresh can have stored an older listing in the meantime. A
// connection carries the time at which the listing began, so a newer listing may replace it.
func (s *Service) reconcile(ctx context.Context, i integration.Integration, read *accountRead, answer ports.Answer[Refreshed]) (Refreshed, error) {
	r := Refreshed{IntegrationID: i.ID, Provider: i.Provider, Status: RefreshCompleted}
	stored, err := s.Connections.Eligible(ctx, i.AccountID, i.ID)
	if err != nil {
		return Refreshed{}, err
	}
	current := make(map[string]integration.Eligible, len(stored))
	for _, e := range stored {
		current[e.Mailbox.ID] = e
	}
	var changes []integration.Connection
	var drifts []integration.Drift
	for n, e := range read.all {
		if e, exists := current[e.Mailbox.ID]; exists {
			read.all[n] = e
		}
		e = read.all[n]
		c, changed := integration.Reconcile(e, read.found[n], read.began)
		r.Count(e.Connection, c, changed)
		if !changed {
			continue
		}
		if c.ID == "" {
			id, err := s.newID(read.began)
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
	completion, err := answer.Completion(r)
	if err != nil {
		return Refreshed{}, err
	}
	i = i.Succeeded(read.asked)
	i.RefreshedAt = s.now()
	i.UpdatedAt = i.RefreshedAt
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		_, err := s.Connections.SaveRefresh(ctx, i.AccountID, i, read.began, changes, completion)
		return err
	})
	if err != nil {
		return Refreshed{}, fmt.Errorf("save refresh: %w", err)
	}
	for _, drift := range drifts {
		s.reportDrift(i.Provider, drift)
	}
	return r, nil
}

func (s *Service) reportDrift(provider string, kind integration.Drift) {
	if s.Drift != nil {
		s.Drift(provider, kind)
	}
}
