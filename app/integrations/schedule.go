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

// RefreshKind is the kind of jobs that refresh one integration. The id of a job is the id of the
// integration.
const RefreshKind = "sending_refresh"

// SessionKind is the kind of jobs that end an expired session. sessionJobID returns the id of a
// job.
const SessionKind = "sending_session"

const (
	// refreshTick is how often due refreshes are scheduled, unless the refresh interval is shorter.
	// One tick schedules at most maxRefreshes, spread over the time until the next tick.
	refreshTick  = 5 * time.Minute
	maxRefreshes = 100
	// sessionGrace is how long after a session's expiry the sweep waits before it ends the session.
	// It is longer than any request that opens a session, so that the sweep ends no session that is
	// still being opened.
	sessionGrace = time.Minute
	// maxCheckDelay is how long after a session's expiry a failed final check is repeated. After
	// that, the session ends even if the check fails.
	maxCheckDelay = time.Hour
	// maxSessions is the maximum number of sessions for which one sweep queues jobs.
	maxSessions = 1000
)

// Handlers returns the handlers of this package's job kinds.
func (s *Service) Handlers() map[string]ports.Handler {
	return map[string]ports.Handler{RefreshKind: s.refreshDue, SessionKind: s.endSession}
}

// Periodic returns the background jobs: the sweep of expired sessions, and the scheduling of
// refreshes. An integration of an active account is due one refresh interval after its last refresh
// began.
func (s *Service) Periodic(sweep, refresh time.Duration) []ports.Periodic {
	return []ports.Periodic{
		s.SessionSweep(sweep),
		ports.Sweep("sending_refreshes", min(refreshTick, refresh), s.Queue, func(ctx context.Context) ([]ports.Wakeup, error) {
			return s.dueRefreshes(ctx, refresh)
		}),
	}
}

// SessionSweep returns the periodic job that finds expired sessions and queues a job for each.
func (s *Service) SessionSweep(every time.Duration) ports.Periodic {
	return ports.Sweep("sending_sessions", every, s.Queue, s.expiredSessions)
}

// dueRefreshes returns the wake-ups of the integrations whose refresh is due, spread over the time
// until the next call. Each refresh is a separate job, so that accounts get fair shares.
func (s *Service) dueRefreshes(ctx context.Context, every time.Duration) ([]ports.Wakeup, error) {
	now := s.now()
	due, err := s.Integrations.DueRefreshes(ctx, now.Add(-every), now, maxRefreshes)
	wakeups := make([]ports.Wakeup, 0, len(due))
	for index, i := range due {
		delay := min(refreshTick, every) * time.Duration(index) / time.Duration(len(due))
		wakeups = append(wakeups, refreshAfter(i.ID, i.AccountID, delay))
	}
	return wakeups, err
}

// refreshAfter returns the wake-up of a refresh. It uses the machine's clock, because queues use
// that clock. In the sandbox, the service's clock may be hours ahead of the machine's clock.
func refreshAfter(id string, owner access.AccountID, delay time.Duration) ports.Wakeup {
	return ports.Wakeup{Kind: RefreshKind, ID: id, Account: owner, At: time.Now().Add(delay)}
}

// refreshDue refreshes one integration. It schedules the continuation of a listing that the
// platform throttled, or that ran out of time. It does not return errors of the platform, because
// the next scheduled refresh tries again. It returns internal errors, and the error of a refresh
// that was cancelled because the worker stops. The queue then retries.
func (s *Service) refreshDue(ctx context.Context, w ports.Wakeup) error {
	read := s.partialReads.take(w.ID, s.now())
	_, err := s.refresh(ctx, w.Account, w.ID, read, nil)
	if pause, willContinue := read.continueAfter(s.now()); willContinue && err == nil {
		s.partialReads.keep(w.ID, read, s.now())
		// The refresh may have used all the time of ctx.
		return s.Queue.Wake(context.WithoutCancel(ctx), refreshAfter(w.ID, w.Account, pause))
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	if outcome.KindOf(err) != 0 || errors.Is(err, fault.IntegrationNotFound) || errors.Is(err, fault.CapabilityMissing) {
		return nil
	}
	return err
}

func (s *Service) expiredSessions(ctx context.Context) ([]ports.Wakeup, error) {
	expired, err := s.Connections.PendingSessions(ctx, s.now().Add(-sessionGrace), maxSessions)
	wakeups := make([]ports.Wakeup, 0, len(expired))
	for _, session := range expired {
		wakeups = append(wakeups, ports.Wakeup{Kind: SessionKind, ID: sessionJobID(session.Session), Account: session.Account})
	}
	return wakeups, err
}

func sessionJobID(s integration.Session) string {
	return s.IntegrationID + "/" + s.MailboxID + "/" + s.ID
}

// endSession ends an expired session. It ignores a session that was deleted.
func (s *Service) endSession(ctx context.Context, w ports.Wakeup) error {
	ids := strings.Split(w.ID, "/") // the ids of the integration, the mailbox and the session
	if len(ids) != 3 {
		return fmt.Errorf("%q is not the id of a session job", w.ID)
	}
	err := s.endExpired(ctx, w.Account, ids[0], ids[1], ids[2])
	for _, deleted := range []fault.Code{fault.IntegrationNotFound, fault.MailboxNotFound, fault.SessionNotFound} {
		if errors.Is(err, deleted) {
			return nil
		}
	}
	return err
}

// endExpired ends a session if it has expired. An error of the platform is ignored, because the
// next sweep checks the session again.
func (s *Service) endExpired(ctx context.Context, owner access.AccountID, id, mailboxID, sessionID string) error {
	check, err := s.loadCheck(ctx, owner, id, mailboxID, sessionID)
	if err != nil || check.session.Status != integration.SessionPending || s.now().Before(check.session.ExpiresAt) {
		return err
	}
	if err = check.endExpiredSession(ctx); outcome.KindOf(err) != 0 {
		return nil
	}
	return err
}

// endExpiredSession ends an expired session. A session that never had a link ends at once. For any
// other session, endExpiredSession first checks the session at the platform. If the check fails,
// the session ends only after maxCheckDelay has passed since its expiry.
func (sc sessionCheck) endExpiredSession(ctx context.Context) error {
	if sc.session.Opened {
		_, err := sc.checkAtPlatform(ctx)
		if err == nil || sc.now().Sub(sc.session.ExpiresAt) < maxCheckDelay {
			return err
		}
	}
	_, err := sc.storeEnd(ctx, sc.session.AfterLastCheck(integration.Account{}, sc.now()), integration.Account{})
	return err
}
