// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

func sessionID(n int) string { return fmt.Sprintf("80000000-0000-7000-8000-%012d", n) }

// newSession returns the nth session. It begins n seconds after now and expires ten minutes later.
func newSession(i integration.Integration, m mailbox.Mailbox, n int) integration.Session {
	at := now.Add(time.Duration(n) * time.Second)
	return integration.Session{
		ID: sessionID(n), IntegrationID: i.ID, MailboxID: m.ID, Status: integration.SessionPending,
		PreviousMark: hostileText, CreatedAt: at, ExpiresAt: at.Add(10 * time.Minute),
	}
}

func (fixture integrationFixture) beginSession(t testing.TB, s *Store, i integration.Integration, box, n int) integration.Session {
	t.Helper()
	session := newSession(i, fixture.boxes[box], n)
	must(t, "begin session", s.BeginSession(t.Context(), fixture.owner, session, connectionID(n), now))
	return session
}

func (fixture integrationFixture) requireSession(t testing.TB, label string, s *Store, want integration.Session) {
	t.Helper()
	got, err := s.Session(t.Context(), fixture.owner, want.IntegrationID, want.MailboxID, want.ID)
	must(t, label, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", label, diff)
	}
}

// requireSaved returns a function that checks whether a call has stored its change.
func requireSaved(t testing.TB, label string, want bool) func(isSaved bool, err error) {
	return func(isSaved bool, err error) {
		t.Helper()
		if must(t, label, err); isSaved != want {
			t.Fatalf("%s: saved is %v, want %v", label, isSaved, want)
		}
	}
}

// completedSession returns the session with a different value in every field that can change.
func completedSession(session integration.Session) integration.Session {
	session.Status, session.Opened, session.PlatformID, session.PreviousMark = integration.SessionConnected, true, "platform-"+hostileText, "stamp"
	session.PlatformAccountID, session.PlatformAccountAddress, session.PlatformAccountName, session.Reason = "account", "a@b.test", hostileText, "reason"
	session.ExpiresAt, session.ConnectedAt, session.CheckedAt = now.Add(time.Hour), now.Add(time.Minute), now.Add(2*time.Minute)
	return session
}

func TestSessionIsStoredAndItsConnectionIsPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.integration1, 0, 1)
		fixture.requireSession(t, "begun", s, session)
		fixture.requireConnection(t, "the connection", s, fixture.integration1, 0, integration.Connection{
			ID: connectionID(1), IntegrationID: fixture.integration1.ID, MailboxID: fixture.boxes[0].ID, Status: integration.ConnectionPending, UpdatedAt: session.CreatedAt,
		})
		fixture.requireConnection(t, "the connection of the other mailbox", s, fixture.integration1, 1, integration.Connection{})
	})
}

func TestSessionMakesItsConnectionPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for n, status := range allConnectionStatuses {
			want := fixture.setConnection(t, s, fixture.integration1, 0, status)
			session := fixture.beginSession(t, s, fixture.integration1, 0, n+1)
			if status != integration.ConnectionConnected && status != integration.ConnectionDisconnecting {
				want.Status, want.HasError, want.Reason, want.UpdatedAt = integration.ConnectionPending, false, "", session.CreatedAt
			}
			fixture.requireConnection(t, string(status), s, fixture.integration1, 0, want)
			session.Status = integration.SessionFailed
			requireSaved(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, session, nil, nil))
		}
	})
}

func TestMailboxHasOnePendingSessionAtIntegration(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		minutes := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
		for n, tc := range []struct {
			name           string
			isOpened       bool
			beginsAt       time.Time // when the new session begins
			unopenedBefore time.Time
			endsPrevious   bool
		}{
			{"a session that was opened", true, minutes(9), minutes(9), false},
			// The caller must first read the result of an opened session at the platform.
			{"a session that was opened, after its expiry", true, minutes(30), minutes(30), false},
			{"a session that is being opened", false, minutes(1), now.Add(3 * time.Second), false},
			{"a session that was never opened", false, minutes(1), now.Add(4 * time.Second).Add(time.Microsecond), true},
			{"a session that was never opened, after its expiry", false, minutes(11), minutes(0), true},
		} {
			n++ // the previous session begins n seconds after now and expires ten minutes later
			previous := fixture.beginSession(t, s, fixture.integration1, 0, n)
			previous.Opened = tc.isOpened
			requireSaved(t, tc.name, true)(s.SaveSession(t.Context(), fixture.owner, previous, nil, nil))
			newest := newSession(fixture.integration1, fixture.boxes[0], 10+n)
			newest.CreatedAt, newest.ExpiresAt = tc.beginsAt, tc.beginsAt.Add(time.Hour)
			err := s.BeginSession(t.Context(), fixture.owner, newest, connectionID(9), tc.unopenedBefore)
			if !tc.endsPrevious {
				requireRefusal(t, tc.name, err, fault.SessionActive)
				fixture.requireSession(t, tc.name, s, previous)
				_, err = s.Session(t.Context(), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID, newest.ID)
				requireRefusal(t, tc.name, err, fault.SessionNotFound)
				newest = previous
			} else {
				must(t, tc.name, err)
				previous.Status = integration.SessionExpired
				fixture.requireSession(t, tc.name, s, previous)
				fixture.requireSession(t, tc.name, s, newest)
			}
			newest.Status = integration.SessionFailed
			requireSaved(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, newest, nil, nil))
		}
	})
}

func TestDisconnectionKeepsSessionAtDifferentIntegration(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.integration1, 0, 1)
		fixture.setConnection(t, s, fixture.integration2, 0, integration.ConnectionDisconnected)
		fixture.requireSession(t, "pending", s, session)
	})
}

func TestNoSessionBeginsForMailboxThatDifferentIntegrationHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.beginSession(t, s, fixture.integration1, 1, 90) // a session of a different mailbox does not block
		for n, status := range allConnectionStatuses {
			otherConnection := fixture.setConnection(t, s, fixture.integration2, 0, status)
			connection := fixture.storedConnection(t, s, fixture.integration1, 0)
			session := newSession(fixture.integration1, fixture.boxes[0], n+1)
			err := s.BeginSession(t.Context(), fixture.owner, session, connectionID(n+1), now)
			fixture.requireConnection(t, string(status), s, fixture.integration2, 0, otherConnection)
			if !status.HoldsMailbox() {
				must(t, string(status), err)
				session.Status = integration.SessionFailed
				disconnected := fixture.newConnection(fixture.integration1, 0, integration.ConnectionDisconnected)
				requireSaved(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, session, &disconnected, nil))
				continue
			}
			requireRefusal(t, string(status), err, fault.ConnectedElsewhere)
			fixture.requireConnection(t, string(status), s, fixture.integration1, 0, connection)
			_, err = s.Session(t.Context(), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID, session.ID)
			requireRefusal(t, string(status), err, fault.SessionNotFound)
		}
	})
}

func TestOneOfConcurrentSessionsAtTwoIntegrationsBegins(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		integrations := []integration.Integration{fixture.integration1, fixture.integration2}
		hasBegun := make([]bool, concurrency)
		for n, err := range concurrently(concurrency, func(n int) error {
			return s.BeginSession(t.Context(), fixture.owner, newSession(integrations[n%2], fixture.boxes[0], n), connectionID(n), now)
		}) {
			hasBegun[n] = err == nil
			if err != nil && !errors.Is(err, fault.ConnectedElsewhere) && !errors.Is(err, fault.SessionActive) {
				t.Fatalf("call %d: got %v, want success or a refusal", n, err)
			}
		}
		if n := countTrue(hasBegun); n != 1 {
			t.Fatalf("%d sessions began, want 1", n)
		}
		winner := slices.Index(hasBegun, true) % 2
		for n, i := range integrations {
			if isPending := fixture.storedConnection(t, s, i, 0).Status == integration.ConnectionPending; isPending != (n == winner) {
				t.Fatalf("integration %d: the connection is pending: %v, want %v", n, isPending, n == winner)
			}
		}
		pendingSessions, err := s.PendingSessions(t.Context(), now.Add(time.Hour), concurrency)
		must(t, "pending", err)
		if len(pendingSessions) != 1 {
			t.Fatalf("%d sessions are pending, want 1", len(pendingSessions))
		}
	})
}

func TestOneOfConcurrentSessionsAfterExpiredOneBegins(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.beginSession(t, s, fixture.integration1, 0, 1)
		if n := countWinners(t, concurrently(concurrency, func(n int) error {
			session := newSession(fixture.integration1, fixture.boxes[0], n+1000)
			return s.BeginSession(t.Context(), fixture.owner, session, connectionID(n), now)
		}), fault.SessionActive); n != 1 {
			t.Fatalf("%d sessions began, want 1", n)
		}
	})
}

func TestSessionIsFoundOnlyByItsIntegrationMailboxAndAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		session := fixture.beginSession(t, s, fixture.integration1, 0, 1)
		for name, query := range map[string]struct {
			account     integrationFixture
			integration integration.Integration
			box         int
			found       bool
		}{
			"pending": {fixture, fixture.integration1, 0, true}, "at another integration": {fixture, fixture.integration2, 0, false},
			"of another mailbox": {fixture, fixture.integration1, 1, false}, "of another account": {bob, fixture.integration1, 0, false},
		} {
			got, found, err := s.PendingSession(t.Context(), query.account.owner, query.integration.ID, fixture.boxes[query.box].ID)
			must(t, name, err)
			if found != query.found || found && got != session {
				t.Fatalf("%s: found is %v, want %v; the found session is %+v, want %+v", name, found, query.found, got, session)
			}
		}
		find := func(account integrationFixture, i integration.Integration, m mailbox.Mailbox, id string) error {
			_, err := s.Session(t.Context(), account.owner, i.ID, m.ID, id)
			return err
		}
		must(t, "find", find(fixture, fixture.integration1, fixture.boxes[0], session.ID))
		unknown := find(fixture, fixture.integration1, fixture.boxes[0], sessionID(9))
		requireRefusal(t, "unknown", unknown, fault.SessionNotFound)
		requireSameError(t, "of another integration", find(fixture, fixture.integration2, fixture.boxes[0], session.ID), unknown)
		requireSameError(t, "of another mailbox", find(fixture, fixture.integration1, fixture.boxes[1], session.ID), unknown)
		requireSameError(t, "of another account", find(bob, fixture.integration1, fixture.boxes[0], session.ID), unknown)
		requireSameError(t, "nonsense", find(fixture, fixture.integration1, fixture.boxes[0], "x"), unknown)
		requireSaved(t, "save of another account", false)(s.SaveSession(t.Context(), bob.owner, completedSession(session), nil, nil))
		misplaced := completedSession(session)
		misplaced.MailboxID = fixture.boxes[1].ID
		requireSaved(t, "save of another mailbox", false)(s.SaveSession(t.Context(), fixture.owner, misplaced, nil, nil))
		misplaced = completedSession(session)
		misplaced.IntegrationID = fixture.integration2.ID
		requireSaved(t, "save of another integration", false)(s.SaveSession(t.Context(), fixture.owner, misplaced, nil, nil))
		fixture.requireSession(t, "untouched", s, session)
	})
}

func TestRefusedSessionDoesNotChangeConnection(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.beginSession(t, s, fixture.integration1, 0, 1)
		failed := fixture.setConnection(t, s, fixture.integration1, 0, integration.ConnectionFailed)
		err := s.BeginSession(t.Context(), fixture.owner, newSession(fixture.integration1, fixture.boxes[0], 2), connectionID(9), now)
		requireRefusal(t, "begin", err, fault.SessionActive)
		fixture.requireConnection(t, "after the refusal", s, fixture.integration1, 0, failed)
	})
}

func TestSessionChangesOnlyWhileItIsPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.integration1, 0, 1)
		opened := completedSession(session)
		opened.Status = integration.SessionPending
		requireSaved(t, "open", true)(s.SaveSession(t.Context(), fixture.owner, opened, nil, nil))
		fixture.requireSession(t, "opened", s, opened)
		completed := completedSession(session)
		connected := fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected)
		requireSaved(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, completed, &connected, nil))
		connected.ID = connectionID(1)
		for _, status := range []integration.SessionStatus{integration.SessionPending, integration.SessionFailed} {
			lateChange, failedConnection := opened, fixture.newConnection(fixture.integration1, 0, integration.ConnectionFailed)
			lateChange.Status = status
			requireSaved(t, "save after the end", false)(s.SaveSession(t.Context(), fixture.owner, lateChange, &failedConnection, nil))
			fixture.requireSession(t, "ended", s, completed)
			fixture.requireConnection(t, "the connection of the ended session", s, fixture.integration1, 0, connected)
		}
		next := newSession(fixture.integration1, fixture.boxes[0], 2)
		next.CreatedAt, next.ExpiresAt = completed.ExpiresAt.Add(time.Hour), completed.ExpiresAt.Add(2*time.Hour)
		must(t, "begin the next", s.BeginSession(t.Context(), fixture.owner, next, connectionID(2), next.CreatedAt))
		if pending, found, err := s.PendingSession(t.Context(), fixture.owner, fixture.integration1.ID, fixture.boxes[0].ID); err != nil || !found || pending.ID != next.ID {
			t.Fatalf("the pending session: found is %v, got %+v, %v, want %s", found, pending, err, next.ID)
		}
		requireSaved(t, "save the ended session after the next one began", false)(s.SaveSession(t.Context(), fixture.owner, opened, nil, nil))
		fixture.requireSession(t, "ended", s, completed)
		fixture.requireSession(t, "next", s, next)
	})
}

// TestFailedSessionChangesOnlyPendingConnection checks that the end of a failed or expired session
// does not overwrite a connection that a concurrent request has changed.
func TestFailedSessionChangesOnlyPendingConnection(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		n := 0
		for _, ended := range []integration.SessionStatus{integration.SessionFailed, integration.SessionExpired} {
			for _, status := range allConnectionStatuses {
				if status == integration.ConnectionDisconnected {
					continue // a disconnection also ends the session
				}
				n++
				session := fixture.beginSession(t, s, fixture.integration1, 0, n)
				want := fixture.setConnection(t, s, fixture.integration1, 0, status)
				failed := want.WithFailure("reason", now.Add(time.Hour))
				if status == integration.ConnectionPending {
					want = failed
				}
				session.Status, session.Reason = ended, "reason"
				requireSaved(t, "end the session", true)(s.SaveSession(t.Context(), fixture.owner, session, &failed, nil))
				fixture.requireSession(t, "the session", s, session)
				fixture.requireConnection(t, string(ended)+", "+string(status), s, fixture.integration1, 0, want)
			}
		}
	})
}

// TestOnlyNewerSignInEndsDisconnecting checks connected sessions of a mailbox whose disconnect has
// an unknown outcome. If a session began before the disconnect, the disconnect may have removed the
// account of the session.
func TestOnlyNewerSignInEndsDisconnecting(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for n, tc := range []struct {
			name            string
			disconnectAfter time.Duration // from the beginning of the session
			connects        bool          // whether the session changes the connection
		}{
			{"the session began before the disconnect", time.Second, false},
			{"the session began after the disconnect", -time.Second, true},
		} {
			session := fixture.beginSession(t, s, fixture.integration1, 0, n+1)
			previous := fixture.storedConnection(t, s, fixture.integration1, 0)
			want := previous
			want.Status, want.UpdatedAt = integration.ConnectionDisconnecting, session.CreatedAt.Add(tc.disconnectAfter)
			requireSaved(t, tc.name, true)(s.SaveConnection(t.Context(), fixture.owner, want, previous.UpdatedAt, nil))
			connected := fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected)
			requireSaved(t, tc.name, true)(s.SaveSession(t.Context(), fixture.owner, completedSession(session), &connected, nil))
			fixture.requireSession(t, tc.name, s, completedSession(session))
			if tc.connects {
				want = connected
				want.ID = previous.ID
			}
			fixture.requireConnection(t, tc.name, s, fixture.integration1, 0, want)
		}
	})
}

// TestSuccessReplacesExpiryUnlessMailboxWasDisconnected checks two concurrent requests. The first
// request stores that the session has expired. Then the second request stores a success that it had
// read earlier. The test also disconnects a different mailbox, and the same mailbox at a different
// integration. These disconnections must not prevent the success.
func TestSuccessReplacesExpiryUnlessMailboxWasDisconnected(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.setConnection(t, s, fixture.integration1, 1, integration.ConnectionDisconnected)
		fixture.setConnection(t, s, fixture.integration2, 0, integration.ConnectionDisconnected)
		for n, status := range allConnectionStatuses {
			session := fixture.beginSession(t, s, fixture.integration1, 0, n+1)
			completed, expired, failed := completedSession(session), completedSession(session), completedSession(session)
			expired.Status, failed.Status = integration.SessionExpired, integration.SessionFailed
			requireSaved(t, "expire", true)(s.SaveSession(t.Context(), fixture.owner, expired, nil, nil))
			fixture.setConnection(t, s, fixture.integration1, 0, status)
			requireSaved(t, "fail after the expiry", false)(s.SaveSession(t.Context(), fixture.owner, failed, nil, nil))
			replaces := status != integration.ConnectionDisconnecting && status != integration.ConnectionDisconnected
			requireSaved(t, "succeed after the expiry, "+string(status), replaces)(s.SaveSession(t.Context(), fixture.owner, completed, nil, nil))
			if !replaces {
				completed = expired
			}
			fixture.requireSession(t, string(status), s, completed)
		}
	})
}

func TestSessionCannotConnectMailboxThatDifferentIntegrationHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.integration1, 0, 1)
		connection := fixture.newConnection(fixture.integration1, 0, integration.ConnectionDisconnected)
		connection.ID = connectionID(1)
		// The account at the platform was removed, so no integration holds the mailbox.
		fixture.saveRefresh(t, s, fixture.integration1, now.Add(time.Hour), connection)
		otherConnection := fixture.setConnection(t, s, fixture.integration2, 0, integration.ConnectionConnected)
		connected := fixture.newConnection(fixture.integration1, 0, integration.ConnectionConnected)
		_, err := s.SaveSession(t.Context(), fixture.owner, completedSession(session), &connected, nil)
		requireRefusal(t, "connect", err, fault.ConnectedElsewhere)
		fixture.requireSession(t, "the session", s, session)
		fixture.requireConnection(t, "at the first integration", s, fixture.integration1, 0, connection)
		fixture.requireConnection(t, "at the second integration", s, fixture.integration2, 0, otherConnection)
		failed := fixture.newConnection(fixture.integration1, 0, integration.ConnectionFailed)
		requireSaved(t, "fail", true)(s.SaveSession(t.Context(), fixture.owner, completedSession(session), &failed, nil))
		fixture.requireConnection(t, "at the second integration", s, fixture.integration2, 0, otherConnection)
	})
}

func TestOneOfConcurrentEndsOfSessionIsStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.integration1, 0, 1)
		isStored := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			isStored[n], err = s.SaveSession(t.Context(), fixture.owner, completedSession(session), nil, nil)
			return err
		}) {
			must(t, "end", err)
		}
		if n := countTrue(isStored); n != 1 {
			t.Fatalf("%d calls ended the session, want 1", n)
		}
	})
}

func TestOneOfConcurrentPollsOfSessionIsAllowed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		session := fixture.beginSession(t, s, fixture.integration1, 0, 1)
		seconds := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
		poll := func(since, at int) (bool, error) { // in seconds after now
			return s.ClaimSessionCheck(t.Context(), fixture.owner, session.ID, seconds(since), seconds(at))
		}
		isAllowed := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			isAllowed[n], err = poll(7, 10)
			return err
		}) {
			must(t, "poll", err)
		}
		if n := countTrue(isAllowed); n != 1 {
			t.Fatalf("%d polls are allowed, want 1", n)
		}
		session.CheckedAt = seconds(10)
		fixture.requireSession(t, "polled", s, session)
		requireSaved(t, "poll too early", false)(poll(9, 12))
		fixture.requireSession(t, "polled", s, session)
		requireSaved(t, "poll later", true)(poll(10, 13))
		requireSaved(t, "poll by a different account", false)(s.ClaimSessionCheck(t.Context(), bob.owner, session.ID, seconds(20), seconds(23)))
		requireSaved(t, "poll of an unknown session", false)(s.ClaimSessionCheck(t.Context(), fixture.owner, "x", seconds(20), seconds(23)))
		requireSaved(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, completedSession(session), nil, nil))
		requireSaved(t, "poll after the end", false)(poll(10000, 10003))
		fixture.requireSession(t, "ended", s, completedSession(session))
	})
}

func TestExpiredSessionsOfAllAccountsAreListedOldestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		expiresThird, expiresFirst := ann.beginSession(t, s, ann.integration1, 0, 3), ann.beginSession(t, s, ann.integration2, 1, 1)
		expiresSecond, ended := bob.beginSession(t, s, bob.integration1, 0, 2), bob.beginSession(t, s, bob.integration1, 1, 4)
		expiresFirst.Opened = true
		requireSaved(t, "open", true)(s.SaveSession(t.Context(), ann.owner, expiresFirst, nil, nil))
		requireSaved(t, "end", true)(s.SaveSession(t.Context(), bob.owner, completedSession(ended), nil, nil))
		for _, tc := range []struct {
			before time.Time
			limit  int
			want   []integration.Session
		}{
			{now.Add(time.Hour), 9, []integration.Session{expiresFirst, expiresSecond, expiresThird}},
			{now.Add(time.Hour), 2, []integration.Session{expiresFirst, expiresSecond}},
			{expiresSecond.ExpiresAt, 9, []integration.Session{expiresFirst}},
			{expiresSecond.ExpiresAt.Add(time.Microsecond), 9, []integration.Session{expiresFirst, expiresSecond}},
			{now, 9, nil},
		} {
			listed, err := s.PendingSessions(t.Context(), tc.before, tc.limit)
			must(t, "list", err)
			var sessions []integration.Session
			for _, l := range listed {
				owner := ann.owner
				if l.Session.ID == expiresSecond.ID {
					owner = bob.owner
				}
				if l.Account != owner {
					t.Fatalf("the session %s belongs to %q, want %q", l.Session.ID, l.Account, owner)
				}
				sessions = append(sessions, l.Session)
			}
			if diff := cmp.Diff(tc.want, sessions); diff != "" {
				t.Fatalf("expired before %s, at most %d sessions (-want +got):\n%s", tc.before, tc.limit, diff)
			}
		}
	})
}

func TestSessionAndItsAnswerAreCommittedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session, otherSession := fixture.beginSession(t, s, fixture.integration1, 0, 1), fixture.beginSession(t, s, fixture.integration1, 1, 2)
		connected := fixture.newConnection(fixture.integration1, 1, integration.ConnectionConnected)
		pending := fixture.storedConnection(t, s, fixture.integration1, 1)
		requireCommitted(t, s, fixture.owner, map[string]func(storedAnswer *ports.StoredAnswer) error{
			"alone": func(storedAnswer *ports.StoredAnswer) error {
				_, err := s.SaveSession(t.Context(), fixture.owner, completedSession(session), nil, storedAnswer)
				return err
			},
			"with its connection": func(storedAnswer *ports.StoredAnswer) error {
				_, err := s.SaveSession(t.Context(), fixture.owner, completedSession(otherSession), &connected, storedAnswer)
				return err
			},
		}, func() {
			fixture.requireSession(t, "alone", s, session)
			fixture.requireSession(t, "with its connection", s, otherSession)
			fixture.requireConnection(t, "its connection", s, fixture.integration1, 1, pending)
		})
		lateClaim := newClaim(fixture.owner, 99)
		requireSaved(t, "save after the end", false)(s.SaveSession(t.Context(), fixture.owner, session, nil, newStoredAnswer(lateClaim, mustClaim(t, s, lateClaim))))
		if r := requireRecord(t, s, lateClaim.Key); r.Answer != nil {
			t.Fatalf("the record of the key is %+v, want no answer, because the session was not changed", r)
		}
	})
}

// TestConcurrentProcessesBeginOneSession begins sessions of a mailbox concurrently, at two
// integrations. It uses two stores on one database, as two processes do. One session must begin.
func TestConcurrentProcessesBeginOneSession(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		store1, store2 := migratedStore(t, address), openStore(t, address)
		fixture := newIntegrationFixture(t, store1, "ann", 1)
		errs := concurrently(concurrency, func(n int) error {
			session := newSession([]integration.Integration{fixture.integration1, fixture.integration2}[n/2%2], fixture.boxes[0], n)
			err := []*Store{store1, store2}[n%2].BeginSession(t.Context(), fixture.owner, session, newID(), now)
			if errors.Is(err, fault.ConnectedElsewhere) {
				return fault.SessionActive
			}
			return err
		})
		pending, err := store2.PendingSessions(t.Context(), now.Add(time.Hour), concurrency)
		must(t, "list sessions", err)
		if winners := countWinners(t, errs, fault.SessionActive); winners != 1 || len(pending) != 1 {
			t.Fatalf("%d sessions began and %d are pending, want 1", winners, len(pending))
		}
		eligible, err := store1.EligibleMailbox(t.Context(), fixture.owner, pending[0].Session.IntegrationID, fixture.boxes[0].ID)
		must(t, "find eligible mailbox", err)
		if eligible.Connection.Status != integration.ConnectionPending || eligible.HeldElsewhere {
			t.Errorf("the eligible mailbox is %+v, want a pending connection at its integration only", eligible)
		}
	})
}
