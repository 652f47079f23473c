// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// newMailDomain creates an account with one tenant and one domain, contoso.test.
func newMailDomain(t testing.TB, s *Store) (access.AccountID, domain.Domain) {
	t.Helper()
	ann := newAccount(t, s, "ann")
	return ann, addDomain(t, s, ann, attachTenant(t, s, ann, 1).GUID, "contoso.test")
}

func TestSaveMailboxKeepsLimitCountAndBlock(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		want := addMailbox(t, s, ann, d, "sales", mailbox.Creating)
		must(t, "limit", s.SetSendLimit(t.Context(), ann, want.ID, 7, now))
		want.Stage, want.Provisioned, want.AccountEnabled = mailbox.Ready, true, true
		want.ObjectID, want.DisplayName, want.PrincipalName, want.Alias = "object", hostileText, "sales@contoso.test", "sales.contoso"
		want.DailySendLimit, want.SendsToday, want.BlockedAt = 25, 99, now
		must(t, "save", s.SaveMailbox(t.Context(), ann, want))
		// SaveMailbox does not store these three fields.
		want.DailySendLimit, want.SendsToday, want.BlockedAt = 7, 0, time.Time{}
		want.TenantName, want.DomainName, want.DomainID = "Contoso", "contoso.test", d.ID
		got, err := s.Mailbox(t.Context(), ann, guid(1), want.ID)
		must(t, "mailbox", err)
		if got != want {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestMailboxesAreListedByAddressOnceTheyExist(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		noneYet, err := s.Mailboxes(t.Context(), ann, guid(1))
		must(t, "list", err)
		hidden := addMailbox(t, s, ann, d, "a", mailbox.Creating)
		addMailbox(t, s, ann, d, "c", mailbox.Created)
		addMailbox(t, s, ann, d, "b", mailbox.Ready)
		list, err := s.Mailboxes(t.Context(), ann, guid(1))
		must(t, "list", err)
		if len(noneYet) != 0 || len(list) != 2 || list[0].Address != "b@contoso.test" || list[1].Address != "c@contoso.test" {
			t.Fatalf("the mailboxes are %+v, want b and c; before any was stored they were %+v, want none", list, noneYet)
		}
		_, err = s.Mailbox(t.Context(), ann, guid(1), hidden.ID)
		requireRefusal(t, "a mailbox that is being created", err, fault.MailboxNotFound)
	})
}

func TestForeignMailboxGetsTheSameAnswerAsUnknownOne(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		m := addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		bob := newAccount(t, s, "bob")
		attachTenant(t, s, bob, 2)
		unknown := m
		unknown.ID, unknown.TenantGUID, unknown.DomainID = string(unknownGUID), unknownGUID, string(unknownGUID)
		for name, tc := range map[string]struct {
			code fault.Code
			call func(owner access.AccountID, target mailbox.Mailbox) error
		}{
			"list": {fault.TenantNotFound, func(owner access.AccountID, target mailbox.Mailbox) error {
				_, err := s.Mailboxes(t.Context(), owner, target.TenantGUID)
				return err
			}},
			"mailbox": {fault.TenantNotFound, func(owner access.AccountID, target mailbox.Mailbox) error {
				_, err := s.Mailbox(t.Context(), owner, target.TenantGUID, target.ID)
				return err
			}},
			"reserve": {fault.DomainNotFound, func(owner access.AccountID, target mailbox.Mailbox) error {
				_, err := s.ReserveMailboxes(t.Context(), owner, target.DomainID, mailboxSpecs(d, "new"), 3, now)
				return err
			}},
			"save": {fault.MailboxNotFound, func(owner access.AccountID, target mailbox.Mailbox) error {
				return s.SaveMailbox(t.Context(), owner, target)
			}},
			"limit": {fault.MailboxNotFound, func(owner access.AccountID, target mailbox.Mailbox) error {
				return s.SetSendLimit(t.Context(), owner, target.ID, 5, now)
			}},
		} {
			foreign := tc.call(bob, m)
			requireRefusal(t, name, foreign, tc.code)
			requireSameError(t, name, foreign, tc.call(ann, unknown))
		}
		_, err := s.Mailbox(t.Context(), bob, guid(2), m.ID)
		requireRefusal(t, "mailbox at a different tenant", err, fault.MailboxNotFound)
		_, err = s.Mailbox(t.Context(), ann, guid(1), "nonsense")
		requireRefusal(t, "mailbox with a malformed id", err, fault.MailboxNotFound)
	})
}

func TestMailboxBelongsToOneTenantOfAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		m := addMailbox(t, s, ann, d, "sales", mailbox.Ready)
		attachTenant(t, s, ann, 2)
		_, err := s.Mailbox(t.Context(), ann, guid(2), m.ID)
		requireRefusal(t, "mailbox at a different tenant", err, fault.MailboxNotFound)
	})
}

func TestReservedMailboxesAreReturnedInOrderOfRequest(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		existing := addMailbox(t, s, ann, d, "m", mailbox.Ready)
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "z", "m", "a"), 3, now)
		must(t, "reserve", err)
		for i, want := range []string{"z@contoso.test", "m@contoso.test", "a@contoso.test"} {
			m := got[i]
			isExisting := want == existing.Address
			if m.Address != want || m.JustReserved == isExisting || (m.ID == existing.ID) != isExisting || m.DomainID != d.ID ||
				m.TenantGUID != guid(1) || m.TenantName != "Contoso" || m.DomainName != d.Name || m.ID == "" {
				t.Fatalf("reservation %d is %+v, want the mailbox %s of %s, which is new: %v", i, m, want, d.Name, !isExisting)
			}
		}
		if got[0].Stage != mailbox.Reserved || got[0].Provisioned || got[0].DisplayName != "Name of z" {
			t.Fatalf("a new reservation is %+v, want it reserved, with its name and not provisioned", got[0])
		}
	})
}

func TestAtLimitExistingMailboxesAreReturned(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		unfinished, err := s.ReserveDomain(t.Context(), ann, guid(1), "unfinished.test", 12, now)
		must(t, "reserve domain", err)
		_, err = s.ReserveMailboxes(t.Context(), ann, unfinished.ID, mailboxSpecs(unfinished, "a"), 3, now)
		requireRefusal(t, "mailbox of an unfinished domain", err, fault.DomainNotFound)
		for range 2 {
			_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b", "c"), 3, now)
			must(t, "reserve", err)
		}
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "d"), 3, now)
		requireRefusal(t, "reserve a fourth mailbox", err, fault.MailboxLimitReached)
	})
}

func TestRequestThatExceedsLimitStoresNoMailbox(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		addMailbox(t, s, ann, d, "a", mailbox.Ready)
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "b", "c", "d"), 3, now)
		requireRefusal(t, "reserve", err, fault.MailboxLimitReached)
		got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "b", "e"), 3, now)
		must(t, "reserve two mailboxes, which fit", err)
		if !got[0].JustReserved || !got[1].JustReserved {
			t.Fatalf("got %+v, want two new mailboxes, because the refused request stored none", got)
		}
	})
}

func TestDiscoveredMailboxesCountTowardsLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		saveDiscovery(t, s, ann, nil, platformMailboxes("x@contoso.test", "y@contoso.test", "other@elsewhere.test"))
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a", "b"), 3, now)
		requireRefusal(t, "reserve two more mailboxes", err, fault.MailboxLimitReached)
		_, err = s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a"), 3, now)
		must(t, "reserve one more mailbox", err)
	})
}

func TestReservationCanBeReleasedUntilMailboxExists(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		bob := newAccount(t, s, "bob")
		unreleased := addMailbox(t, s, ann, d, "stays", mailbox.Reserved)
		for _, tc := range []struct {
			stage      mailbox.Stage
			isReleased bool
		}{{mailbox.Reserved, true}, {mailbox.Creating, true}, {mailbox.Created, false}, {mailbox.Ready, false}} {
			m := addMailbox(t, s, ann, d, string(tc.stage), tc.stage)
			reserve := func() (reservedAt time.Time) {
				reserved, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, string(tc.stage)), mailbox.MaxPerDomain, now)
				must(t, "reserve again", err)
				return reserved[0].ReservedAt
			}
			firstReservedAt, lastReservedAt := reserve(), reserve()
			if firstReservedAt.Before(lastReservedAt) != tc.isReleased {
				t.Fatalf("%s: reserved at %s and then at %s, want a later time: %v", tc.stage, firstReservedAt, lastReservedAt, tc.isReleased)
			}
			must(t, "release by another account", s.ReleaseMailbox(t.Context(), bob, m.ID, lastReservedAt))
			if tc.isReleased {
				must(t, "release of the first reservation", s.ReleaseMailbox(t.Context(), ann, m.ID, firstReservedAt))
			}
			must(t, "set the limit of the mailbox that was not released", s.SetSendLimit(t.Context(), ann, m.ID, 1, now))
			must(t, "release", s.ReleaseMailbox(t.Context(), ann, m.ID, lastReservedAt))
			if err := s.SaveMailbox(t.Context(), ann, m); (err != nil) != tc.isReleased {
				t.Fatalf("%s: SaveMailbox after the release returned %v, want an error: %v", tc.stage, err, tc.isReleased)
			}
		}
		must(t, "save the mailbox of which no reservation was released", s.SaveMailbox(t.Context(), ann, unreleased))
	})
}

// TestReleasedMailboxIsUnblocked releases the reservations of two mailboxes that a discovery missed
// and a request reserved again. The mailbox ada is blocked, and the outcome of a block of bob is
// unknown. The log must show that both mailboxes vanished. The release must record the unblock of
// ada, and must keep the intended block of bob.
func TestReleasedMailboxIsUnblocked(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		d, err := s.Domain(t.Context(), fixture.owner, fixture.guid, "a.test")
		must(t, "find domain", err)
		for i := range fixture.boxes {
			fixture.boxes[i].ObjectID = "object of " + fixture.boxes[i].Address
			must(t, "save", s.SaveMailbox(t.Context(), fixture.owner, fixture.boxes[i]))
		}
		requireLeaseHeld(t, "block ada", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 26))))
		fixture.saveIntents(t, s, claim, fixture.blockChange(1, 26))
		discoverNoMailboxes(t, s, fixture.owner, fixture.guid, now.Add(time.Hour))
		reserved, err := s.ReserveMailboxes(t.Context(), fixture.owner, d.ID, mailboxSpecs(d, "ada", "bob"), mailbox.MaxPerDomain, now.Add(2*time.Hour))
		must(t, "reserve again", err)
		log := readerAtEnd(t, s, fixture.owner)
		must(t, "release ada", s.ReleaseMailbox(t.Context(), fixture.owner, reserved[0].ID, reserved[0].ReservedAt))
		log.requireTypes(t, "release of a blocked mailbox", event.MailboxUnblocked, event.MailboxVanished)
		must(t, "release bob", s.ReleaseMailbox(t.Context(), fixture.owner, reserved[1].ID, reserved[1].ReservedAt))
		log.requireTypes(t, "release of a mailbox with an intended block", event.MailboxVanished)
		if events := listEvents(t, s, fixture.owner, ports.EventQuery{Limit: 9}).Events; len(events) != 2 || events[0].Action != sendlimit.Unblocked || events[0].Address != fixture.boxes[0].Address {
			t.Fatalf("the events are %+v, want a block and an unblock of ada", events)
		}
		fixture.requireIntents(t, s, claim, fixture.blockChange(1, 26))
	})
}

func TestConcurrentReservationsOfMailboxesNeverExceedLimit(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		errs := concurrently(concurrency, func(i int) error {
			got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, fmt.Sprintf("m%d", i)), 3, now)
			if err != nil {
				return err
			}
			got[0].Stage = mailbox.Ready
			return s.SaveMailbox(t.Context(), ann, got[0])
		})
		list, err := s.Mailboxes(t.Context(), ann, guid(1))
		must(t, "list", err)
		if n := countWinners(t, errs, fault.MailboxLimitReached); n != 3 || len(list) != 3 {
			t.Fatalf("%d calls succeeded and %d mailboxes are stored, want 3 of each", n, len(list))
		}
	})
}

func TestConcurrentReservationsOfPairsNeverStoreHalfPair(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		errs := concurrently(concurrency, func(i int) error {
			_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, fmt.Sprintf("l%d", i), fmt.Sprintf("r%d", i)), 3, now)
			return err
		})
		if n := countWinners(t, errs, fault.MailboxLimitReached); n != 1 {
			t.Fatalf("%d pairs were stored, want 1", n)
		}
		_, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "single"), 3, now)
		must(t, "reserve the free slot", err)
	})
}

func TestConcurrentReservationsOfOneAddressCreateOneMailbox(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, d := newMailDomain(t, s)
		isNew := make([]bool, concurrency)
		errs := concurrently(concurrency, func(i int) error {
			got, err := s.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "sales"), 1, now)
			isNew[i] = err == nil && got[0].JustReserved
			return err
		})
		if n := countWinners(t, errs, nil); n != concurrency || countTrue(isNew) != 1 {
			t.Fatalf("%d calls got the mailbox, want %d; %d created it, want 1", n, concurrency, countTrue(isNew))
		}
	})
}

// pausingHook pauses after the first statement that contains the given text. It counts all such
// statements.
type pausingHook struct {
	text           string
	matches        atomic.Int32
	paused, resume chan struct{}
}

func newPausingHook(text string) *pausingHook {
	return &pausingHook{text: text, paused: make(chan struct{}), resume: make(chan struct{})}
}

func (*pausingHook) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (h *pausingHook) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	if strings.Contains(e.Query, h.text) && h.matches.Add(1) == 1 {
		close(h.paused)
		<-h.resume
	}
}

// TestReservationAndDeletionOfTenantDoNotDeadlock starts a reservation of a mailbox and a deletion
// of its tenant, in either order. The second call starts while the first call holds its locks. Both
// calls lock the tenant before the domain. With different orders they would deadlock: PostgreSQL
// would abort one of the transactions, and the store would run it again.
func TestReservationAndDeletionOfTenantDoNotDeadlock(t *testing.T) {
	for name, reservationFirst := range map[string]bool{"reservation first": true, "deletion first": false} {
		t.Run(name, func(t *testing.T) {
			url := testserver.Database(t) // not shared, because the test observes all database connections
			pauseHook := newPausingHook(`NO KEY UPDATE OF "d"`)
			reservationHook, deletionHook := newPausingHook("FOR KEY SHARE"), newPausingHook(`DELETE FROM "tenants"`)
			close(reservationHook.resume)
			close(deletionHook.resume)
			s := migratedStore(t, url)
			ann, d := newMailDomain(t, s)
			reservation := func(hooks ...bun.QueryHook) func() error {
				hookedStore := migratedStore(t, url, hooks...)
				return func() error {
					_, err := hookedStore.ReserveMailboxes(t.Context(), ann, d.ID, mailboxSpecs(d, "a"), 3, now)
					return err
				}
			}
			deletion := func(hooks ...bun.QueryHook) func() error {
				hookedStore := migratedStore(t, url, hooks...)
				return func() error { return hookedStore.DeleteTenant(t.Context(), ann, guid(1), nil) }
			}
			firstCall, secondCall := reservation(reservationHook, pauseHook), deletion(deletionHook)
			if !reservationFirst {
				firstCall, secondCall = deletion(deletionHook, pauseHook), reservation(reservationHook)
			}
			firstErr, secondErr := make(chan error, 1), make(chan error, 1)
			go func() { firstErr <- firstCall() }()
			<-pauseHook.paused
			go func() { secondErr <- secondCall() }()
			waitForLock(t, s)
			close(pauseHook.resume)
			must(t, "first call", <-firstErr)
			err := <-secondErr
			if reservationFirst {
				must(t, "deletion after the reservation", err)
			} else {
				requireRefusal(t, "reservation after the deletion", err, fault.DomainNotFound)
			}
			if reservations, deletions := reservationHook.matches.Load(), deletionHook.matches.Load(); reservations != 1 || deletions != 1 {
				t.Errorf("the reservation took %d attempts and the deletion %d, want 1 each", reservations, deletions)
			}
		})
	}
}

// TestReservationAndConclusionOfMailboxesDoNotDeadlock reserves two missing mailboxes against the
// order of their ids, while another request concludes them. Both transactions must lock the
// mailboxes in the order of the ids. With different orders PostgreSQL would abort one of them, and
// the store would run it again.
func TestReservationAndConclusionOfMailboxesDoNotDeadlock(t *testing.T) {
	url := testserver.Database(t) // not shared, because the test observes all database connections
	setup := migratedStore(t, url)
	ann, d := newMailDomain(t, setup)
	boxes := []mailbox.Mailbox{addMailbox(t, setup, ann, d, "a", mailbox.Ready), addMailbox(t, setup, ann, d, "b", mailbox.Ready)}
	discoverNoMailboxes(t, setup, ann, guid(1), discoveryStart)
	slices.SortFunc(boxes, func(a, b mailbox.Mailbox) int { return cmp.Compare(b.ID, a.ID) })
	specs := []mailbox.Spec{{Address: boxes[0].Address}, {Address: boxes[1].Address}}

	pauseHook := newPausingHook(`UPDATE "mailboxes"`)
	var reservationHook, conclusionHook stepHook
	first, second := migratedStore(t, url, pauseHook, &reservationHook), migratedStore(t, url, &conclusionHook)
	firstEnds, secondEnds := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := first.ReserveMailboxes(t.Context(), ann, d.ID, specs, mailbox.MaxPerDomain, discoveryStart)
		firstEnds <- err
	}()
	<-pauseHook.paused
	go func() { secondEnds <- second.ConcludeMailboxes(t.Context(), ann, boxes, nil) }()
	waitForLock(t, setup)
	close(pauseHook.resume)
	must(t, "reserve", <-firstEnds)
	must(t, "conclude", <-secondEnds)
	if n := reservationHook.deadlocks + conclusionHook.deadlocks; n > 0 {
		t.Errorf("%d deadlocks, want 0", n)
	}
}
