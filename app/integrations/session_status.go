// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/app/reconcile"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/ports"
)

// minCheckInterval is the minimum time between two checks of a session that SessionStatus makes.
// All its callers share this limit. endExpiredSession ignores it.
const minCheckInterval = 3 * time.Second

// SessionStatus returns a session. It first checks an open session at the platform, at most once
// per minCheckInterval. It fails with integration_not_found, mailbox_not_found,
// oauth_session_not_found, UnreadableError, or an error of the platform.
func (s *Service) SessionStatus(ctx context.Context, owner access.AccountID, id, mailboxID, sessionID string) (integration.Session, error) {
	sc, err := s.loadCheck(ctx, owner, id, mailboxID, sessionID)
	if err != nil || sc.session.Status != integration.SessionPending || !sc.session.Opened {
		return sc.session, err
	}
	now := s.now()
	claimed, err := s.Connections.ClaimSessionCheck(ctx, owner, sc.session.ID, now.Add(-minCheckInterval), now)
	if err != nil {
		return integration.Session{}, err
	}
	if !claimed { // checked less than minCheckInterval ago, or ended since it was loaded
		return s.Connections.Session(ctx, owner, sc.integration.ID, sc.eligible.Mailbox.ID, sc.session.ID)
	}
	sc.session.CheckedAt = now
	return sc.checkAtPlatform(ctx)
}

// sessionCheck is a session with the state that is needed to check it at the platform.
type sessionCheck struct {
	*Service
	integration      integration.Integration
	sealedCredential []byte
	eligible         integration.EligibleMailbox
	session          integration.Session
	// final makes this check end the session, even if the platform may still complete the session.
	final bool
}

func (s *Service) loadCheck(ctx context.Context, owner access.AccountID, id, mailboxID, sessionID string) (sc sessionCheck, err error) {
	sc.Service = s
	if sc.integration, sc.sealedCredential, err = s.Integrations.Integration(ctx, owner, id); err != nil {
		return sc, err
	}
	if sc.eligible, err = s.Connections.EligibleMailbox(ctx, owner, sc.integration.ID, mailboxID); err != nil {
		return sc, err
	}
	sc.session, err = s.Connections.Session(ctx, owner, sc.integration.ID, sc.eligible.Mailbox.ID, sessionID)
	return sc, err
}

// checkAtPlatform reads the progress of an open session. If the session has ended, checkAtPlatform
// stores the end.
func (sc sessionCheck) checkAtPlatform(ctx context.Context) (integration.Session, error) {
	platform, err := sc.openPlatform(sc.integration, sc.sealedCredential)
	if err != nil {
		return integration.Session{}, err
	}
	began := sc.now()
	next, account, err := sc.readProgress(ctx, platform)
	if err != nil {
		return integration.Session{}, sc.recordRejection(ctx, sc.integration, began, err)
	}
	if next.Status == integration.SessionPending {
		return next, nil
	}
	return sc.storeEnd(ctx, next, account)
}

// readProgress reads the progress of the sign-in at the platform. If the platform has no sign-in
// sessions, readProgress reads the account instead. It also reads the account before it ends an
// expired session, and after a successful sign-in.
func (sc sessionCheck) readProgress(ctx context.Context, platform ports.SendingPlatform) (next integration.Session, account integration.Account, err error) {
	next, now := sc.session, sc.now()
	var progress integration.Progress
	if next.PlatformID != "" {
		err = reconcile.Call(ctx, func(ctx context.Context) error {
			progress, err = platform.SignIn(ctx, next.PlatformID)
			return err
		})
		if err != nil {
			return next, account, err
		}
		next = next.WithProgress(progress, sc.eligible.Mailbox, now)
	}
	expired := sc.final || next.HasEnded(progress, now)
	switch {
	case next.Status == integration.SessionConnected:
		// The platform may show the account some seconds late. The sign-in has succeeded, so the
		// session is connected even if the account cannot be read yet.
		if account, err = fetchAccount(ctx, platform, next.PlatformAccountAddress); err != nil {
			account = integration.Account{}
		}
		return next.WithAccount(account), account, nil
	case next.Status != integration.SessionPending, next.PlatformID != "" && !expired:
		return next, account, nil
	}
	if account, err = fetchAccount(ctx, platform, sc.eligible.Address()); err != nil {
		return next, account, err
	}
	if expired {
		return next.AfterLastCheck(account, now), account, nil
	}
	return next.AfterCheck(account, now), account, nil
}

// storeEnd stores the end of a session and the resulting connection. If a concurrent request has
// ended the session, storeEnd keeps and returns that end, unless that end is expired and this one
// is connected (see SaveSession of ports.Connections). If the mailbox was connected through a
// different integration in the meantime, the session fails.
func (sc sessionCheck) storeEnd(ctx context.Context, next integration.Session, account integration.Account) (integration.Session, error) {
	saved, err := sc.save(ctx, next, account)
	if errors.Is(err, fault.ConnectedElsewhere) {
		next = next.WithFailure(integration.ReasonElsewhere)
		next.ConnectedAt = time.Time{}
		saved, err = sc.save(ctx, next, integration.Account{})
	}
	if err != nil {
		return integration.Session{}, fmt.Errorf("end session: %w", err)
	}
	if !saved {
		return sc.Connections.Session(ctx, sc.integration.AccountID, sc.integration.ID, sc.eligible.Mailbox.ID, sc.session.ID)
	}
	return next, nil
}

func (sc sessionCheck) save(ctx context.Context, next integration.Session, account integration.Account) (saved bool, err error) {
	err = reconcile.Store(ctx, func(ctx context.Context) error {
		connection := sc.eligible.Connection.AfterSession(next, account, sc.now())
		changed := &connection
		if connection == sc.eligible.Connection || connection.ID == "" {
			changed = nil
		}
		saved, err = sc.Connections.SaveSession(ctx, sc.integration.AccountID, next, changed, nil)
		return err
	})
	return saved, err
}
