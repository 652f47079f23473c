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

// Disconnect removes a mailbox's account from the platform. It succeeds if the account no longer
// exists. If the outcome of the removal is unknown, and the mailbox is not connected through a
// different integration, the connection stays `disconnecting`. A retry or a refresh resolves the
// outcome. Until then, the mailbox cannot connect through a different integration.
//
// Disconnect fails with integration_not_found, mailbox_not_found, provider_timeout,
// provider_credential_rejected, or another error of the platform. If the account exists and the
// integration cannot remove accounts, it fails with capability_not_supported.
func (s *Service) Disconnect(ctx context.Context, owner access.AccountID, id, mailboxID string, encoder ports.AnswerEncoder[DisconnectResult]) (DisconnectResult, error) {
	return s.disconnect(ctx, owner, id, mailboxID, s.Connections.EligibleMailbox, encoder)
}

// mailboxReader reads a mailbox with its connection to an integration.
type mailboxReader func(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.EligibleMailbox, error)

// disconnect does the work of Disconnect. It reads the mailbox with read.
func (s *Service) disconnect(ctx context.Context, owner access.AccountID, id, mailboxID string, read mailboxReader, encoder ports.AnswerEncoder[DisconnectResult]) (DisconnectResult, error) {
	i, sealedCredential, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return DisconnectResult{}, err
	}
	e, err := read(ctx, owner, i.ID, mailboxID)
	if err != nil {
		return DisconnectResult{}, err
	}
	if e.Connection.ID == "" || e.Connection.Status == integration.ConnectionDisconnected {
		return DisconnectResult{IntegrationID: i.ID, MailboxID: e.Mailbox.ID}, nil
	}
	platform, err := s.openPlatform(i, sealedCredential)
	if err != nil {
		return DisconnectResult{}, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	r := &removal{Service: s, platform: platform, integration: i, eligible: e, connection: e.Connection, read: read, encoder: encoder}
	began := s.now()
	d, err := r.disconnect(ctx)
	return d, s.recordRejection(ctx, i, began, err)
}

// DisconnectAll disconnects a mailbox from all integrations of the account, because the mailbox is
// about to be removed. The mailbox may be marked as missing. An account stays at its platform if
// the integration cannot remove accounts, or if the platform rejects the credential. DisconnectAll
// does not fail in these cases.
func (s *Service) DisconnectAll(ctx context.Context, owner access.AccountID, mailboxID string) error {
	integrations, err := s.Integrations.Integrations(ctx, owner)
	if err != nil {
		return err
	}
	for _, i := range integrations {
		_, err := s.disconnect(ctx, owner, i.ID, mailboxID, s.Connections.RemovableConnection, nil)
		for _, ignored := range []error{fault.IntegrationNotFound, fault.MailboxNotFound, fault.CapabilityMissing, fault.CredentialRejected} {
			if errors.Is(err, ignored) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removal removes one mailbox's account from a platform.
type removal struct {
	*Service
	platform    ports.SendingPlatform
	integration integration.Integration
	eligible    integration.EligibleMailbox
	connection  integration.Connection // as stored
	read        mailboxReader
	encoder     ports.AnswerEncoder[DisconnectResult]
}

func (r *removal) disconnect(ctx context.Context) (DisconnectResult, error) {
	found, err := fetchAccount(ctx, r.platform, r.eligible.Address())
	if err != nil {
		return DisconnectResult{}, err
	}
	id := found.ID
	if id == "" {
		id = r.connection.PlatformAccountID // the platform may not show the account yet
	}
	capabilities, err := r.capabilities(ctx, r.integration)
	if err != nil {
		return DisconnectResult{}, err
	}
	canRemove := capabilities.MailboxDisconnect
	switch {
	case found.Exists() && !canRemove:
		return DisconnectResult{}, fault.CapabilityMissing.With("this integration cannot remove accounts from the platform, and the mailbox still has one there")
	case id == "" || !canRemove:
		return r.storeDisconnected(ctx, false)
	}
	return r.removeAccount(ctx, id)
}

// removeAccount removes the account at the platform. It first stores the connection as
// `disconnecting`, unless the mailbox is connected through a different integration.
func (r *removal) removeAccount(ctx context.Context, id string) (DisconnectResult, error) {
	original, err := r.save(ctx, r.asDisconnecting, nil)
	heldElsewhere := errors.Is(err, fault.ConnectedElsewhere)
	if err != nil && !heldElsewhere {
		return DisconnectResult{}, err
	}
	err = r.remove(ctx, id)
	switch {
	case err == nil:
		return r.storeDisconnected(ctx, true)
	case outcome.ChangedNothing(err) && (heldElsewhere || original.Status == integration.ConnectionDisconnecting):
		return DisconnectResult{}, err
	case outcome.ChangedNothing(err):
		original.UpdatedAt = r.now()
		// saveOnce does not replace the newer change of a concurrent request. It fails with
		// ConnectedElsewhere if a different integration has connected the mailbox meanwhile.
		if _, saveErr := r.saveOnce(ctx, original, nil); saveErr != nil && !errors.Is(saveErr, fault.ConnectedElsewhere) {
			return DisconnectResult{}, saveErr
		}
		return DisconnectResult{}, err
	default:
		// A concurrent request whose removal was refused may have restored the old status.
		if _, saveErr := r.save(ctx, r.asUnresolved, nil); saveErr != nil && !errors.Is(saveErr, fault.ConnectedElsewhere) {
			return DisconnectResult{}, saveErr
		}
		return DisconnectResult{}, fault.ProviderTimeout.With("it is not known whether the account was removed; repeat the request, or refresh the integration")
	}
}

// remove removes the account at the platform. If the outcome is unknown, remove reads the account.
// If the account still exists, remove tries once more. Removing an account twice is harmless.
func (r *removal) remove(ctx context.Context, id string) error {
	err := r.callRemove(ctx, id)
	if err == nil || outcome.ChangedNothing(err) {
		return err
	}
	found, readErr := fetchAccount(ctx, r.platform, r.eligible.Address())
	switch {
	case readErr != nil:
		return err
	case !found.Exists():
		return nil
	}
	if secondErr := r.callRemove(ctx, found.ID); secondErr == nil {
		return nil
	}
	return err // the first call may still take effect
}

func (r *removal) callRemove(ctx context.Context, id string) error {
	return reconcile.Call(ctx, func(ctx context.Context) error { return r.platform.Remove(ctx, id) })
}

// asDisconnecting returns the connection with the status `disconnecting`. It does not change a
// connection that a concurrent request stored as `disconnecting`, because that request restores the
// old status if its removal is refused.
func (r *removal) asDisconnecting(c integration.Connection) integration.Connection {
	if c.Status != integration.ConnectionDisconnecting {
		c.Status, c.UpdatedAt = integration.ConnectionDisconnecting, r.now()
	}
	return c
}

// asUnresolved returns the connection after a removal with an unknown outcome. The new UpdatedAt
// keeps a concurrent request from restoring the old status. A connection that a concurrent request
// stored as disconnected stays disconnected, because its account does not exist any more.
func (r *removal) asUnresolved(c integration.Connection) integration.Connection {
	if c.Status != integration.ConnectionDisconnected {
		c.Status, c.UpdatedAt = integration.ConnectionDisconnecting, r.now()
	}
	return c
}

func (r *removal) asDisconnected(c integration.Connection) integration.Connection {
	return c.WithoutAccount("", r.now())
}

func (r *removal) storeDisconnected(ctx context.Context, removed bool) (DisconnectResult, error) {
	d := DisconnectResult{IntegrationID: r.integration.ID, MailboxID: r.eligible.Mailbox.ID, Removed: removed}
	storedAnswer, err := r.encoder.Encode(d)
	if err != nil {
		return DisconnectResult{}, err
	}
	if _, err := r.save(ctx, r.asDisconnected, storedAnswer); err != nil {
		return DisconnectResult{}, err
	}
	return d, nil
}

// saveTries is the maximum number of attempts to save a connection that concurrent requests change.
const saveTries = 5

// save changes the stored connection, and stores nothing if change returns the same connection. If
// a concurrent request changed the connection meanwhile, save changes the new state, because the
// caller has requested the disconnect. save returns the connection as it was before.
func (r *removal) save(ctx context.Context, change func(integration.Connection) integration.Connection, storedAnswer *ports.StoredAnswer) (before integration.Connection, err error) {
	for range saveTries {
		before = r.connection
		changed := change(before)
		if changed == before {
			return before, nil
		}
		saved, err := r.saveOnce(ctx, changed, storedAnswer)
		if err != nil || saved {
			return before, err
		}
		err = reconcile.Store(ctx, func(ctx context.Context) error {
			e, err := r.read(ctx, r.integration.AccountID, r.integration.ID, r.eligible.Mailbox.ID)
			r.connection = e.Connection
			return err
		})
		if err != nil {
			return before, err
		}
	}
	return before, fmt.Errorf("save connection: other requests changed it %d times", saveTries)
}

// saveOnce stores the connection, unless a concurrent request changed the stored connection.
func (r *removal) saveOnce(ctx context.Context, c integration.Connection, storedAnswer *ports.StoredAnswer) (saved bool, err error) {
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		saved, err = r.Connections.SaveConnection(ctx, r.integration.AccountID, c, r.connection.UpdatedAt, storedAnswer)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("save connection: %w", err)
	}
	if saved {
		r.connection = c
	}
	return saved, nil
}
