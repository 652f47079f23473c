// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// The kinds of what the queue wakes.
const (
	kindRefresh = "sending_refresh" // of one integration, named by its id
	kindSession = "sending_session" // one that is over, named by sessionName
)

const (
	// refreshTick is how often refreshes that are due are handed out, spread
	// over the time until the next, refreshMost at once.
	refreshTick = 5 * time.Minute
	refreshMost = 100
	// lateness is how far past its end a session is looked at by itself. No
	// request that opens one lasts that long.
	lateness = time.Minute
	// patience is how long past its end a session waits for a last look at a
	// platform that cannot be asked.
	patience = time.Hour
	// sessionsMost is how many sessions one sweep wakes.
	sessionsMost = 1000
)

// Handlers work on what the queue wakes.
func (s *Service) Handlers() map[string]ports.Handler {
	return map[string]ports.Handler{kindRefresh: s.refreshDue, kindSession: s.endSession}
}

// Periodic is what happens by itself: sessions that are over are looked for
// after each sweep, and no integration is refreshed less often than each
// refresh.
func (s *Service) Periodic(sweep, refresh time.Duration) []ports.Periodic {
	return []ports.Periodic{
		ports.Sweep("sending_sessions", sweep, s.Queue, s.overSessions),
		ports.Sweep("sending_refreshes", min(refreshTick, refresh), s.Queue, func(ctx context.Context) ([]ports.Wakeup, error) {
			return s.dueRefreshes(ctx, refresh)
		}),
	}
}

// dueRefreshes hands out the refreshes that are due, one job an integration, so
// that accounts take turns, and not all at once.
func (s *Service) dueRefreshes(ctx context.Context, every time.Duration) ([]ports.Wakeup, error) {
	now := s.now()
	due, err := s.Integrations.DueRefreshes(ctx, now.Add(-every), now, refreshMost)
	all := make([]ports.Wakeup, 0, len(due))
	for n, i := range due {
		after := min(refreshTick, every) * time.Duration(n) / time.Duration(len(due))
		all = append(all, refreshAfter(i.ID, i.AccountID, after))
	}
	return all, err
}

// refreshAfter wakes a refresh. Queues go by the clock of their machine, which
// the sandbox's may be hours ahead of.
func refreshAfter(id string, owner access.AccountID, after time.Duration) ports.Wakeup {
	return ports.Wakeup{Kind: kindRefresh, ID: id, Account: owner, At: time.Now().Add(after)}
}

// refreshDue refreshes one integration. What a platform answers is stored, and
// its next time comes; only trouble of ours is tried again before, and a list
// that is longer than the platform lets us read at a time is read on.
func (s *Service) refreshDue(ctx context.Context, w ports.Wakeup) error {
	r := s.begun.take(w.ID, s.now())
	_, err := s.refresh(ctx, w.Account, w.ID, r)
	if after, later := r.goesOn(s.now()); later && err == nil {
		s.begun.keep(w.ID, r, s.now())
		return s.Queue.Wake(ctx, refreshAfter(w.ID, w.Account, after))
	}
	if outcome.Of(err) != 0 || errors.Is(err, fault.IntegrationNotFound) || errors.Is(err, fault.CapabilityMissing) {
		return nil
	}
	return err
}

// overSessions are the sessions that are over and that nobody asks about.
func (s *Service) overSessions(ctx context.Context) ([]ports.Wakeup, error) {
	over, err := s.Connections.PendingSessions(ctx, s.now().Add(-lateness), sessionsMost)
	all := make([]ports.Wakeup, 0, len(over))
	for _, o := range over {
		all = append(all, ports.Wakeup{Kind: kindSession, ID: sessionName(o.Session), Account: o.Account})
	}
	return all, err
}

func sessionName(s integration.Session) string {
	return s.IntegrationID + "/" + s.MailboxID + "/" + s.ID
}

// endSession takes the last look at a session that is over. What was deleted
// meanwhile needs none.
func (s *Service) endSession(ctx context.Context, w ports.Wakeup) error {
	names := strings.Split(w.ID, "/")
	if len(names) != len([]string{"integration", "mailbox", "session"}) {
		return fmt.Errorf("%q names no session", w.ID)
	}
	err := s.end(ctx, w.Account, names[0], names[1], names[2])
	for _, gone := range []fault.Code{fault.IntegrationNotFound, fault.MailboxNotFound, fault.SessionNotFound} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}

// end ends a session that is over: one that never opened at once, since nobody
// has its link; another after a last look, unless that cannot be had for long.
func (s *Service) end(ctx context.Context, owner access.AccountID, id, mailboxID, sessionID string) error {
	q, err := s.question(ctx, owner, id, mailboxID, sessionID)
	if err != nil || q.session.Status != integration.SessionPending || s.now().Before(q.session.ExpiresAt) {
		return err
	}
	if q.session.Opened {
		_, err = q.ask(ctx)
		if err == nil || s.now().Sub(q.session.ExpiresAt) < patience {
			return unanswered(err)
		}
	}
	_, err = q.settle(ctx, q.session.Ended(integration.Account{}, s.now()), integration.Account{})
	return err
}

// unanswered leaves a session to the next sweep that its platform could not be
// asked about.
func unanswered(err error) error {
	if outcome.Of(err) != 0 {
		return nil
	}
	return err
}
