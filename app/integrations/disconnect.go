// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"fmt"

	"github.com/tenantry/tenantry/app/settling"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// Disconnect takes a mailbox's account out of the platform; one that is gone is
// done already. Without an answer, and when a look does not show it gone, the
// connection is `disconnecting`: the mailbox connects nowhere else until the
// same request again, or a refresh, has decided. Refusals:
// integration_not_found, mailbox_not_found, capability_not_supported for an
// account that is still there, provider_credential_rejected.
func (s *Service) Disconnect(ctx context.Context, owner access.AccountID, id, mailboxID string) (Disconnected, error) {
	i, sealed, err := s.Integrations.Integration(ctx, owner, id)
	if err != nil {
		return Disconnected{}, err
	}
	e, err := s.Connections.EligibleMailbox(ctx, owner, i.ID, mailboxID)
	if err != nil {
		return Disconnected{}, err
	}
	if e.Connection.ID == "" || e.Connection.Status == integration.ConnectionDisconnected {
		return Disconnected{IntegrationID: i.ID, MailboxID: e.Mailbox.ID}, nil
	}
	at, err := s.reach(i, sealed)
	if err != nil {
		return Disconnected{}, err
	}
	ctx, cancel := s.detach(ctx)
	defer cancel()
	r := &removal{Service: s, at: at, i: i, e: e, c: e.Connection}
	d, err := r.run(ctx)
	return d, s.notice(ctx, owner, i.ID, err)
}

// removal takes one mailbox out of a platform.
type removal struct {
	*Service
	at ports.SendingPlatform
	i  integration.Integration
	e  integration.Eligible
	c  integration.Connection // as it is stored
}

func (r *removal) run(ctx context.Context) (Disconnected, error) {
	found, err := account(ctx, r.at, r.e.Address())
	if err != nil {
		return Disconnected{}, err
	}
	id := found.ID
	if id == "" {
		id = r.c.AccountID // of one that the platform does not show yet
	}
	able := r.view(ctx, r.i).Capabilities.MailboxDisconnect
	switch {
	case found.There() && !able:
		return Disconnected{}, fault.CapabilityMissing.With("this integration cannot take mailboxes out of the platform, and this one is still there")
	case id == "" || !able:
		return r.conclude(ctx, false)
	}
	return r.take(ctx, id)
}

// take has the intent stored before the platform is asked. What is left of a
// mailbox that another integration holds can be taken out too; the mailbox is
// not held here then.
func (r *removal) take(ctx context.Context, id string) (Disconnected, error) {
	before := r.c
	if !r.e.Elsewhere {
		if err := r.save(ctx, r.as(integration.ConnectionDisconnecting)); err != nil {
			return Disconnected{}, err
		}
	}
	failpoint.Hit("integrations.before-remove")
	err := r.remove(ctx, id)
	failpoint.Hit("integrations.after-remove")
	switch {
	case err == nil:
		return r.conclude(ctx, true)
	case outcome.Settled(err):
		before.UpdatedAt = r.now()
		if saved := r.save(ctx, before); saved != nil {
			return Disconnected{}, saved
		}
		return Disconnected{}, err
	default:
		return Disconnected{}, fault.ProviderTimeout.With("the outcome is not known: the mailbox is held until the same request again, or a refresh, has decided")
	}
}

// remove asks once more after a lost answer when a look shows the account still
// there: taking out what is out already does no harm.
func (r *removal) remove(ctx context.Context, id string) error {
	err := r.ask(ctx, id)
	if err == nil || outcome.Settled(err) {
		return err
	}
	found, lost := account(ctx, r.at, r.e.Address())
	switch {
	case lost != nil:
		return err
	case !found.There():
		return nil
	}
	if again := r.ask(ctx, found.ID); again == nil {
		return nil
	}
	return err // the first one may still take effect
}

func (r *removal) ask(ctx context.Context, id string) error {
	return settling.Call(ctx, func(ctx context.Context) error { return r.at.Remove(ctx, id) })
}

// as is the connection in another status.
func (r *removal) as(status integration.ConnectionStatus) integration.Connection {
	c := r.c
	c.Status, c.UpdatedAt = status, r.now()
	return c
}

func (r *removal) conclude(ctx context.Context, removed bool) (Disconnected, error) {
	d := Disconnected{IntegrationID: r.i.ID, MailboxID: r.e.Mailbox.ID, Removed: removed}
	ctx, err := ports.Complete(ctx, d)
	if err != nil {
		return Disconnected{}, err
	}
	failpoint.Hit("integrations.before-disconnect")
	if err := r.save(ctx, r.c.Gone("", r.now())); err != nil {
		return Disconnected{}, err
	}
	failpoint.Hit("integrations.after-disconnect")
	return d, nil
}

// saveTries is how often a change is tried that others come before.
const saveTries = 5

// save stores the connection over whatever others made of it meanwhile: who
// asked for the disconnect wants it, whatever they saw.
func (r *removal) save(ctx context.Context, c integration.Connection) error {
	for range saveTries {
		saved, err := r.saveOnce(ctx, c)
		if err != nil || saved {
			return err
		}
	}
	return fmt.Errorf("save connection: others changed it %d times meanwhile", saveTries)
}

func (r *removal) saveOnce(ctx context.Context, c integration.Connection) (saved bool, err error) {
	err = settling.Store(ctx, func(ctx context.Context) error {
		if saved, err = r.Connections.SaveConnection(ctx, r.i.AccountID, c, r.c.UpdatedAt); err != nil {
			return fmt.Errorf("save connection: %w", err)
		}
		if saved {
			r.c = c
			return nil
		}
		e, err := r.Connections.EligibleMailbox(ctx, r.i.AccountID, r.i.ID, r.e.Mailbox.ID)
		r.c.UpdatedAt = e.Connection.UpdatedAt
		return err
	})
	return saved, err
}
