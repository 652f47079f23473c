// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"
	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// blockChange returns a change that blocks a mailbox. See newChange for box and n.
func (fixture sendLimitFixture) blockChange(box, n int) sendlimit.Change {
	return fixture.newChange(box, n, sendlimit.Blocked)
}

// newChange returns a change of the mailbox fixture.boxes[box], which has sent n messages. The time
// of the change is n seconds after dueTime.
func (fixture sendLimitFixture) newChange(box, n int, action sendlimit.Action) sendlimit.Change {
	return sendlimit.Change{MailboxID: fixture.boxes[box].ID, Scope: "a.test", Action: action, At: dueTime.Add(time.Duration(n) * time.Second).UTC().Truncate(time.Microsecond),
		Event: sendlimit.Event{Tenant: fixture.guid, Address: fixture.boxes[box].Address, Action: action, Sent: n, Limit: 25}}
}

// saveTime is the time at which most changes of these tests are saved.
var saveTime = dueTime.Add(time.Hour).UTC().Truncate(time.Microsecond)

// doneChanges returns changes that the platform has applied, to be saved at saveTime.
func doneChanges(changes ...sendlimit.Change) ports.SendChanges {
	return ports.SendChanges{At: saveTime, Done: changes}
}

// requireEvents checks the events of the account, newest first. The time of each event must match
// the time in the event's id. requireEvents returns the events with their ids and times.
func (fixture sendLimitFixture) requireEvents(t testing.TB, s *Store, want ...sendlimit.Event) []sendlimit.Event {
	t.Helper()
	page := listEvents(t, s, fixture.owner, ports.EventQuery{Limit: 200})
	withoutIDs := ports.EventPage{Total: page.Total}
	for _, e := range page.Events {
		if !e.At.Truncate(time.Millisecond).Equal(ident.Time(e.ID)) {
			t.Fatalf("the id %s of an event contains the time %s, want the time of the event, %s", e.ID, ident.Time(e.ID), e.At)
		}
		e.ID, e.At = "", time.Time{}
		withoutIDs.Events = append(withoutIDs.Events, e)
	}
	if diff := compare.Diff(ports.EventPage{Events: want, Total: len(want)}, withoutIDs); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	return page.Events
}

func (fixture sendLimitFixture) blockedAt(t testing.TB, s *Store, box int) time.Time {
	t.Helper()
	m, err := s.Mailbox(t.Context(), fixture.owner, fixture.guid, fixture.boxes[box].ID)
	must(t, "find mailbox", err)
	return m.BlockedAt
}

func TestBlockAndUnblockRecordOneEventEach(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		block := fixture.blockChange(0, 1)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(block)))
		event := fixture.requireEvents(t, s, block.Event)[0]
		if at := fixture.blockedAt(t, s, 0); !event.At.Equal(saveTime) || !at.Equal(event.At) {
			t.Fatalf("the mailbox was blocked at %s, and the time of its event is %s, want %s for both", at, event.At, saveTime)
		}
		if at := fixture.blockedAt(t, s, 1); !at.IsZero() {
			t.Fatalf("the mailbox without a change was blocked at %s", at)
		}
		if boxes := fixture.listBoxes(t, s, claim); !boxes[0].BlockedAt.Equal(block.At) || boxes[0].ExceededLimit != 25 || !boxes[1].BlockedAt.IsZero() || boxes[1].ExceededLimit != 0 {
			t.Fatalf("the listed mailboxes are %+v, want only the first blocked, with the limit 25", boxes)
		}
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, "a.test")
		unblock := fixture.newChange(0, 2, sendlimit.Unblocked)
		requireLeaseHeld(t, "unblock", true)(s.SaveChanges(t.Context(), claim, doneChanges(unblock)))
		fixture.requireEvents(t, s, unblock.Event, block.Event)
		if at := fixture.blockedAt(t, s, 0); !at.IsZero() {
			t.Fatalf("after the unblock, the mailbox is blocked since %s, want not blocked", at)
		}
		if boxes := fixture.listBoxes(t, s, claim); !boxes[0].BlockedAt.IsZero() || boxes[0].ExceededLimit != 0 {
			t.Fatalf("the listed mailboxes are %+v, want none blocked", boxes)
		}
		requireScopesWithRules(t, s, fixture.owner, fixture.guid)
	})
}

func TestUnblockingLeavesOtherMailboxesBlocked(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim, keptBlock := fixture.claim(t, s), fixture.blockChange(1, 2)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 1), keptBlock)))
		requireLeaseHeld(t, "unblock", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.newChange(0, 3, sendlimit.Unblocked))))
		if blockedBox := fixture.listBoxes(t, s, claim)[1]; !blockedBox.BlockedAt.Equal(keptBlock.At) || blockedBox.ExceededLimit != 25 || fixture.blockedAt(t, s, 1).IsZero() {
			t.Fatalf("the mailbox that was not unblocked is %+v, want it blocked at %s with the limit 25", blockedBox, keptBlock.At)
		}
	})
}

func TestPassChangesOnlyMailboxesOfItsTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		tenant1 := newSendLimitFixture(t, s, "ann", 1)
		tenant2 := addSendLimitTenant(t, s, tenant1.owner, 2)
		claim1, claim2 := tenant1.claim(t, s), tenant2.claim(t, s)
		withForeignBoxes := tenant1
		withForeignBoxes.boxes = slices.Concat(tenant1.boxes, tenant2.boxes)
		withForeignBoxes.saveCounts(t, s, claim1, 3) // of the mailboxes of both tenants
		foreignBox, err := s.Mailbox(t.Context(), tenant2.owner, tenant2.guid, tenant2.boxes[0].ID)
		must(t, "find mailbox", err)
		d, err := s.Domain(t.Context(), tenant1.owner, tenant1.guid, "a.test")
		must(t, "find domain", err)
		addMailbox(t, s, tenant1.owner, d, "unfinished", mailbox.Creating)
		if n := len(tenant1.listBoxes(t, s, claim1)); n != 2 || foreignBox.SendsToday != 0 {
			t.Fatalf("%d mailboxes are listed, want 2; %d messages of another tenant are counted, want 0", n, foreignBox.SendsToday)
		}
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim1, doneChanges(tenant1.blockChange(0, 1), tenant2.blockChange(1, 2))))
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim2, doneChanges(tenant2.blockChange(0, 3), tenant1.blockChange(1, 4))))
		for _, fixture := range []sendLimitFixture{tenant1, tenant2} {
			if fixture.blockedAt(t, s, 0).IsZero() || !fixture.blockedAt(t, s, 1).IsZero() {
				t.Fatalf("the two mailboxes of a tenant are blocked since %s and %s, want only the first to be blocked", fixture.blockedAt(t, s, 0), fixture.blockedAt(t, s, 1))
			}
		}
	})
}

func TestEventsAreInOrderEvenIfClockStepsBack(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		var want []sendlimit.Event
		for n, at := range []time.Time{saveTime, saveTime, saveTime.Add(-24 * time.Hour), saveTime.Add(time.Second)} {
			change := fixture.newChange(0, n, []sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked}[n%2])
			requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{At: at, Done: []sendlimit.Change{change}}))
			want = append([]sendlimit.Event{change.Event}, want...)
		}
		events := fixture.requireEvents(t, s, want...)
		for n, e := range slices.Backward(events[:3]) {
			if !e.At.After(events[n+1].At) {
				t.Fatalf("an event has the time %s, want it to be later than the time of the previous event, %s", e.At, events[n+1].At)
			}
		}
		if at := events[0].At; !at.Equal(saveTime.Add(time.Second)) {
			t.Fatalf("the newest event has the time %s, want %s", at, saveTime.Add(time.Second))
		}
	})
}

func TestLaterEventOfOneTenantDoesNotDelayEventsOfOthers(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		aheadTenant := addSendLimitTenant(t, s, fixture.owner, 2)
		aheadBlock, block := aheadTenant.blockChange(0, 1), fixture.blockChange(0, 2)
		requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), aheadTenant.claim(t, s), ports.SendChanges{At: saveTime.Add(time.Hour), Done: []sendlimit.Change{aheadBlock}}))
		requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), fixture.claim(t, s), doneChanges(block)))
		if events := fixture.requireEvents(t, s, aheadBlock.Event, block.Event); !events[1].At.Equal(saveTime) {
			t.Fatalf("the earlier event has the time %s, want %s", events[1].At, saveTime)
		}
	})
}

func TestRepeatedChangeIsStoredOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		block, laterBlock := fixture.blockChange(0, 1), fixture.blockChange(0, 2)
		for _, c := range []sendlimit.Change{block, block, laterBlock} {
			requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(c)))
		}
		event := fixture.requireEvents(t, s, block.Event)[0]
		if at := fixture.blockedAt(t, s, 0); !at.Equal(event.At) {
			t.Fatalf("the mailbox was blocked at %s, want the time of its event, %s", at, event.At)
		}
		unblock, laterUnblock := fixture.newChange(0, 3, sendlimit.Unblocked), fixture.newChange(0, 4, sendlimit.Unblocked)
		for _, c := range []sendlimit.Change{unblock, laterUnblock, unblock} {
			requireLeaseHeld(t, "unblock", true)(s.SaveChanges(t.Context(), claim, doneChanges(c)))
		}
		fixture.requireEvents(t, s, unblock.Event, block.Event)
	})
}

func TestOneOfConcurrentPassesWritesEventOfChange(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		staleClaim := fixture.claim(t, s)
		currentClaim := fixture.takeOver(t, s, staleClaim)
		isClaimValid := make([]bool, concurrency)
		for _, err := range concurrently(concurrency, func(i int) (err error) {
			isClaimValid[i], err = s.SaveChanges(t.Context(), []ports.TenantClaim{staleClaim, currentClaim}[i%2], doneChanges(fixture.blockChange(1, i), fixture.blockChange(0, 100+i)))
			return err
		}) {
			must(t, "save", err)
		}
		for i, isValid := range isClaimValid {
			if isValid != (i%2 == 1) {
				t.Fatalf("save %d: the claim is valid: %v, want %v", i, isValid, i%2 == 1)
			}
		}
		if page := listEvents(t, s, fixture.owner, ports.EventQuery{Limit: 200}); page.Total != 2 || len(page.Events) != 2 {
			t.Fatalf("the page has %d events, and the total is %d, want 2 (one for each mailbox)", len(page.Events), page.Total)
		}
	})
}

func TestChangeOfDeletedOrForeignMailboxIsSkipped(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		fixture, otherTenant := addSendLimitTenant(t, s, ann, 1), addSendLimitTenant(t, s, ann, 2)
		claim := fixture.claim(t, s)
		deletedBoxBlock := fixture.blockChange(0, 1)
		deletedBoxBlock.MailboxID = unknownMailboxID
		block := fixture.blockChange(1, 3)
		requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, doneChanges(deletedBoxBlock, otherTenant.blockChange(0, 2), block)))
		fixture.requireEvents(t, s, block.Event)
		if at := otherTenant.blockedAt(t, s, 0); !at.IsZero() {
			t.Fatalf("the mailbox of a different tenant was blocked at %s, want not blocked", at)
		}
	})
}

// TestOrphanRulesAreKnownUntilEmptied checks that the scopes of orphan rules are listed until a
// pass has emptied the rules. One of the rules belongs to a domain whose name is too long for a
// rule name. The scope of this rule is truncated until the domain has a policy.
func TestOrphanRulesAreKnownUntilEmptied(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		otherTenant := addSendLimitTenant(t, s, fixture.owner, 2)
		claim := fixture.claim(t, s)
		longDomain := strings.Repeat("long-", 12) + "a.test"
		ruleNames := []string{sendlimit.RuleName("gone.test"), sendlimit.RuleName(longDomain), sendlimit.RuleName(sendlimit.TenantWide)}
		truncatedScope := sendlimit.ScopeOfRule(sendlimit.RuleName(longDomain))
		for range 2 {
			requireLeaseHeld(t, "save", true)(s.SaveOrphanRules(t.Context(), claim, ruleNames))
		}
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, sendlimit.TenantWide, "gone.test", truncatedScope)
		requireScopesWithRules(t, s, fixture.owner, otherTenant.guid)
		addDomain(t, s, fixture.owner, fixture.guid, longDomain)
		setPolicy(t, s, fixture.owner, fixture.guid, longDomain, 5)
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, sendlimit.TenantWide, "gone.test", longDomain)
		requireLeaseHeld(t, "save empty scopes of another tenant", true)(s.SaveChanges(t.Context(), otherTenant.claim(t, s), ports.SendChanges{EmptyScopes: []string{"gone.test"}}))
		requireLeaseHeld(t, "emptied", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{EmptyScopes: []string{sendlimit.TenantWide, longDomain}}))
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, "gone.test", longDomain)
		requireLeaseHeld(t, "emptied", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{EmptyScopes: []string{"gone.test"}}))
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, longDomain)
	})
}

func TestEmptiedScopeIsDeletedOnlyAfterItsDomainIsGone(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		setPolicy(t, s, fixture.owner, fixture.guid, "a.test", 5)
		setPolicy(t, s, fixture.owner, fixture.guid, sendlimit.TenantWide, 5)
		scopes := []string{"a.test", sendlimit.TenantWide}
		requireLeaseHeld(t, "emptied", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{EmptyScopes: scopes}))
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, scopes...)
		removeAllDomains(t, s, fixture.owner, fixture.guid)
		otherTenant := addSendLimitTenant(t, s, fixture.owner, 2)
		setPolicy(t, s, fixture.owner, otherTenant.guid, "a.test", 5)
		removeAllDomains(t, s, fixture.owner, otherTenant.guid)
		requireLeaseHeld(t, "save no emptied scope", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{}))
		requireLeaseHeld(t, "save a different emptied scope", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{EmptyScopes: []string{"b.test"}}))
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, scopes...)
		requireLeaseHeld(t, "emptied", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{EmptyScopes: scopes}))
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, sendlimit.TenantWide)
		requireScopesWithRules(t, s, fixture.owner, otherTenant.guid, "a.test")
	})
}

// TestPolicyOfHiddenDomainIsKept checks a domain that a discovery missed and that a request then
// reserves again.
func TestPolicyOfHiddenDomainIsKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		setPolicy(t, s, fixture.owner, fixture.guid, "a.test", 5)
		discoverDomains(t, s, fixture.owner, now, "a.test")
		hidden, err := s.ReserveDomain(t.Context(), fixture.owner, fixture.guid, "a.test", 100, now.Add(time.Second))
		if err != nil || hidden.Added || hidden.Observed.PreviousMissingSince.IsZero() {
			t.Fatalf("the missed domain is reserved as %+v, %v, want it not added, with the time of the miss", hidden, err)
		}
		requireLeaseHeld(t, "emptied", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{EmptyScopes: []string{"a.test"}}))
		if policy, err := s.Policy(t.Context(), fixture.owner, fixture.guid, "a.test"); err != nil || policy.PerDay != 5 {
			t.Fatalf("the policy is %+v, %v, want 5 messages a day", policy, err)
		}
	})
}

// discoverMailboxes stores a discovery that ended at this time, and found only the mailboxes with
// these addresses.
func discoverMailboxes(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID, at time.Time, addresses ...string) {
	t.Helper()
	saveDiscoveryAfterMiss(t, s, owner, id, ports.DiscoveryResult{Began: at.Add(-time.Second), At: at, Mailboxes: platformMailboxes(addresses...)})
}

// unblockEvent returns the event that is recorded when a discovery removes a blocked mailbox.
func (fixture sendLimitFixture) unblockEvent(box, sent, limit int) sendlimit.Event {
	e := fixture.newChange(box, sent, sendlimit.Unblocked).Event
	e.Limit = limit
	return e
}

func (fixture sendLimitFixture) requireUnblocked(t testing.TB, s *Store, address string) {
	t.Helper()
	mailboxes, err := s.Mailboxes(t.Context(), fixture.owner, fixture.guid)
	must(t, "list mailboxes", err)
	for _, m := range mailboxes {
		if m.Address == address && m.BlockedAt.IsZero() {
			return
		}
	}
	t.Fatalf("the mailboxes are %+v, want %s among them, not blocked", mailboxes, address)
}

func TestBlockedMailboxThatDiscoveryDropsIsUnblockedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		setPolicy(t, s, fixture.owner, fixture.guid, "a.test", 6)
		fixture.saveCounts(t, s, claim, 7)
		block := fixture.blockChange(0, 8)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(block)))
		for range 2 { // the clock of the discovery is a minute behind the clock of the pass
			discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime.Add(-time.Minute), fixture.boxes[1].Address)
		}
		events := fixture.requireEvents(t, s, fixture.unblockEvent(0, 7, 6), block.Event)
		if !events[0].At.After(events[1].At) {
			t.Fatalf("the unblock event has the time %s, want a later time than that of the block event, %s", events[0].At, events[1].At)
		}
		for action, want := range map[sendlimit.Action]int{sendlimit.Blocked: 1, sendlimit.Unblocked: 1, "": 2} {
			if page := listEvents(t, s, fixture.owner, ports.EventQuery{Tenant: fixture.guid, Action: action, Limit: 9}); page.Total != want || len(page.Events) != want {
				t.Fatalf("action %q: the page has %d events, and the total is %d, want %d", action, len(page.Events), page.Total, want)
			}
		}
		discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime, fixture.boxes[0].Address, fixture.boxes[1].Address)
		fixture.requireUnblocked(t, s, fixture.boxes[0].Address)
		requireLeaseHeld(t, "save a late unblock", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.newChange(0, 9, sendlimit.Unblocked))))
		fixture.requireEvents(t, s, fixture.unblockEvent(0, 7, 6), block.Event)
	})
}

func TestEventOfMailboxThatDiscoveryDropsHasItsLimitAndCount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		setPolicy(t, s, fixture.owner, fixture.guid, "a.test", 6)
		fixture.saveCounts(t, s, claim, 7)
		adaBlock, bobBlock := fixture.blockChange(0, 8), fixture.blockChange(1, 9)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(adaBlock)))
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(bobBlock)))
		removeAllDomains(t, s, fixture.owner, fixture.guid)
		discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime, fixture.boxes[1].Address)
		fixture.requireEvents(t, s, fixture.unblockEvent(0, 7, 25), bobBlock.Event, adaBlock.Event)
		discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime.Add(24*time.Hour))
		fixture.requireEvents(t, s, fixture.unblockEvent(1, 0, 25), fixture.unblockEvent(0, 7, 25), bobBlock.Event, adaBlock.Event)
		requireScopesWithRules(t, s, fixture.owner, fixture.guid, "a.test") // until a pass has emptied the rule
	})
}

func TestMailboxWithIntentStaysUntilOutcomeIsKnown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		adaBlock, bobBlock := fixture.blockChange(0, 8), fixture.blockChange(1, 9)
		fixture.saveIntents(t, s, claim, adaBlock, bobBlock)
		discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime)
		fixture.requireIntents(t, s, claim, adaBlock, bobBlock)
		requireLeaseHeld(t, "save the block of ada", true)(s.SaveChanges(t.Context(), claim, doneChanges(adaBlock)))
		discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime)
		fixture.requireEvents(t, s, fixture.unblockEvent(0, 0, 25), adaBlock.Event)
		if remaining := fixture.listBoxes(t, s, claim); len(remaining) != 0 {
			t.Fatalf("the mailboxes %+v are left, want none", remaining)
		}
	})
}

func TestTenantWhoseBlockedMailboxDiscoveryDroppedIsDueAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), claim, doneChanges(fixture.blockChange(0, 8))))
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, saveTime.Add(time.Minute)))
		discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime, fixture.boxes[0].Address)
		requireOrder(t, "the blocked mailbox was found", dueTenantIDs(t, s, saveTime, 9))
		discoverMailboxes(t, s, fixture.owner, fixture.guid, saveTime)
		requireOrder(t, "the blocked mailbox was missed", dueTenantIDs(t, s, saveTime, 9), fixture.tenantID())
	})
}

func TestDiscoveryDoesNotUnblockMailboxesOfDifferentAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newSendLimitFixture(t, s, "ann", 1), newSendLimitFixture(t, s, "bob", 2)
		block := bob.blockChange(0, 8)
		requireLeaseHeld(t, "block", true)(s.SaveChanges(t.Context(), bob.claim(t, s), doneChanges(block)))
		discoverMailboxes(t, s, ann.owner, ann.guid, saveTime)
		bob.requireEvents(t, s, block.Event)
		ann.requireEvents(t, s)
	})
}

// cancelBefore is a query hook. It cancels the context of the caller when a statement that begins
// with the text in the field statement is about to run.
type cancelBefore struct {
	statement string
	cancel    context.CancelFunc
}

func (c *cancelBefore) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	if c.cancel != nil && strings.HasPrefix(e.Query, c.statement) {
		c.cancel()
	}
	return ctx
}

func (*cancelBefore) AfterQuery(context.Context, *bun.QueryEvent) {}

// cutOff runs call with a context that is cancelled when the statement is about to run. call must
// return an error.
func (c *cancelBefore) cutOff(t testing.TB, statement string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.statement, c.cancel = statement, cancel
	if call(ctx) == nil {
		t.Fatalf("the call succeeded, want an error, because its context is cancelled at %s", statement)
	}
	c.cancel = nil
}

// TestChangeAndEventAreOneTransaction saves blocks, and cancels the caller's context at a different
// statement of the transaction each time. Then neither the block nor its event must be stored. The
// repeated save must store both.
func TestChangeAndEventAreOneTransaction(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		hook := &cancelBefore{}
		s := migratedStore(t, url(t), hook)
		for n, statement := range []string{
			`INSERT INTO "mailbox_blocks"`, `INSERT INTO "block_grounds"`, `INSERT INTO "enforcement_events"`, `INSERT INTO "enforcement_counts"`,
		} {
			fixture := newSendLimitFixture(t, s, fmt.Sprint("ann", n), n)
			claim, change := fixture.claim(t, s), fixture.blockChange(0, 26)
			hook.cutOff(t, statement, func(ctx context.Context) error { _, err := s.SaveChanges(ctx, claim, doneChanges(change)); return err })
			fixture.requireEvents(t, s)
			if at := fixture.blockedAt(t, s, 0); !at.IsZero() {
				t.Fatalf("cancelled at %s: the mailbox is blocked since %s, want not blocked", statement, at)
			}
			requireLeaseHeld(t, "save changes", true)(s.SaveChanges(t.Context(), claim, doneChanges(change)))
			fixture.requireEvents(t, s, change.Event)
		}
	})
}
