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
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// lookPause lies between two questions to the platform about one session,
// however many ask us.
const lookPause = 3 * time.Second

// Status tells how a session stands. An open one is asked for at the platform.
// Refusals: integration_not_found, mailbox_not_found, oauth_session_not_found.
func (s *Service) Status(ctx context.Context, owner access.AccountID, id, mailboxID, sessionID string) (integration.Session, error) {
	q, err := s.question(ctx, owner, id, mailboxID, sessionID)
	if err != nil || q.session.Status != integration.SessionPending || !q.session.Opened {
		return q.session, err
	}
	now := s.now()
	taken, err := s.Connections.TakeLook(ctx, owner, q.session.ID, now.Add(-lookPause), now)
	if err != nil {
		return integration.Session{}, err
	}
	if !taken { // by another, who may have ended it
		return s.Connections.Session(ctx, owner, q.i.ID, q.e.Mailbox.ID, q.session.ID)
	}
	q.session.LookedAt = now
	return q.ask(ctx)
}

// question is a session that the platform may be asked about.
type question struct {
	*Service
	i       integration.Integration
	sealed  []byte
	e       integration.Eligible
	session integration.Session
}

func (s *Service) question(ctx context.Context, owner access.AccountID, id, mailboxID, sessionID string) (q question, err error) {
	q.Service = s
	if q.i, q.sealed, err = s.Integrations.Integration(ctx, owner, id); err != nil {
		return q, err
	}
	if q.e, err = s.Connections.EligibleMailbox(ctx, owner, q.i.ID, mailboxID); err != nil {
		return q, err
	}
	q.session, err = s.Connections.Session(ctx, owner, q.i.ID, q.e.Mailbox.ID, sessionID)
	return q, err
}

// ask finds out how an open session stands, and stores its end.
func (q question) ask(ctx context.Context) (integration.Session, error) {
	at, err := q.reach(q.i, q.sealed)
	if err != nil {
		return integration.Session{}, err
	}
	next, seen, err := q.hear(ctx, at)
	if err != nil {
		return integration.Session{}, q.notice(ctx, q.i.AccountID, q.i.ID, err)
	}
	if next.Status == integration.SessionPending {
		return next, nil
	}
	return q.settle(ctx, next, seen)
}

// hear asks for the platform's session, or for the account where it has none,
// and looks the account up once more before a session expires.
func (q question) hear(ctx context.Context, at ports.SendingPlatform) (next integration.Session, seen integration.Account, err error) {
	next, now := q.session, q.now()
	var p integration.Progress
	if next.PlatformID != "" {
		err = settling.Call(ctx, func(ctx context.Context) error {
			p, err = at.SignIn(ctx, next.PlatformID)
			return err
		})
		if err != nil {
			return next, seen, err
		}
		next = next.Heard(p, q.e.Mailbox, now)
	}
	over := next.Over(p, now)
	switch {
	case next.Status == integration.SessionConnected:
		// The platform may show the account some seconds late.
		if seen, err = account(ctx, at, next.AccountAddress); err != nil {
			seen = integration.Account{}
		}
		return next.With(seen), seen, nil
	case next.Status != integration.SessionPending, next.PlatformID != "" && !over:
		return next, seen, nil
	}
	if seen, err = account(ctx, at, q.e.Address()); err != nil {
		return next, seen, err
	}
	if over {
		return next.Ended(seen, now), seen, nil
	}
	return next.Seen(seen, now), seen, nil
}

// settle stores the end of a session with what it makes of the connection. When
// another was faster, or has the mailbox by now, that counts.
func (q question) settle(ctx context.Context, next integration.Session, seen integration.Account) (integration.Session, error) {
	saved, err := q.save(ctx, next, seen)
	if errors.Is(err, fault.ConnectedElsewhere) {
		next = next.Failed(integration.ReasonElsewhere)
		next.ConnectedAt = time.Time{}
		saved, err = q.save(ctx, next, integration.Account{})
	}
	if err != nil {
		return integration.Session{}, fmt.Errorf("end session: %w", err)
	}
	if !saved {
		return q.Connections.Session(ctx, q.i.AccountID, q.i.ID, q.e.Mailbox.ID, q.session.ID)
	}
	return next, nil
}

func (q question) save(ctx context.Context, next integration.Session, seen integration.Account) (saved bool, err error) {
	failpoint.Hit("integrations.before-settle")
	err = settling.Store(ctx, func(ctx context.Context) error {
		c := q.e.Connection.After(next, seen, q.now())
		ends := &c
		if c == q.e.Connection || c.ID == "" {
			ends = nil
		}
		saved, err = q.Connections.SaveSession(ctx, q.i.AccountID, next, ends)
		return err
	})
	failpoint.Hit("integrations.after-settle")
	return saved, err
}
