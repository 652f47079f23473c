// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"slices"
	"testing"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// requireIntents checks the tenant's intents, which the store must return in the order of their
// addresses. want can have any order.
func (fixture sendLimitFixture) requireIntents(t testing.TB, s *Store, claim ports.TenantClaim, want ...sendlimit.Change) {
	t.Helper()
	got, err := s.Intents(t.Context(), claim)
	must(t, "list intents", err)
	slices.SortFunc(want, func(a, b sendlimit.Change) int { return cmp.Compare(a.Event.Address, b.Event.Address) })
	if diff := compare.Diff(append([]sendlimit.Change{}, want...), got); diff != "" {
		t.Fatalf("intents (-want +got):\n%s", diff)
	}
}

func (fixture sendLimitFixture) saveIntents(t testing.TB, s *Store, claim ports.TenantClaim, changes ...sendlimit.Change) {
	t.Helper()
	requireLeaseHeld(t, "save intents", true)(s.SaveIntents(t.Context(), claim, changes))
}

func TestIntentsAreKeptUntilNextPassSavesItsOwn(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		fixture.requireIntents(t, s, claim)
		bobBlock, adaUnblock := fixture.blockChange(1, 1), fixture.newChange(0, 2, sendlimit.Unblocked)
		for range 2 {
			fixture.saveIntents(t, s, claim, bobBlock, adaUnblock)
			fixture.requireIntents(t, s, claim, bobBlock, adaUnblock)
		}
		nextClaim := fixture.takeOver(t, s, claim)
		fixture.requireIntents(t, s, nextClaim, bobBlock, adaUnblock)
		if at := fixture.blockedAt(t, s, 1); !at.IsZero() {
			t.Fatalf("the intent blocked the mailbox at %s, want not blocked", at)
		}
		if page := listEvents(t, s, fixture.owner, ports.EventQuery{Limit: 9}); page.Total != 0 {
			t.Fatalf("%d events are stored, want none, because no change is done", page.Total)
		}
		adaBlock := fixture.blockChange(0, 3)
		fixture.saveIntents(t, s, nextClaim, adaBlock)
		fixture.requireIntents(t, s, nextClaim, adaBlock)
		fixture.saveIntents(t, s, nextClaim)
		fixture.requireIntents(t, s, nextClaim)
	})
}

func TestIntentIsDeletedWhenItsOutcomeIsKnown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		doneBlock, unresolvedBlock := fixture.blockChange(0, 1), fixture.blockChange(1, 2)
		fixture.saveIntents(t, s, claim, doneBlock, unresolvedBlock)
		changes := doneChanges(doneBlock)
		changes.Unresolved = []string{unresolvedBlock.MailboxID}
		for range 2 {
			requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, changes))
			fixture.requireIntents(t, s, claim, unresolvedBlock)
			fixture.requireEvents(t, s, doneBlock.Event)
		}
		requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{}))
		fixture.requireIntents(t, s, claim)
		fixture.requireEvents(t, s, doneBlock.Event)
		if at := fixture.blockedAt(t, s, 1); !at.IsZero() {
			t.Fatalf("the block that was not done is stored with the time %s, want no block", at)
		}
	})
}

func TestPassThatLostItsTenantCannotSaveIntents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		staleClaim := fixture.claim(t, s)
		fixture.saveIntents(t, s, staleClaim, fixture.blockChange(0, 1))
		currentClaim := fixture.takeOver(t, s, staleClaim)
		requireLeaseHeld(t, "late intents", false)(s.SaveIntents(t.Context(), staleClaim, []sendlimit.Change{fixture.blockChange(1, 2)}))
		requireLeaseHeld(t, "late changes", false)(s.SaveChanges(t.Context(), staleClaim, ports.SendChanges{}))
		fixture.requireIntents(t, s, currentClaim, fixture.blockChange(0, 1))
	})
}

func TestIntentsAreDeletedWithTheirMailbox(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		fixture, otherTenant := addSendLimitTenant(t, s, ann, 1), addSendLimitTenant(t, s, ann, 2)
		claim, otherClaim := fixture.claim(t, s), otherTenant.claim(t, s)
		deletedBoxBlock := fixture.blockChange(0, 1)
		deletedBoxBlock.MailboxID = unknownMailboxID
		fixture.saveIntents(t, s, claim, deletedBoxBlock, otherTenant.blockChange(0, 2), fixture.blockChange(1, 3))
		fixture.requireIntents(t, s, claim, fixture.blockChange(1, 3))
		otherTenant.saveIntents(t, s, otherClaim, otherTenant.newChange(0, 4, sendlimit.Unblocked))
		fixture.saveIntents(t, s, claim, fixture.blockChange(0, 5))
		requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{}))
		otherTenant.requireIntents(t, s, otherClaim, otherTenant.newChange(0, 4, sendlimit.Unblocked))
		fixture.requireIntents(t, s, claim)
		claimOfBob := otherClaim
		claimOfBob.Account = newAccount(t, s, "bob")
		otherTenant.requireIntents(t, s, claimOfBob)
		requireLeaseHeld(t, "save intents for another account", false)(s.SaveIntents(t.Context(), claimOfBob, nil))
		discoverMailboxes(t, s, ann, otherTenant.guid, saveTime)
		otherTenant.requireIntents(t, s, otherClaim)
	})
}
