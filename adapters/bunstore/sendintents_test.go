// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"slices"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// requireIntents checks the tenant's intents. They must be ordered by address. The order of want
// does not matter.
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

// removeAllMailboxes stores a discovery that found no mailboxes.
func removeAllMailboxes(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID) {
	t.Helper()
	saveDiscoveryAfterMiss(t, s, owner, id, ports.DiscoveryResult{Began: now.Add(time.Hour), Mailboxes: []mailbox.Platform{}})
}

func TestIntentsAreKeptUntilNextPassSavesItsOwn(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		fixture.requireIntents(t, s, claim)
		one, two := fixture.blockChange(1, 1), fixture.newChange(0, 2, sendlimit.Unblocked)
		for range 2 {
			fixture.saveIntents(t, s, claim, one, two)
			fixture.requireIntents(t, s, claim, one, two)
		}
		next := fixture.takeOver(t, s, claim)
		fixture.requireIntents(t, s, next, one, two)
		if at := fixture.blockedAt(t, s, 1); !at.IsZero() {
			t.Fatalf("an intent was applied at %s", at)
		}
		if page := listEvents(t, s, fixture.owner, ports.EventQuery{Limit: 9}); page.Total != 0 {
			t.Fatalf("%d events are stored, but no intent was carried out", page.Total)
		}
		three := fixture.blockChange(0, 3)
		fixture.saveIntents(t, s, next, three)
		fixture.requireIntents(t, s, next, three)
		fixture.saveIntents(t, s, next)
		fixture.requireIntents(t, s, next)
	})
}

func TestIntentIsDeletedWhenItsOutcomeIsKnown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		one, two := fixture.blockChange(0, 1), fixture.blockChange(1, 2)
		fixture.saveIntents(t, s, claim, one, two)
		c := doneChanges(one)
		c.Unresolved = []string{two.MailboxID}
		for range 2 {
			requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, c))
			fixture.requireIntents(t, s, claim, two)
			fixture.requireEvents(t, s, one.Event)
		}
		requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{}))
		fixture.requireIntents(t, s, claim)
		fixture.requireEvents(t, s, one.Event)
		if at := fixture.blockedAt(t, s, 1); !at.IsZero() {
			t.Fatalf("a change that did not happen was applied at %s", at)
		}
	})
}

func TestPassThatLostItsTenantCannotSaveIntents(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		first := fixture.claim(t, s)
		fixture.saveIntents(t, s, first, fixture.blockChange(0, 1))
		second := fixture.takeOver(t, s, first)
		requireLeaseHeld(t, "late intents", false)(s.SaveIntents(t.Context(), first, []sendlimit.Change{fixture.blockChange(1, 2)}))
		requireLeaseHeld(t, "late changes", false)(s.SaveChanges(t.Context(), first, ports.SendChanges{}))
		fixture.requireIntents(t, s, second, fixture.blockChange(0, 1))
	})
}

func TestIntentsAreDeletedWithTheirMailbox(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann := newAccount(t, s, "ann")
		fixture, other := addSendLimitTenant(t, s, ann, 1), addSendLimitTenant(t, s, ann, 2)
		claim, otherClaim := fixture.claim(t, s), other.claim(t, s)
		gone := fixture.blockChange(0, 1)
		gone.MailboxID = unknownMailboxID
		fixture.saveIntents(t, s, claim, gone, other.blockChange(0, 2), fixture.blockChange(1, 3))
		fixture.requireIntents(t, s, claim, fixture.blockChange(1, 3))
		other.saveIntents(t, s, otherClaim, other.newChange(0, 4, sendlimit.Unblocked))
		fixture.saveIntents(t, s, claim, fixture.blockChange(0, 5))
		requireLeaseHeld(t, "save", true)(s.SaveChanges(t.Context(), claim, ports.SendChanges{}))
		other.requireIntents(t, s, otherClaim, other.newChange(0, 4, sendlimit.Unblocked))
		fixture.requireIntents(t, s, claim)
		claimOfBob := otherClaim
		claimOfBob.Account = newAccount(t, s, "bob")
		other.requireIntents(t, s, claimOfBob)
		requireLeaseHeld(t, "another account", false)(s.SaveIntents(t.Context(), claimOfBob, nil))
		removeAllMailboxes(t, s, ann, other.guid)
		other.requireIntents(t, s, otherClaim)
	})
}
