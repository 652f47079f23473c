// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// Refresh reads the platform's list of accounts and stores which mailboxes are connected. If the
// list lacks the account of a recent sign-in, Refresh reads this account for a few seconds. If it
// is still uncertain whether the account exists, Refresh keeps the connection, and the result is
// partial. If the listing is interrupted, Refresh changes no connection. It then returns a partial
// result. If the first page failed, the credential was rejected or the request was cancelled, it
// returns the error instead. Refresh fails with integration_not_found, capability_not_supported, or
// provider_credential_rejected. It fails with provider_unavailable if the platform's plugin does
// not start in time.
func (s *Service) Refresh(ctx context.Context, owner access.AccountID, id string, encoder ports.AnswerEncoder[RefreshResult]) (RefreshResult, error) {
	return s.refresh(ctx, owner, id, &accountRead{}, encoder)
}

// refresh does the work of Refresh. It starts the read, or continues a read that has already
// started.
func (s *Service) refresh(ctx context.Context, owner access.AccountID, id string, read *accountRead, encoder ports.AnswerEncoder[RefreshResult]) (RefreshResult, error) {
	i, sealedCredential, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return RefreshResult{}, err
	}
	capabilities, err := s.capabilities(ctx, i)
	if err != nil {
		return RefreshResult{}, err
	}
	if !capabilities.MailboxRefresh {
		return RefreshResult{}, fault.CapabilityMissing.With("this integration cannot list the accounts of the platform")
	}
	platform, err := s.openPlatform(i, sealedCredential)
	if err != nil {
		return RefreshResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	if read.listing == nil {
		read.began = s.now()
		if read.mailboxes, err = s.Connections.Eligible(ctx, owner, i.ID); err != nil {
			return RefreshResult{}, err
		}
		read.listing = newListing(read.mailboxes)
	}
	read.platform, read.now = platform, s.now
	pagesBefore := read.pages
	if read.cause = read.readAll(ctx); read.cause == nil {
		read.cause = read.readLateAccounts(ctx)
	}
	read.outOfTime = errors.Is(ctx.Err(), context.DeadlineExceeded) && read.pages > pagesBefore
	if read.cause != nil {
		return s.handleIncomplete(ctx, i, read)
	}
	return s.reconcile(ctx, i, read, encoder)
}

// handleIncomplete handles a listing that was interrupted. It changes no connection, and stores
// nothing if the request was cancelled. It stores a rejection of the credential. After any other
// error it marks the integration as failing, unless the platform throttled the first page or a
// later refresh continues the listing.
func (s *Service) handleIncomplete(ctx context.Context, i integration.Integration, read *accountRead) (RefreshResult, error) {
	cause := read.cause
	if errors.Is(ctx.Err(), context.Canceled) {
		return RefreshResult{}, cause // the request was cancelled, so the error is not a failure of the integration
	}
	if isCredentialRejected(cause) {
		s.reportDrift(i.Provider, integration.DriftRefused)
		return RefreshResult{}, s.recordRejection(ctx, i, read.requestedAt, cause)
	}
	// Throttling counts as a failure if no later refresh reads the rest of the list.
	_, willContinue := read.continueAfter(s.now())
	if !willContinue && (outcome.KindOf(cause) != outcome.Throttled || read.pages > 0) {
		if err := s.saveObserved(ctx, i.AfterError(read.requestedAt)); err != nil {
			return RefreshResult{}, errors.Join(cause, err)
		}
	}
	if read.pages == 0 {
		return RefreshResult{}, cause
	}
	result := RefreshResult{IntegrationID: i.ID, Provider: i.Provider, Status: RefreshPartial}
	for index, e := range read.mailboxes {
		if read.found[index].Exists() {
			result.Count(e.Connection, e.Connection, false)
		} else {
			result.CountUnread(e.Connection)
		}
	}
	return result, nil
}

// reconcile updates the stored connections to match a complete listing. It does not change the
// connections of uncertain mailboxes. If there are any, the result is partial. reconcile rereads
// the stored connections, because other requests can have changed them in the meantime. Each
// changed connection is stored with the time at which the listing began, so that an older listing
// does not replace it.
func (s *Service) reconcile(ctx context.Context, i integration.Integration, read *accountRead, encoder ports.AnswerEncoder[RefreshResult]) (RefreshResult, error) {
	result := RefreshResult{IntegrationID: i.ID, Provider: i.Provider, Status: RefreshCompleted}
	stored, err := s.Connections.Eligible(ctx, i.AccountID, i.ID)
	if err != nil {
		return RefreshResult{}, err
	}
	current := make(map[string]integration.EligibleMailbox, len(stored))
	for _, e := range stored {
		current[e.Mailbox.ID] = e
	}
	var changes []integration.Connection
	var drifts []integration.Drift
	for index, e := range read.mailboxes {
		if reread, exists := current[e.Mailbox.ID]; exists {
			e = reread
		}
		if slices.Contains(read.uncertain, index) {
			result.Status = RefreshPartial
			result.CountUnread(e.Connection)
			continue
		}
		c, changed := integration.Reconcile(e, read.found[index], read.began)
		result.Count(e.Connection, c, changed)
		if !changed {
			continue
		}
		if c.ID == "" {
			id, err := ident.NewFrom(s.Random, read.began)
			if err != nil {
				return RefreshResult{}, err
			}
			c.ID, c.IntegrationID, c.MailboxID = id, i.ID, e.Mailbox.ID
		}
		changes = append(changes, c)
		if drift, drifted := integration.DriftBetween(e.Connection, c); drifted {
			drifts = append(drifts, drift)
		}
	}
	storedAnswer, err := encoder.Encode(result)
	if err != nil {
		return RefreshResult{}, err
	}
	i = i.AfterSuccess(read.requestedAt)
	i.RefreshedAt = s.now()
	i.UpdatedAt = i.RefreshedAt
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		_, err := s.Connections.SaveRefresh(ctx, i.AccountID, i, read.began, changes, storedAnswer)
		return err
	})
	if err != nil {
		return RefreshResult{}, fmt.Errorf("save refresh: %w", err)
	}
	for _, drift := range drifts {
		s.reportDrift(i.Provider, drift)
	}
	return result, nil
}

func (s *Service) reportDrift(provider string, kind integration.Drift) {
	if s.OnDrift != nil {
		s.OnDrift(provider, kind)
	}
}
