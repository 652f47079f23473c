// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// Connections ends the connections of a mailbox to sending platforms.
type Connections interface {
	// DisconnectAll removes the accounts of the mailbox from all sending platforms, and stores that
	// its connections have ended. It ignores an integration that cannot remove accounts or whose
	// credential the platform rejects. A caller may repeat it.
	DisconnectAll(ctx context.Context, owner access.AccountID, mailboxID string) error
}

// RemoveResult is the result of Remove. The platform can restore the mailbox until RestorableUntil.
type RemoveResult struct {
	Mailbox         mailbox.Mailbox
	RestorableUntil time.Time
}

// Remove ends the mailbox's connections, removes the mailbox at the platform, and deletes it from
// the service. confirm must be the address of the mailbox. The platform removes the mailbox by its
// object id, so a newer mailbox with the same address stays.
//
// It fails with tenant_not_found, mailbox_not_found, confirmation_required,
// exchange_bootstrap_not_ready, access_denied, or an error of a platform. A failed removal can be
// repeated.
func (s *Service) Remove(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID, confirm string, encoder ports.AnswerEncoder[RemoveResult]) (RemoveResult, error) {
	m, err := s.Removals.RemovableMailbox(ctx, owner, id, mailboxID)
	if err != nil {
		return RemoveResult{}, err
	}
	if !strings.EqualFold(confirm, m.Address) {
		return RemoveResult{}, fault.ConfirmationRequired.With("confirm must be the address of the mailbox")
	}
	t, err := s.Tenants.Tenant(ctx, owner, id)
	if err != nil {
		return RemoveResult{}, err
	}
	if err := t.CheckConsentAndMailServer(); err != nil {
		return RemoveResult{}, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	if err := s.Connections.DisconnectAll(ctx, owner, m.ID); err != nil {
		return RemoveResult{}, err
	}
	if err := s.removeAtPlatform(ctx, owner, &m); err != nil {
		return RemoveResult{}, s.recordLostConsent(ctx, owner, id, err)
	}
	now := s.Now().UTC()
	result := RemoveResult{Mailbox: m, RestorableUntil: now.Add(mailbox.Retention).Truncate(time.Second)}
	storedAnswer, err := encoder.Encode(result)
	if err != nil {
		return RemoveResult{}, err
	}
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		return s.Removals.RemoveMailbox(ctx, owner, m, now, storedAnswer)
	})
	if err != nil {
		return RemoveResult{}, fmt.Errorf("remove mailbox: %w", err)
	}
	return result, nil
}

// removeAtPlatform removes the mailbox by its object id. A second removal of the same id changes
// nothing, so removeAtPlatform repeats a call whose outcome is unknown. If the stored mailbox has
// no object id, the id is first read at the platform and stored. removeAtPlatform does nothing if
// the platform does not have the mailbox.
func (s *Service) removeAtPlatform(ctx context.Context, owner access.AccountID, m *mailbox.Mailbox) error {
	if m.ObjectID == "" {
		found, readAt, err := s.fetchRemovable(ctx, owner, *m)
		if err != nil || found == nil {
			return err
		}
		*m = m.WithPlatformState(*found, readAt)
		if err := s.save(ctx, owner, *m); err != nil {
			return err
		}
	}
	platform := s.Platform.For(m.TenantGUID)
	err := reconcile.Run(ctx, reconcile.RetryPolicy{Pause: s.Pause}, func(ctx context.Context) error {
		return platform.RemoveMailbox(ctx, m.ObjectID)
	}, nil)
	if errors.Is(err, fault.MailboxNotFound) {
		return nil
	}
	return err
}

// fetchRemovable reads a mailbox whose object id is not stored. readAt is the time of the last
// read. fetchRemovable returns nil if the platform does not have the mailbox.
//
// A lagging replica may hide a mailbox that was just created. fetchRemovable therefore repeats a
// read that finds no mailbox, until observation.ReplicaLag after m.ReservedAt. If ctx ends first,
// it fails with outcome.NotReady. The time of the row's creation does not matter, because a request
// can reserve an old row again and create its mailbox.
func (s *Service) fetchRemovable(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) (found *mailbox.Platform, readAt time.Time, err error) {
	err = reconcile.Run(ctx, reconcile.RetryPolicy{Pause: s.Pause}, func(ctx context.Context) (err error) {
		readAt = s.Now()
		found, err = s.fetchCurrent(ctx, owner, m)
		if err == nil && found == nil && readAt.Sub(m.ReservedAt) < observation.ReplicaLag {
			return &outcome.Error{Kind: outcome.NotReady, Cause: "hidden_mailbox", Detail: "the platform does not show the new mailbox yet"}
		}
		return err
	}, nil)
	return found, readAt, err
}
