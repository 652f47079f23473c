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
func (h integrationFixture) beginSession(t testing.TB, s *Store, i integration.Integration, box, n int) integration.Session {
	t.Helper()
	x := newSession(i, h.boxes[box], n)
	must(t, "begin session", s.BeginSession(t.Context(), h.owner, x, connectionID(n), now))
	return x
}

// requireSession checks a stored session.
func (h integrationFixture) requireSession(t testing.TB, what string, s *Store, want integration.Session) {
	t.Helper()
	got, err := s.Session(t.Context(), h.owner, want.IntegrationID, want.MailboxID, want.ID)
	must(t, what, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// completedSession returns the session with a different value in every field that can change.
func completedSession(x integration.Session) integration.Session {
	x.Status, x.Opened, x.PlatformID, x.PreviousMark = integration.SessionConnected, true, "platform-"+hostileText, "stamp"
	x.AccountID, x.AccountAddress, x.AccountName, x.Reason = "account", "a@b.test", hostileText, "reason"
	x.ExpiresAt, x.ConnectedAt, x.CheckedAt = now.Add(time.Hour), now.Add(time.Minute), now.Add(2*time.Minute)
	return x
}

// The following tests cover how sessions begin and are found.

func TestSessionIsStoredAndItsConnectionIsPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		x := h.beginSession(t, s, h.one, 0, 1)
		h.requireSession(t, "begun", s, x)
		h.requireConnection(t, "the connection", s, h.one, 0, integration.Connection{
			ID: connectionID(1), IntegrationID: h.one.ID, MailboxID: h.boxes[0].ID, Status: integration.ConnectionPending, UpdatedAt: x.CreatedAt,
		})
		h.requireConnection(t, "that of the other mailbox", s, h.one, 1, integration.Connection{})
	})
}

func TestSessionMakesItsConnectionPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		for n, status := range allConnectionStatuses {
			want := h.setConnection(t, s, h.one, 0, status)
			x := h.beginSession(t, s, h.one, 0, n+1)
			if status != integration.ConnectionConnected && status != integration.ConnectionDisconnecting {
				want.Status, want.HasError, want.Reason, want.UpdatedAt = integration.ConnectionPending, false, "", x.CreatedAt
			}
			h.requireConnection(t, string(status), s, h.one, 0, want)
			x.Status = integration.SessionFailed
			requireHeld(t, "end", true)(s.SaveSession(t.Context(), h.owner, x, nil, nil))
		}
	})
}

func TestMailboxHasOnePendingSessionAtIntegration(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		minutes := func(n int) time.Time { return now.Add(time.Duration(n) * time.Minute) }
		for n, tt := range []struct {
			name        string
			opened      bool
			begins      time.Time // of the new session
			stale       time.Time
			makesItOver bool
		}{
			{"one that was opened", true, minutes(9), minutes(9), false},
			{"one that was opened, past its end", true, minutes(30), minutes(30), false}, // the platform must be asked first
			{"one that is being opened", false, minutes(1), now.Add(3 * time.Second), false},
			{"one that was never opened", false, minutes(1), now.Add(4 * time.Second).Add(time.Microsecond), true},
			{"one that was never opened, past its end", false, minutes(11), minutes(0), true},
		} {
			n++ // the previous session begins n seconds after now and expires ten minutes later
			was := h.beginSession(t, s, h.one, 0, n)
			was.Opened = tt.opened
			requireHeld(t, tt.name, true)(s.SaveSession(t.Context(), h.owner, was, nil, nil))
			fresh := newSession(h.one, h.boxes[0], 10+n)
			fresh.CreatedAt, fresh.ExpiresAt = tt.begins, tt.begins.Add(time.Hour)
			err := s.BeginSession(t.Context(), h.owner, fresh, connectionID(9), tt.stale)
			if !tt.makesItOver {
				requireRefusal(t, tt.name, err, fault.SessionActive)
				h.requireSession(t, tt.name, s, was)
				_, err = s.Session(t.Context(), h.owner, h.one.ID, h.boxes[0].ID, fresh.ID)
				requireRefusal(t, tt.name, err, fault.SessionNotFound)
				fresh = was
			} else {
				must(t, tt.name, err)
				was.Status = integration.SessionExpired
				h.requireSession(t, tt.name, s, was)
				h.requireSession(t, tt.name, s, fresh)
			}
			fresh.Status = integration.SessionFailed
			requireHeld(t, "end", true)(s.SaveSession(t.Context(), h.owner, fresh, nil, nil))
		}
	})
}

func TestDisconnectionKeepsSessionAtDifferentIntegration(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		x := h.beginSession(t, s, h.one, 0, 1)
		h.setConnection(t, s, h.two, 0, integration.ConnectionDisconnected)
		h.requireSession(t, "pending", s, x)
	})
}

func TestNoSessionBeginsForMailboxThatDifferentIntegrationHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		h.beginSession(t, s, h.one, 1, 90) // a session of a different mailbox does not block
		for n, status := range allConnectionStatuses {
			there := h.setConnection(t, s, h.two, 0, status)
			here := h.storedConnection(t, s, h.one, 0)
			x := newSession(h.one, h.boxes[0], n+1)
			err := s.BeginSession(t.Context(), h.owner, x, connectionID(n+1), now)
			h.requireConnection(t, string(status), s, h.two, 0, there)
			if !status.Held() {
				must(t, string(status), err)
				x.Status = integration.SessionFailed
				c := h.newConnection(h.one, 0, integration.ConnectionDisconnected)
				requireHeld(t, "end", true)(s.SaveSession(t.Context(), h.owner, x, &c, nil))
				continue
			}
			requireRefusal(t, string(status), err, fault.ConnectedElsewhere)
			h.requireConnection(t, string(status), s, h.one, 0, here)
			_, err = s.Session(t.Context(), h.owner, h.one.ID, h.boxes[0].ID, x.ID)
			requireRefusal(t, string(status), err, fault.SessionNotFound)
		}
	})
}

func TestOneOfConcurrentSessionsAtTwoIntegrationsBegins(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		both := []integration.Integration{h.one, h.two}
		begun := make([]bool, concurrency)
		for n, err := range concurrently(concurrency, func(n int) error {
			return s.BeginSession(t.Context(), h.owner, newSession(both[n%2], h.boxes[0], n), connectionID(n), now)
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
			pending := h.storedConnection(t, s, i, 0).Status == integration.ConnectionPending
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
		h := newIntegrationFixture(t, s, "ann", 1)
		h.beginSession(t, s, h.one, 0, 1)
		if n := countWinners(t, concurrently(concurrency, func(n int) error {
			x := newSession(h.one, h.boxes[0], n+1000)
			return s.BeginSession(t.Context(), h.owner, x, connectionID(n), now)
		}), fault.SessionActive); n != 1 {
			t.Fatalf("%d began", n)
		}
	})
}

func TestSessionIsFoundOnlyByItsIntegrationMailboxAndAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		x := h.beginSession(t, s, h.one, 0, 1)
		for name, of := range map[string]struct {
			owner integrationFixture
			i     integration.Integration
			box   int
			found bool
		}{
			"pending": {h, h.one, 0, true}, "at another integration": {h, h.two, 0, false},
			"of another mailbox": {h, h.one, 1, false}, "of another account": {bob, h.one, 0, false},
		} {
			got, found, err := s.PendingSession(t.Context(), of.owner.owner, of.i.ID, h.boxes[of.box].ID)
			must(t, name, err)
			if found != of.found || found && got != x {
				t.Fatalf("%s: %v, %+v", name, found, got)
			}
		}
		find := func(owner integrationFixture, i integration.Integration, m mailbox.Mailbox, id string) error {
			_, err := s.Session(t.Context(), owner.owner, i.ID, m.ID, id)
			return err
		}
		must(t, "find", find(h, h.one, h.boxes[0], x.ID))
		unknown := find(h, h.one, h.boxes[0], sessionID(9))
		requireRefusal(t, "unknown", unknown, fault.SessionNotFound)
		requireSameError(t, "of another integration", find(h, h.two, h.boxes[0], x.ID), unknown)
		requireSameError(t, "of another mailbox", find(h, h.one, h.boxes[1], x.ID), unknown)
		requireSameError(t, "of another account", find(bob, h.one, h.boxes[0], x.ID), unknown)
		requireSameError(t, "nonsense", find(h, h.one, h.boxes[0], "x"), unknown)
		requireHeld(t, "save of another account", false)(s.SaveSession(t.Context(), bob.owner, completedSession(x), nil, nil))
		elsewhere := completedSession(x)
		elsewhere.MailboxID = h.boxes[1].ID
		requireHeld(t, "save of another mailbox", false)(s.SaveSession(t.Context(), h.owner, elsewhere, nil, nil))
		elsewhere = completedSession(x)
		elsewhere.IntegrationID = h.two.ID
		requireHeld(t, "save of another integration", false)(s.SaveSession(t.Context(), h.owner, elsewhere, nil, nil))
		h.requireSession(t, "untouched", s, x)
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
		h := newIntegrationFixture(t, s, "ann", 1)
		h.beginSession(t, s, h.one, 0, 1)
		failed := h.setConnection(t, s, h.one, 0, integration.ConnectionFailed)
		err := s.BeginSession(t.Context(), h.owner, newSession(h.one, h.boxes[0], 2), connectionID(9), now)
		requireRefusal(t, "begin", err, fault.SessionActive)
		h.requireConnection(t, "after the refusal", s, h.one, 0, failed)
	})
}

func TestSessionChangesOnlyWhileItIsPending(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		x := h.beginSession(t, s, h.one, 0, 1)
		opened := completedSession(x)
		opened.Status = integration.SessionPending
		requireHeld(t, "open", true)(s.SaveSession(t.Context(), h.owner, opened, nil, nil))
		h.requireSession(t, "opened", s, opened)
		done := completedSession(x)
		c := h.newConnection(h.one, 0, integration.ConnectionConnected)
		requireHeld(t, "end", true)(s.SaveSession(t.Context(), h.owner, done, &c, nil))
		c.ID = connectionID(1)
		for _, status := range []integration.SessionStatus{integration.SessionPending, integration.SessionFailed} {
			late, gone := opened, h.newConnection(h.one, 0, integration.ConnectionFailed)
			late.Status = status
			requireHeld(t, "save after the end", false)(s.SaveSession(t.Context(), h.owner, late, &gone, nil))
			h.requireSession(t, "ended", s, done)
			h.requireConnection(t, "its connection", s, h.one, 0, c)
		}
		next := newSession(h.one, h.boxes[0], 2)
		next.CreatedAt, next.ExpiresAt = done.ExpiresAt.Add(time.Hour), done.ExpiresAt.Add(2*time.Hour)
		must(t, "begin the next", s.BeginSession(t.Context(), h.owner, next, connectionID(2), next.CreatedAt))
		if pending, found, err := s.PendingSession(t.Context(), h.owner, h.one.ID, h.boxes[0].ID); err != nil || !found || pending.ID != next.ID {
			t.Fatalf("pending: %v, %+v, %v", found, pending, err)
		}
		requireHeld(t, "save the ended one beside the next", false)(s.SaveSession(t.Context(), h.owner, opened, nil, nil))
		h.requireSession(t, "ended", s, done)
		h.requireSession(t, "next", s, next)
	})
}

// TestSuccessReplacesExpiryUnlessMailboxWasDisconnected checks two concurrent requests: one stores
// that the session has expired, and then the other stores the success that it found before.
func TestSuccessReplacesExpiryUnlessMailboxWasDisconnected(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		for n, status := range allConnectionStatuses {
			x := h.beginSession(t, s, h.one, 0, n+1)
			done, over, failed := completedSession(x), completedSession(x), completedSession(x)
			over.Status, failed.Status = integration.SessionExpired, integration.SessionFailed
			requireHeld(t, "expire", true)(s.SaveSession(t.Context(), h.owner, over, nil, nil))
			h.setConnection(t, s, h.one, 0, status)
			requireHeld(t, "fail after the expiry", false)(s.SaveSession(t.Context(), h.owner, failed, nil, nil))
			replaces := status != integration.ConnectionDisconnecting && status != integration.ConnectionDisconnected
			requireHeld(t, "succeed after the expiry, "+string(status), replaces)(s.SaveSession(t.Context(), h.owner, done, nil, nil))
			if !replaces {
				done = over
			}
			h.requireSession(t, string(status), s, done)
		}
	})
}

func TestSessionCannotConnectMailboxThatDifferentIntegrationHolds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		x := h.beginSession(t, s, h.one, 0, 1)
		here := h.newConnection(h.one, 0, integration.ConnectionDisconnected)
		here.ID = connectionID(1)
		h.saveRefresh(t, s, h.one, now.Add(time.Hour), here) // the account was removed, so the mailbox is free
		there := h.setConnection(t, s, h.two, 0, integration.ConnectionConnected)
		c := h.newConnection(h.one, 0, integration.ConnectionConnected)
		_, err := s.SaveSession(t.Context(), h.owner, completedSession(x), &c, nil)
		requireRefusal(t, "connect", err, fault.ConnectedElsewhere)
		h.requireSession(t, "the session", s, x)
		h.requireConnection(t, "here", s, h.one, 0, here)
		h.requireConnection(t, "there", s, h.two, 0, there)
		failed := h.newConnection(h.one, 0, integration.ConnectionFailed)
		requireHeld(t, "fail", true)(s.SaveSession(t.Context(), h.owner, completedSession(x), &failed, nil))
		h.requireConnection(t, "there", s, h.two, 0, there)
	})
}

func TestOneOfConcurrentEndsOfSessionIsStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		x := h.beginSession(t, s, h.one, 0, 1)
		won := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			won[n], err = s.SaveSession(t.Context(), h.owner, completedSession(x), nil, nil)
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
		h, bob := newIntegrationFixture(t, s, "ann", 1), newIntegrationFixture(t, s, "bob", 2)
		x := h.beginSession(t, s, h.one, 0, 1)
		seconds := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
		look := func(since, at int) (bool, error) {
			return s.ClaimSessionCheck(t.Context(), h.owner, x.ID, seconds(since), seconds(at))
		}
		taken := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(n int) (err error) {
			taken[n], err = look(7, 10)
			return err
		}) {
			must(t, "look", err)
		}
		if n := countTrue(taken); n != 1 {
			t.Fatalf("%d looked", n)
		}
		x.CheckedAt = seconds(10)
		h.requireSession(t, "looked at", s, x)
		requireHeld(t, "look too early", false)(look(9, 12))
		h.requireSession(t, "looked at", s, x)
		requireHeld(t, "look later", true)(look(10, 13))
		requireHeld(t, "look of another", false)(s.ClaimSessionCheck(t.Context(), bob.owner, x.ID, seconds(20), seconds(23)))
		requireHeld(t, "look at nothing", false)(s.ClaimSessionCheck(t.Context(), h.owner, "x", seconds(20), seconds(23)))
		requireHeld(t, "end", true)(s.SaveSession(t.Context(), h.owner, completedSession(x), nil, nil))
		requireHeld(t, "look after the end", false)(look(10000, 10003))
		h.requireSession(t, "ended", s, completedSession(x))
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
			for _, x := range got {
				if owner := map[bool]integrationFixture{true: bob, false: ann}[x.Session.ID == second.ID].owner; x.Account != owner {
					t.Fatalf("%s belongs to %q", x.Session.ID, x.Account)
				}
				sessions = append(sessions, x.Session)
			}
			if diff := cmp.Diff(tt.want, sessions); diff != "" {
				t.Fatalf("before %s, at most %d (-want +got):\n%s", tt.before, tt.most, diff)
			}
		}
	})
}

func TestSessionAndItsAnswerAreCommittedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		h := newIntegrationFixture(t, s, "ann", 1)
		x, y := h.beginSession(t, s, h.one, 0, 1), h.beginSession(t, s, h.one, 1, 2)
		c := h.newConnection(h.one, 1, integration.ConnectionConnected)
		pending := h.storedConnection(t, s, h.one, 1)
		requireCommitted(t, s, h.owner, map[string]func(completion *ports.Completion) error{
			"alone": func(completion *ports.Completion) error {
				_, err := s.SaveSession(t.Context(), h.owner, completedSession(x), nil, completion)
				return err
			},
			"with its connection": func(completion *ports.Completion) error {
				_, err := s.SaveSession(t.Context(), h.owner, completedSession(y), &c, completion)
				return err
			},
		}, func() {
			h.requireSession(t, "alone", s, x)
			h.requireSession(t, "with its connection", s, y)
			h.requireConnection(t, "its connection", s, h.one, 1, pending)
		})
		late := newClaim(h.owner, 99)
		requireHeld(t, "save after the end", false)(s.SaveSession(t.Context(), h.owner, x, nil, newCompletion(late, mustClaim(t, s, late))))
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
		h := newIntegrationFixture(t, one, "ann", 1)
		errs := concurrently(concurrency, func(n int) error {
			x := newSession([]integration.Integration{h.one, h.two}[n/2%2], h.boxes[0], n)
			err := []*Store{one, two}[n%2].BeginSession(t.Context(), h.owner, x, newID(), now)
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
		e, err := one.EligibleMailbox(t.Context(), h.owner, pending[0].Session.IntegrationID, h.boxes[0].ID)
		must(t, "find eligible mailbox", err)
		if e.Connection.Status != integration.ConnectionPending || e.Elsewhere {
			t.Errorf("the mailbox stands as %+v", e)
		}
	})
}
