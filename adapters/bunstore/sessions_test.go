// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
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

// beginSession begins the nth session of a mailbox.
func (fixture integrationFixture) beginSession(t testing.TB, s *Store, i integration.Integration, box, n int) integration.Session {
	t.Helper()
	session := newSession(i, fixture.boxes[box], n)
	must(t, "begin session", s.BeginSession(t.Context(), fixture.owner, session, connectionID(n), now))
	return session
}

// requireSession checks a stored session.
func (fixture integrationFixture) requireSession(t testing.TB, what string, s *Store, want integration.Session) {
	t.Helper()
	got, err := s.Session(t.Context(), fixture.owner, want.IntegrationID, want.MailboxID, want.ID)
	must(t, what, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// completedSession returns the session with a different value in every field that can change.
func completedSession(session integration.Session) integration.Session {
	session.Status, session.Opened, session.PlatformID, session.PreviousMark = integration.SessionConnected, true, "platform-"+hostileText, "stamp"
	session.AccountID, session.AccountAddress, session.AccountName, session.Reason = "account", "a@b.test", hostileText, "reason"
	session.ExpiresAt, session.ConnectedAt, session.CheckedAt = now.Add(time.Hour), now.Add(time.Minute), now.Add(2*time.Minute)
	return session
}

// The following tests cover how sessions begin and are found.

func TestSessionIsStoredAndItsConnectionIsPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.one, 0, 1)
		fixture.requireSession(t, "begun", s, session)
		fixture.requireConnection(t, "the connection", s, fixture.one, 0, integration.Connection{
			ID: connectionID(1), IntegrationID: fixture.one.ID, MailboxID: fixture.boxes[0].ID, Status: integration.ConnectionPending, UpdatedAt: session.CreatedAt,
		})
		fixture.requireConnection(t, "that of the other mailbox", s, fixture.one, 1, integration.Connection{})
	})
}

func TestSessionMakesItsConnectionPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for n, status := range allConnectionStatuses {
			want := fixture.setConnection(t, s, fixture.one, 0, status)
			session := fixture.beginSession(t, s, fixture.one, 0, n+1)
			if status != integration.ConnectionConnected && status != integration.ConnectionDisconnecting {
				want.Status, want.HasError, want.Reason, want.UpdatedAt = integration.ConnectionPending, false, "", session.CreatedAt
			}
			fixture.requireConnection(t, string(status), s, fixture.one, 0, want)
			session.Status = integration.SessionFailed
			requireHeld(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, session, nil, nil))
		}
	})
}

func TestMailboxHasOnePendingSessionAtIntegration(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		minutes := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
		for n, tt := range []struct {
			name        string
			opened      bool
			begins      time.Time // of the new session
			stale       time.Time
			makesItOver bool
		}{
			{"a session that was opened", true, minutes(9), minutes(9), false},
			// The platform must be asked first.
			{"a session that was opened, past its end", true, minutes(30), minutes(30), false},
			{"a session that is being opened", false, minutes(1), now.Add(3 * time.Second), false},
			{"a session that was never opened", false, minutes(1), now.Add(4 * time.Second).Add(time.Microsecond), true},
			{"a session that was never opened, past its end", false, minutes(11), minutes(0), true},
		} {
			n++ // the previous session begins n seconds after now and expires ten minutes later
			was := fixture.beginSession(t, s, fixture.one, 0, n)
			was.Opened = tt.opened
			requireHeld(t, tt.name, true)(s.SaveSession(t.Context(), fixture.owner, was, nil, nil))
			fresh := newSession(fixture.one, fixture.boxes[0], 10+n)
			fresh.CreatedAt, fresh.ExpiresAt = tt.begins, tt.begins.Add(time.Hour)
			err := s.BeginSession(t.Context(), fixture.owner, fresh, connectionID(9), tt.stale)
			if !tt.makesItOver {
				requireRefusal(t, tt.name, err, fault.SessionActive)
				fixture.requireSession(t, tt.name, s, was)
				_, err = s.Session(t.Context(), fixture.owner, fixture.one.ID, fixture.boxes[0].ID, fresh.ID)
				requireRefusal(t, tt.name, err, fault.SessionNotFound)
				fresh = was
			} else {
				must(t, tt.name, err)
				was.Status = integration.SessionExpired
				fixture.requireSession(t, tt.name, s, was)
				fixture.requireSession(t, tt.name, s, fresh)
			}
			fresh.Status = integration.SessionFailed
			requireHeld(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, fresh, nil, nil))
		}
	})
}

func TestDisconnectionKeepsSessionAtDifferentIntegration(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.one, 0, 1)
		fixture.setConnection(t, s, fixture.two, 0, integration.ConnectionDisconnected)
		fixture.requireSession(t, "pending", s, session)
	})
}

func TestNoSessionBeginsForMailboxThatDifferentIntegrationHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.beginSession(t, s, fixture.one, 1, 90) // a session of a different mailbox does not block
		for n, status := range allConnectionStatuses {
			there := fixture.setConnection(t, s, fixture.two, 0, status)
			here := fixture.storedConnection(t, s, fixture.one, 0)
			session := newSession(fixture.one, fixture.boxes[0], n+1)
			err := s.BeginSession(t.Context(), fixture.owner, session, connectionID(n+1), now)
			fixture.requireConnection(t, string(status), s, fixture.two, 0, there)
			if !status.HoldsMailbox() {
				must(t, string(status), err)
				session.Status = integration.SessionFailed
				c := fixture.newConnection(fixture.one, 0, integration.ConnectionDisconnected)
				requireHeld(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, session, &c, nil))
				continue
			}
			requireRefusal(t, string(status), err, fault.ConnectedElsewhere)
			fixture.requireConnection(t, string(status), s, fixture.one, 0, here)
			_, err = s.Session(t.Context(), fixture.owner, fixture.one.ID, fixture.boxes[0].ID, session.ID)
			requireRefusal(t, string(status), err, fault.SessionNotFound)
		}
	})
}

func TestOneOfConcurrentSessionsAtTwoIntegrationsBegins(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		both := []integration.Integration{fixture.one, fixture.two}
		begun := make([]bool, concurrency)
		for n, err := range concurrently(concurrency, func(n int) error {
			return s.BeginSession(t.Context(), fixture.owner, newSession(both[n%2], fixture.boxes[0], n), connectionID(n), now)
		}) {
			begun[n] = err == nil
			if err != nil && !errors.Is(err, fault.ConnectedElsewhere) && !errors.Is(err, fault.SessionActive) {
				t.Fatalf("%d: %v", n, err)
			}
		}
		if n := countTrue(begun); n != 1 {
			t.Fatalf("%d began", n)
		}
		for n, i := range both {
			pending := fixture.storedConnection(t, s, i, 0).Status == integration.ConnectionPending
			if won := begun[n] || countTrue(everyNth(begun, 2, n)) == 1; pending != won {
				t.Fatalf("pending at %d: %v", n, pending)
			}
		}
		all, err := s.PendingSessions(t.Context(), now.Add(time.Hour), concurrency)
		must(t, "pending", err)
		if len(all) != 1 {
			t.Fatalf("%d are pending", len(all))
		}
	})
}

func TestOneOfConcurrentSessionsAfterExpiredOneBegins(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.beginSession(t, s, fixture.one, 0, 1)
		if n := countWinners(t, concurrently(concurrency, func(n int) error {
			session := newSession(fixture.one, fixture.boxes[0], n+1000)
			return s.BeginSession(t.Context(), fixture.owner, session, connectionID(n), now)
		}), fault.SessionActive); n != 1 {
			t.Fatalf("%d began", n)
		}
	})
}

func TestSessionIsFoundOnlyByItsIntegrationMailboxAndAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		session := fixture.beginSession(t, s, fixture.one, 0, 1)
		for name, of := range map[string]struct {
			owner integrationFixture
			i     integration.Integration
			box   int
			found bool
		}{
			"pending": {fixture, fixture.one, 0, true}, "at another integration": {fixture, fixture.two, 0, false},
			"of another mailbox": {fixture, fixture.one, 1, false}, "of another account": {bob, fixture.one, 0, false},
		} {
			got, found, err := s.PendingSession(t.Context(), of.owner.owner, of.i.ID, fixture.boxes[of.box].ID)
			must(t, name, err)
			if found != of.found || found && got != session {
				t.Fatalf("%s: %v, %+v", name, found, got)
			}
		}
		find := func(owner integrationFixture, i integration.Integration, m mailbox.Mailbox, id string) error {
			_, err := s.Session(t.Context(), owner.owner, i.ID, m.ID, id)
			return err
		}
		must(t, "find", find(fixture, fixture.one, fixture.boxes[0], session.ID))
		unknown := find(fixture, fixture.one, fixture.boxes[0], sessionID(9))
		requireRefusal(t, "unknown", unknown, fault.SessionNotFound)
		requireSameError(t, "of another integration", find(fixture, fixture.two, fixture.boxes[0], session.ID), unknown)
		requireSameError(t, "of another mailbox", find(fixture, fixture.one, fixture.boxes[1], session.ID), unknown)
		requireSameError(t, "of another account", find(bob, fixture.one, fixture.boxes[0], session.ID), unknown)
		requireSameError(t, "nonsense", find(fixture, fixture.one, fixture.boxes[0], "x"), unknown)
		requireHeld(t, "save of another account", false)(s.SaveSession(t.Context(), bob.owner, completedSession(session), nil, nil))
		elsewhere := completedSession(session)
		elsewhere.MailboxID = fixture.boxes[1].ID
		requireHeld(t, "save of another mailbox", false)(s.SaveSession(t.Context(), fixture.owner, elsewhere, nil, nil))
		elsewhere = completedSession(session)
		elsewhere.IntegrationID = fixture.two.ID
		requireHeld(t, "save of another integration", false)(s.SaveSession(t.Context(), fixture.owner, elsewhere, nil, nil))
		fixture.requireSession(t, "untouched", s, session)
	})
}

// everyNth returns every nth element, starting at index from.
func everyNth[T any](all []T, n, from int) (some []T) {
	for i := from; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}

// The following tests cover how sessions change and end.

func TestRefusedSessionDoesNotChangeConnection(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		fixture.beginSession(t, s, fixture.one, 0, 1)
		failed := fixture.setConnection(t, s, fixture.one, 0, integration.ConnectionFailed)
		err := s.BeginSession(t.Context(), fixture.owner, newSession(fixture.one, fixture.boxes[0], 2), connectionID(9), now)
		requireRefusal(t, "begin", err, fault.SessionActive)
		fixture.requireConnection(t, "after the refusal", s, fixture.one, 0, failed)
	})
}

func TestSessionChangesOnlyWhileItIsPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.one, 0, 1)
		opened := completedSession(session)
		opened.Status = integration.SessionPending
		requireHeld(t, "open", true)(s.SaveSession(t.Context(), fixture.owner, opened, nil, nil))
		fixture.requireSession(t, "opened", s, opened)
		done := completedSession(session)
		c := fixture.newConnection(fixture.one, 0, integration.ConnectionConnected)
		requireHeld(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, done, &c, nil))
		c.ID = connectionID(1)
		for _, status := range []integration.SessionStatus{integration.SessionPending, integration.SessionFailed} {
			late, gone := opened, fixture.newConnection(fixture.one, 0, integration.ConnectionFailed)
			late.Status = status
			requireHeld(t, "save after the end", false)(s.SaveSession(t.Context(), fixture.owner, late, &gone, nil))
			fixture.requireSession(t, "ended", s, done)
			fixture.requireConnection(t, "its connection", s, fixture.one, 0, c)
		}
		next := newSession(fixture.one, fixture.boxes[0], 2)
		next.CreatedAt, next.ExpiresAt = done.ExpiresAt.Add(time.Hour), done.ExpiresAt.Add(2*time.Hour)
		must(t, "begin the next", s.BeginSession(t.Context(), fixture.owner, next, connectionID(2), next.CreatedAt))
		if pending, found, err := s.PendingSession(t.Context(), fixture.owner, fixture.one.ID, fixture.boxes[0].ID); err != nil || !found || pending.ID != next.ID {
			t.Fatalf("pending: %v, %+v, %v", found, pending, err)
		}
		requireHeld(t, "save the ended session after the next one began", false)(s.SaveSession(t.Context(), fixture.owner, opened, nil, nil))
		fixture.requireSession(t, "ended", s, done)
		fixture.requireSession(t, "next", s, next)
	})
}

// TestSuccessReplacesExpiryUnlessMailboxWasDisconnected checks two concurrent requests: one stores
// that the session has expired, and then the other stores the success that it found before.
func TestSuccessReplacesExpiryUnlessMailboxWasDisconnected(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		for n, status := range allConnectionStatuses {
			session := fixture.beginSession(t, s, fixture.one, 0, n+1)
			done, over, failed := completedSession(session), completedSession(session), completedSession(session)
			over.Status, failed.Status = integration.SessionExpired, integration.SessionFailed
			requireHeld(t, "expire", true)(s.SaveSession(t.Context(), fixture.owner, over, nil, nil))
			fixture.setConnection(t, s, fixture.one, 0, status)
			requireHeld(t, "fail after the expiry", false)(s.SaveSession(t.Context(), fixture.owner, failed, nil, nil))
			replaces := status != integration.ConnectionDisconnecting && status != integration.ConnectionDisconnected
			requireHeld(t, "succeed after the expiry, "+string(status), replaces)(s.SaveSession(t.Context(), fixture.owner, done, nil, nil))
			if !replaces {
				done = over
			}
			fixture.requireSession(t, string(status), s, done)
		}
	})
}

func TestSessionCannotConnectMailboxThatDifferentIntegrationHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.one, 0, 1)
		here := fixture.newConnection(fixture.one, 0, integration.ConnectionDisconnected)
		here.ID = connectionID(1)
		// The account was removed, so the mailbox is free.
		fixture.saveRefresh(t, s, fixture.one, now.Add(time.Hour), here)
		there := fixture.setConnection(t, s, fixture.two, 0, integration.ConnectionConnected)
		c := fixture.newConnection(fixture.one, 0, integration.ConnectionConnected)
		_, err := s.SaveSession(t.Context(), fixture.owner, completedSession(session), &c, nil)
		requireRefusal(t, "connect", err, fault.ConnectedElsewhere)
		fixture.requireSession(t, "the session", s, session)
		fixture.requireConnection(t, "here", s, fixture.one, 0, here)
		fixture.requireConnection(t, "there", s, fixture.two, 0, there)
		failed := fixture.newConnection(fixture.one, 0, integration.ConnectionFailed)
		requireHeld(t, "fail", true)(s.SaveSession(t.Context(), fixture.owner, completedSession(session), &failed, nil))
		fixture.requireConnection(t, "there", s, fixture.two, 0, there)
	})
}

func TestOneOfConcurrentEndsOfSessionIsStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session := fixture.beginSession(t, s, fixture.one, 0, 1)
		won := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			won[n], err = s.SaveSession(t.Context(), fixture.owner, completedSession(session), nil, nil)
			return err
		}) {
			must(t, "end", err)
		}
		if n := countTrue(won); n != 1 {
			t.Fatalf("%d ended it", n)
		}
	})
}

func TestOneOfConcurrentPollsOfSessionIsAllowed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		session := fixture.beginSession(t, s, fixture.one, 0, 1)
		seconds := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
		poll := func(since, at int) (bool, error) {
			return s.ClaimSessionCheck(t.Context(), fixture.owner, session.ID, seconds(since), seconds(at))
		}
		allowed := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			allowed[n], err = poll(7, 10)
			return err
		}) {
			must(t, "poll", err)
		}
		if n := countTrue(allowed); n != 1 {
			t.Fatalf("%d polls are allowed", n)
		}
		session.CheckedAt = seconds(10)
		fixture.requireSession(t, "polled", s, session)
		requireHeld(t, "poll too early", false)(poll(9, 12))
		fixture.requireSession(t, "polled", s, session)
		requireHeld(t, "poll later", true)(poll(10, 13))
		requireHeld(t, "poll by a different account", false)(s.ClaimSessionCheck(t.Context(), bob.owner, session.ID, seconds(20), seconds(23)))
		requireHeld(t, "poll of an unknown session", false)(s.ClaimSessionCheck(t.Context(), fixture.owner, "x", seconds(20), seconds(23)))
		requireHeld(t, "end", true)(s.SaveSession(t.Context(), fixture.owner, completedSession(session), nil, nil))
		requireHeld(t, "poll after the end", false)(poll(10000, 10003))
		fixture.requireSession(t, "ended", s, completedSession(session))
	})
}

func TestExpiredSessionsOfAllAccountsAreListedOldestFirst(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		third, first := ann.beginSession(t, s, ann.one, 0, 3), ann.beginSession(t, s, ann.two, 1, 1)
		second, ended := bob.beginSession(t, s, bob.one, 0, 2), bob.beginSession(t, s, bob.one, 1, 4)
		first.Opened = true
		requireHeld(t, "open", true)(s.SaveSession(t.Context(), ann.owner, first, nil, nil))
		requireHeld(t, "end", true)(s.SaveSession(t.Context(), bob.owner, completedSession(ended), nil, nil))
		for _, tt := range []struct {
			before time.Time
			most   int
			want   []integration.Session
		}{
			{now.Add(time.Hour), 9, []integration.Session{first, second, third}},
			{now.Add(time.Hour), 2, []integration.Session{first, second}},
			{second.ExpiresAt, 9, []integration.Session{first}},
			{second.ExpiresAt.Add(time.Microsecond), 9, []integration.Session{first, second}},
			{now, 9, nil},
		} {
			got, err := s.PendingSessions(t.Context(), tt.before, tt.most)
			must(t, "list", err)
			var sessions []integration.Session
			for _, session := range got {
				if owner := map[bool]integrationFixture{true: bob, false: ann}[session.Session.ID == second.ID].owner; session.Account != owner {
					t.Fatalf("%s belongs to %q", session.Session.ID, session.Account)
				}
				sessions = append(sessions, session.Session)
			}
			if diff := cmp.Diff(tt.want, sessions); diff != "" {
				t.Fatalf("before %s, at most %d (-want +got):\n%s", tt.before, tt.most, diff)
			}
		}
	})
}

func TestSessionAndItsAnswerAreCommittedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newIntegrationFixture(t, s, "ann", 1)
		session, y := fixture.beginSession(t, s, fixture.one, 0, 1), fixture.beginSession(t, s, fixture.one, 1, 2)
		c := fixture.newConnection(fixture.one, 1, integration.ConnectionConnected)
		pending := fixture.storedConnection(t, s, fixture.one, 1)
		requireCommitted(t, s, fixture.owner, map[string]func(completion *ports.Completion) error{
			"alone": func(completion *ports.Completion) error {
				_, err := s.SaveSession(t.Context(), fixture.owner, completedSession(session), nil, completion)
				return err
			},
			"with its connection": func(completion *ports.Completion) error {
				_, err := s.SaveSession(t.Context(), fixture.owner, completedSession(y), &c, completion)
				return err
			},
		}, func() {
			fixture.requireSession(t, "alone", s, session)
			fixture.requireSession(t, "with its connection", s, y)
			fixture.requireConnection(t, "its connection", s, fixture.one, 1, pending)
		})
		late := newClaim(fixture.owner, 99)
		requireHeld(t, "save after the end", false)(s.SaveSession(t.Context(), fixture.owner, session, nil, newCompletion(late, mustClaim(t, s, late))))
		if r := requireRecord(t, s, late.Key); r.Answer != nil {
			t.Fatalf("an answer is stored for nothing: %+v", r)
		}
	})
}

// TestConcurrentProcessesBeginOneSession begins 50 sessions of a mailbox concurrently, at two
// integrations and in two processes. Exactly one must succeed.
func TestConcurrentProcessesBeginOneSession(t *testing.T) {
	databasetest.EachShared(t, func(t *testing.T, url func(testing.TB) string) {
		address := url(t)
		one, two := migrated(t, address), opened(t, address)
		fixture := newIntegrationFixture(t, one, "ann", 1)
		errs := concurrently(concurrency, func(n int) error {
			session := newSession([]integration.Integration{fixture.one, fixture.two}[n/2%2], fixture.boxes[0], n)
			err := []*Store{one, two}[n%2].BeginSession(t.Context(), fixture.owner, session, newID(), now)
			if errors.Is(err, fault.ConnectedElsewhere) {
				return fault.SessionActive
			}
			return err
		})
		pending, err := two.PendingSessions(t.Context(), now.Add(time.Hour), concurrency)
		must(t, "list sessions", err)
		if won := countWinners(t, errs, fault.SessionActive); won != 1 || len(pending) != 1 {
			t.Fatalf("%d began, %d are pending", won, len(pending))
		}
		e, err := one.EligibleMailbox(t.Context(), fixture.owner, pending[0].Session.IntegrationID, fixture.boxes[0].ID)
		must(t, "find eligible mailbox", err)
		if e.Connection.Status != integration.ConnectionPending || e.HeldElsewhere {
			t.Errorf("the mailbox stands as %+v", e)
		}
	})
}
