// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// dayStart is the beginning of the current day in these tests.
var dayStart = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// sendLimitFixture is a tenant with two mailboxes. Its bootstrap is ready, so its messages can be
// counted.
type sendLimitFixture struct {
	owner access.AccountID
	guid  tenant.GUID
	boxes []mailbox.Mailbox
}

func newSendLimitFixture(t testing.TB, s *Store, name string, n int) sendLimitFixture {
	t.Helper()
	return addSendLimitTenant(t, s, newAccount(t, s, name), n)
}

func addSendLimitTenant(t testing.TB, s *Store, owner access.AccountID, n int) sendLimitFixture {
	t.Helper()
	fixture := sendLimitFixture{owner: owner, guid: guid(n)}
	markReady(t, s, owner, attachTenant(t, s, owner, n))
	d := addDomain(t, s, owner, fixture.guid, "a.test")
	for _, local := range []string{"ada", "bob"} {
		fixture.boxes = append(fixture.boxes, addMailbox(t, s, owner, d, local, mailbox.Ready))
	}
	return fixture
}

func markReady(t testing.TB, s *Store, owner access.AccountID, pending tenant.Tenant) {
	t.Helper()
	pending.Bootstrap = tenant.BootstrapReady
	must(t, "save tenant", s.SaveTenant(t.Context(), owner, pending))
}

func (fixture sendLimitFixture) claim(t testing.TB, s *Store) ports.TenantClaim {
	t.Helper()
	claim, isClaimed, err := s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, dueTime)
	must(t, "claim", err)
	if !isClaimed {
		t.Fatal("the tenant was not claimed")
	}
	return claim
}

// takeOver ends the lease of a claim and returns a new claim of the tenant.
func (fixture sendLimitFixture) takeOver(t testing.TB, s *Store, claim ports.TenantClaim) ports.TenantClaim {
	t.Helper()
	requireLeaseHeld(t, "let the lease end", true)(s.RenewTenantLease(t.Context(), claim, expiredLease))
	return fixture.claim(t, s)
}

func (fixture sendLimitFixture) requireNotClaimed(t testing.TB, label string, s *Store, at time.Time) {
	t.Helper()
	if _, isClaimed, err := s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, at); err != nil || isClaimed {
		t.Fatalf("%s: claimed is %v (%v), want false", label, isClaimed, err)
	}
}

// savedMark is the mark that saveCounts stores.
var savedMark = dueTime.Add(-6 * time.Hour)

// saveCounts stores that each mailbox of the fixture sent n messages on the current day.
func (fixture sendLimitFixture) saveCounts(t testing.TB, s *Store, claim ports.TenantClaim, n int) {
	t.Helper()
	counts := ports.SendCounts{Today: dayStart, At: dueTime, Mark: savedMark, ByMailbox: map[string][]sendlimit.Count{}}
	for _, m := range fixture.boxes {
		counts.ByMailbox[m.ID] = []sendlimit.Count{{Day: dayStart, Final: n - 1, Recent: 1}}
	}
	requireLeaseHeld(t, "save counts", true)(s.SaveCounts(t.Context(), claim, counts))
}

func (fixture sendLimitFixture) listBoxes(t testing.TB, s *Store, claim ports.TenantClaim) []ports.CountedMailbox {
	t.Helper()
	boxes, err := s.CountedMailboxes(t.Context(), claim, dayStart)
	must(t, "list mailboxes", err)
	return boxes
}

func dueTenantIDs(t testing.TB, s *Store, at time.Time, limit int) (ids []string) {
	t.Helper()
	dueTenants, err := s.DueTenants(t.Context(), at, limit)
	must(t, "list due tenants", err)
	for _, d := range dueTenants {
		ids = append(ids, string(d.Tenant))
	}
	return ids
}

func (fixture sendLimitFixture) tenantID() string { return string(fixture.guid) }

func TestClaimDoesNotChangeDueTimeOfTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		for range 2 {
			claim, isClaimed, err := s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, dueTime.Add(1000*time.Hour))
			if must(t, "claim", err); !isClaimed {
				t.Fatal("the tenant was not claimed")
			}
			requireLeaseHeld(t, "let the lease end", true)(s.RenewTenantLease(t.Context(), claim, expiredLease))
			requireOrder(t, "due", dueTenantIDs(t, s, now, 9), fixture.tenantID())
		}
	})
}

func TestSeizeTenantTakesTenantFromItsPass(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		firstClaim, isClaimed, err := s.SeizeTenant(t.Context(), fixture.owner, fixture.guid, longLease)
		if must(t, "seize a tenant that was never claimed", err); !isClaimed {
			t.Fatal("the tenant was not seized")
		}
		requireLeaseHeld(t, "renew", true)(s.RenewTenantLease(t.Context(), firstClaim, expiredLease))
		passClaim := fixture.claim(t, s)
		seized, isClaimed, err := s.SeizeTenant(t.Context(), fixture.owner, fixture.guid, longLease)
		must(t, "seize", err)
		if !isClaimed || seized.Epoch <= passClaim.Epoch || seized.TimeZone != passClaim.TimeZone || seized.Tenant != fixture.guid || seized.Account != fixture.owner {
			t.Fatalf("seized is %v, want true; the new claim is %+v, want the data of the earlier claim %+v with a higher epoch", isClaimed, seized, passClaim)
		}
		requireLeaseHeld(t, "renew the claim of the pass", false)(s.RenewTenantLease(t.Context(), passClaim, longLease))
		requireLeaseHeld(t, "save changes of the pass", false)(s.SaveChanges(t.Context(), passClaim, ports.SendChanges{}))
		requireLeaseHeld(t, "save orphan rules of the pass", false)(s.SaveOrphanRules(t.Context(), passClaim, []string{sendlimit.RuleName("a.test")}))
		fixture.requireNotClaimed(t, "a tenant that was seized", s, dueTime.Add(time.Hour))
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), seized, dueTime))
		requireOrder(t, "due", dueTenantIDs(t, s, dueTime, 9), fixture.tenantID())
		if _, isClaimed, err := s.SeizeTenant(t.Context(), newAccount(t, s, "bob"), fixture.guid, longLease); err != nil || isClaimed {
			t.Fatalf("for a different account: seized is %v (%v), want false", isClaimed, err)
		}
	})
}

func TestUnleasedTenantIsClaimedBeforeItIsDueAndBeforeItsBootstrap(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		stored, err := s.Tenant(t.Context(), fixture.owner, fixture.guid)
		must(t, "find", err)
		stored.Bootstrap = tenant.BootstrapPending
		must(t, "save tenant", s.SaveTenant(t.Context(), fixture.owner, stored))
		requireClaimed := func(label string, owner access.AccountID, want bool) {
			t.Helper()
			if _, isClaimed, err := s.ClaimUnleasedTenant(t.Context(), owner, fixture.guid, longLease); err != nil || isClaimed != want {
				t.Fatalf("%s: claimed is %v (%v), want %v", label, isClaimed, err, want)
			}
		}
		requireClaimed("during a lease", fixture.owner, false)
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, dueTime.Add(time.Hour)))
		requireClaimed("for a different account", newAccount(t, s, "bob"), false)
		requireClaimed("without a lease", fixture.owner, true)
	})
}

func TestSeizeTenantTakesOnlyThatTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		tenant1 := newSendLimitFixture(t, s, "ann", 1)
		tenant2 := addSendLimitTenant(t, s, tenant1.owner, 2)
		for _, tc := range []struct {
			seized    sendLimitFixture
			remaining []string
		}{{tenant1, []string{tenant2.tenantID()}}, {tenant2, nil}} {
			_, isClaimed, err := s.SeizeTenant(t.Context(), tc.seized.owner, tc.seized.guid, longLease)
			if must(t, "seize", err); !isClaimed {
				t.Fatal("the tenant was not seized")
			}
			requireOrder(t, "due", dueTenantIDs(t, s, dueTime, 9), tc.remaining...)
		}
	})
}

func TestReleasedTenantLeavesOtherTenantsLeased(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		releasedTenant := newSendLimitFixture(t, s, "ann", 1)
		leasedTenant := addSendLimitTenant(t, s, releasedTenant.owner, 2)
		leasedTenant.claim(t, s)
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), releasedTenant.claim(t, s), dueTime))
		leasedTenant.requireNotClaimed(t, "a leased tenant", s, dueTime)
	})
}

func TestLeasedTenantsAreListedByTheirDueTime(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		leased := newSendLimitFixture(t, s, "ann", 1)
		leased.claim(t, s)
		released := newSendLimitFixture(t, s, "bob", 2)
		later := dueTime.Add(time.Minute)
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), released.claim(t, s), later))
		attachTenant(t, s, newAccount(t, s, "carl"), 3) // without a bootstrap, so it is not listed
		listDueBy := func(at time.Time) (ids []string) {
			tenants, err := s.TenantsDueBy(t.Context(), at)
			must(t, "list", err)
			for _, d := range tenants {
				ids = append(ids, string(d.Account)+" "+string(d.Tenant))
			}
			return ids
		}
		leasedEntry, releasedEntry := string(leased.owner)+" "+leased.tenantID(), string(released.owner)+" "+released.tenantID()
		requireOrder(t, "before the released tenant is due", listDueBy(later.Add(-time.Microsecond)), leasedEntry)
		requireOrder(t, "when both are due", listDueBy(later), leasedEntry, releasedEntry)
	})
}

func TestTenantIsDueWhenItIsConnected(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		requireOrder(t, "before the tenant is connected", dueTenantIDs(t, s, now.Add(-time.Second), 9))
		fixture.requireNotClaimed(t, "a tenant before its due time", s, now.Add(-time.Second))
		dueTenants, err := s.DueTenants(t.Context(), dueTime, 9)
		must(t, "list", err)
		if diff := cmp.Diff([]ports.DueTenant{{Account: fixture.owner, Tenant: fixture.guid, At: now.Truncate(time.Microsecond)}}, dueTenants); diff != "" {
			t.Fatalf("the due tenants (-want +got):\n%s", diff)
		}
		claim := fixture.claim(t, s)
		if diff := cmp.Diff(ports.TenantClaim{Account: fixture.owner, Tenant: fixture.guid, Epoch: claim.Epoch, TimeZone: "UTC", Due: now.Truncate(time.Microsecond)}, claim); diff != "" {
			t.Fatalf("the claim (-want +got):\n%s", diff)
		}
		nextDue := dueTime.Add(7 * time.Minute)
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, nextDue))
		requireOrder(t, "before its due time", dueTenantIDs(t, s, nextDue.Add(-time.Microsecond), 9))
		fixture.requireNotClaimed(t, "before its due time", s, nextDue.Add(-time.Microsecond))
		requireOrder(t, "at its due time", dueTenantIDs(t, s, nextDue, 9), fixture.tenantID())
		if _, isClaimed, err := s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, nextDue); err != nil || !isClaimed {
			t.Fatalf("a due tenant was not claimed: %v", err)
		}
	})
}

func TestTenantWithDueTimeBeyondEveryPassIsDue(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		for _, ahead := range []time.Duration{sendlimit.MaxInterval + 2*maxClockSkew, 30 * 24 * time.Hour, 400 * 24 * time.Hour} {
			requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), fixture.claim(t, s), dueTime.Add(ahead)))
			requireOrder(t, "due later than any pass sets it", dueTenantIDs(t, s, dueTime, 9), fixture.tenantID())
		}
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), fixture.claim(t, s), dueTime.Add(sendlimit.MaxInterval)))
		requireOrder(t, "due after MaxInterval", dueTenantIDs(t, s, dueTime, 9))
		fixture.requireNotClaimed(t, "a tenant that is due after MaxInterval", s, dueTime)
		requireOrder(t, "a year later", dueTenantIDs(t, s, dueTime.Add(365*24*time.Hour), 9), fixture.tenantID())
	})
}

func TestOneOfConcurrentClaimsOfTenantSucceeds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		for range 2 { // without a row of an earlier claim, and then with such a row
			isClaimed, claims := make([]bool, concurrency), make([]ports.TenantClaim, concurrency)
			for _, err := range concurrently(concurrency, func(i int) (err error) {
				claims[i], isClaimed[i], err = s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, dueTime)
				return err
			}) {
				must(t, "claim", err)
			}
			if n := countTrue(isClaimed); n != 1 {
				t.Fatalf("%d claims succeeded, want 1", n)
			}
			for i := range isClaimed {
				if isClaimed[i] {
					requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claims[i], dueTime))
				}
			}
		}
	})
}

func TestTenantOfDifferentPassCanBeClaimedAfterItsLeaseExpires(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		expiringClaim := fixture.claim(t, s)
		fixture.requireNotClaimed(t, "a leased tenant", s, dueTime.Add(1000*time.Hour))
		requireOrder(t, "a leased tenant", dueTenantIDs(t, s, dueTime.Add(1000*time.Hour), 9))
		requireLeaseHeld(t, "shorten the lease", true)(s.RenewTenantLease(t.Context(), expiringClaim, time.Millisecond))
		retryUntilWon(t, func() (bool, error) {
			laterClaim, isClaimed, err := s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, dueTime)
			if isClaimed && laterClaim.Epoch <= expiringClaim.Epoch {
				t.Fatalf("the later claim has the epoch %d, want more than %d", laterClaim.Epoch, expiringClaim.Epoch)
			}
			return isClaimed, err
		})
	})
}

func TestPassThatLostItsTenantChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		staleClaim := fixture.claim(t, s)
		currentClaim := fixture.takeOver(t, s, staleClaim)
		fixture.saveCounts(t, s, currentClaim, 7)
		want := fixture.listBoxes(t, s, currentClaim)
		lateCounts := ports.SendCounts{Today: dayStart, At: dueTime, Mark: dueTime, ByMailbox: map[string][]sendlimit.Count{fixture.boxes[0].ID: {{Day: dayStart, Final: 99}}}}
		requireLeaseHeld(t, "renew", false)(s.RenewTenantLease(t.Context(), staleClaim, longLease))
		requireLeaseHeld(t, "counts", false)(s.SaveCounts(t.Context(), staleClaim, lateCounts))
		requireLeaseHeld(t, "changes", false)(s.SaveChanges(t.Context(), staleClaim, doneChanges(fixture.blockChange(0, 1))))
		requireLeaseHeld(t, "release", false)(s.ReleaseTenant(t.Context(), staleClaim, dueTime.Add(time.Hour)))
		if diff := cmp.Diff(want, fixture.listBoxes(t, s, currentClaim)); diff != "" {
			t.Fatalf("the pass with the stale claim changed the mailboxes (-want +got):\n%s", diff)
		}
		if page := listEvents(t, s, fixture.owner, ports.EventQuery{Limit: 9}); page.Total != 0 {
			t.Fatalf("%d events are stored, want none", page.Total)
		}
		requireLeaseHeld(t, "release the current claim", true)(s.ReleaseTenant(t.Context(), currentClaim, dueTime))
		requireLeaseHeld(t, "renew the released claim", false)(s.RenewTenantLease(t.Context(), currentClaim, longLease))
		if nextClaim := fixture.claim(t, s); !nextClaim.Mark.Equal(savedMark.Truncate(time.Microsecond)) {
			t.Fatalf("the mark is %s, want the mark of the current claim, %s", nextClaim.Mark, savedMark)
		}
	})
}

func TestDueTenantsAlternateBetweenAccounts(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		ann, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		var tenants []sendLimitFixture // the first three tenants belong to ann, the others to bob
		for n := 1; n <= 5; n++ {
			owner := ann
			if n > 3 {
				owner = bob
			}
			tenants = append(tenants, addSendLimitTenant(t, s, owner, n))
			claim := tenants[n-1].claim(t, s)
			requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, dueTime.Add(time.Duration(n)*time.Second)))
		}
		at := dueTime.Add(time.Minute)
		requireOrder(t, "while no tenant is leased", dueTenantIDs(t, s, at, 4), tenants[0].tenantID(), tenants[3].tenantID(), tenants[1].tenantID(), tenants[4].tenantID())
		for _, fixture := range tenants[:2] {
			if _, isClaimed, err := s.ClaimTenant(t.Context(), ann, fixture.guid, longLease, at); err != nil || !isClaimed {
				t.Fatalf("the tenant was not claimed: %v", err)
			}
		}
		requireOrder(t, "while two tenants of ann are leased", dueTenantIDs(t, s, at, 9), tenants[3].tenantID(), tenants[4].tenantID(), tenants[2].tenantID())
	})
}

func TestTenantsThatCannotBeQueriedAreNotDue(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		stored, err := s.Tenant(t.Context(), fixture.owner, fixture.guid)
		must(t, "find", err)
		requireNotDue := func(label string) {
			t.Helper()
			requireOrder(t, label, dueTenantIDs(t, s, dueTime, 9))
			fixture.requireNotClaimed(t, label, s, dueTime)
		}
		changedTenant := stored
		changedTenant.Consent = tenant.ConsentRevoked
		must(t, "revoke", s.SaveTenant(t.Context(), fixture.owner, changedTenant))
		requireNotDue("without consent")
		changedTenant = stored
		changedTenant.Bootstrap = tenant.BootstrapFailed
		must(t, "fail", s.SaveTenant(t.Context(), fixture.owner, changedTenant))
		requireNotDue("with a failed bootstrap")
		must(t, "restore", s.SaveTenant(t.Context(), fixture.owner, stored))
		requireOrder(t, "with consent and bootstrap restored", dueTenantIDs(t, s, dueTime, 9), fixture.tenantID())
		// Tenants of suspended accounts stay due: their mailboxes must be unblocked.
		_, err = s.SetActive(t.Context(), fixture.owner, false)
		must(t, "suspend", err)
		requireOrder(t, "of a suspended account", dueTenantIDs(t, s, dueTime, 9), fixture.tenantID())
		claim := fixture.claim(t, s)
		must(t, "delete", s.DeleteTenant(t.Context(), fixture.owner, fixture.guid, nil))
		requireNotDue("after its deletion")
		requireLeaseHeld(t, "renew", false)(s.RenewTenantLease(t.Context(), claim, longLease))
		requireLeaseHeld(t, "release", false)(s.ReleaseTenant(t.Context(), claim, dueTime))
	})
}

func TestTenantCanBeClaimedOnlyForAccountThatHoldsIt(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		asBob := fixture
		asBob.owner = newAccount(t, s, "bob")
		asBob.requireNotClaimed(t, "a tenant of another account", s, dueTime)
		claimAsBob := fixture.claim(t, s)
		claimAsBob.Account = asBob.owner
		requireLeaseHeld(t, "renew", false)(s.RenewTenantLease(t.Context(), claimAsBob, longLease))
		requireLeaseHeld(t, "counts", false)(s.SaveCounts(t.Context(), claimAsBob, ports.SendCounts{Today: dayStart, At: dueTime, Mark: dueTime}))
		requireLeaseHeld(t, "changes", false)(s.SaveChanges(t.Context(), claimAsBob, doneChanges(fixture.blockChange(0, 1))))
		if n := len(fixture.listBoxes(t, s, claimAsBob)); n != 0 {
			t.Fatalf("%d mailboxes of another account are listed, want none", n)
		}
	})
}

// limitSetters returns the two ways to change a limit of a tenant, keyed by name.
func limitSetters(t testing.TB, s *Store, fixture sendLimitFixture) map[string]func(ctx context.Context, owner access.AccountID, perDay int, at time.Time) error {
	policy := setPolicy(t, s, fixture.owner, fixture.guid, sendlimit.TenantWide, 20)
	return map[string]func(context.Context, access.AccountID, int, time.Time) error{
		"policy": func(ctx context.Context, owner access.AccountID, perDay int, at time.Time) error {
			policy.PerDay, policy.UpdatedAt = perDay, at
			return savePolicy(ctx, s, owner, policy)
		},
		"mailbox": func(ctx context.Context, owner access.AccountID, perDay int, at time.Time) error {
			return s.SetSendLimit(ctx, owner, fixture.boxes[0].ID, perDay, at)
		},
	}
}

// TestLimitIsStoredTogetherWithDueTimeOfItsTenant cancels the caller's context between the
// statement for the limit and the statement for the due time.
func TestLimitIsStoredTogetherWithDueTimeOfItsTenant(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		hook := &cancelBefore{}
		s := migratedStore(t, url(t), hook)
		fixture := newSendLimitFixture(t, s, "ann", 1)
		setters := limitSetters(t, s, fixture)
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), fixture.claim(t, s), dueTime.Add(time.Hour)))
		for _, setLimit := range setters {
			hook.cutOff(t, `UPDATE "send_tenants"`, func(ctx context.Context) error { return setLimit(ctx, fixture.owner, 3, dueTime) })
		}
		if got := listPolicies(t, s, fixture.owner, fixture.guid)[0].PerDay; got != 20 {
			t.Fatalf("the limit of the policy is %d, want 20", got)
		}
		if got := findMailbox(t, s, fixture.owner, fixture.boxes[0].Address).DailySendLimit; got != 0 {
			t.Fatalf("the limit of the mailbox is %d, want 0", got)
		}
	})
}

func TestTenantWhoseLimitsChangeIsDueAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture, bob := newSendLimitFixture(t, s, "ann", 1), newSendLimitFixture(t, s, "bob", 2)
		setPolicy(t, s, fixture.owner, fixture.guid, "a.test", 7) // this limit does not change
		nextPass := dueTime.Add(30 * time.Minute)
		for _, otherTenant := range []sendLimitFixture{bob, addSendLimitTenant(t, s, fixture.owner, 3)} {
			requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), otherTenant.claim(t, s), nextPass))
		}
		changedAt := dueTime
		for label, setLimit := range limitSetters(t, s, fixture) {
			claim, isClaimed, err := s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, nextPass.Add(time.Hour))
			if err != nil || !isClaimed {
				t.Fatalf("the tenant was not claimed: %v", err)
			}
			requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, nextPass))
			if setLimit(t.Context(), bob.owner, 3, changedAt) == nil {
				t.Fatalf("%s: a different account set the limit, want a refusal", label)
			}
			requireOrder(t, label+" not changed", dueTenantIDs(t, s, changedAt, 9))
			must(t, label, setLimit(t.Context(), fixture.owner, 3, changedAt))
			requireOrder(t, label+" before", dueTenantIDs(t, s, changedAt.Add(-time.Microsecond), 9))
			requireOrder(t, label, dueTenantIDs(t, s, changedAt, 9), fixture.tenantID())
			requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), fixture.claim(t, s), nextPass))
			must(t, label+" again", setLimit(t.Context(), fixture.owner, 3, changedAt))
			requireOrder(t, label+" as it was", dueTenantIDs(t, s, changedAt, 9))
		}
	})
}

func TestTenantThatIsAlreadyDueKeepsItsDueTimeWhenItsLimitsChange(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		setters := limitSetters(t, s, fixture)
		dueSince := dueTime.Add(time.Minute)
		requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), fixture.claim(t, s), dueSince))
		for label, setLimit := range setters {
			must(t, label, setLimit(t.Context(), fixture.owner, 3, dueSince.Add(time.Hour)))
			due, err := s.DueTenants(t.Context(), dueSince.Add(2*time.Hour), 9)
			if must(t, "list", err); len(due) != 1 || !due[0].At.Equal(dueSince.Truncate(time.Microsecond)) {
				t.Fatalf("%s: the due tenants are %+v, want one, due since %s", label, due, dueSince)
			}
		}
	})
}

func TestTenantWhoseLimitsChangeDuringPassIsDueRightAfterIt(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		nextPass := dueTime.Add(30 * time.Minute)
		perDay := 3
		for label, setLimit := range limitSetters(t, s, fixture) {
			for _, at := range []time.Time{dueTime, dueTime.Add(time.Second), now} {
				claim := fixture.claim(t, s)
				requireOrder(t, label+" leased", dueTenantIDs(t, s, nextPass, 9))
				for range 2 { // a second change with the same time
					perDay++
					must(t, label, setLimit(t.Context(), fixture.owner, perDay, at))
				}
				requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, nextPass))
				requireOrder(t, label, dueTenantIDs(t, s, dueTime.Add(time.Second), 9), fixture.tenantID())
				claim = fixture.claim(t, s)
				must(t, label+" as it was", setLimit(t.Context(), fixture.owner, perDay, at))
				requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, dueTime))
			}
			requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), fixture.claim(t, s), nextPass))
			requireOrder(t, "nothing changed", dueTenantIDs(t, s, nextPass.Add(-time.Microsecond), 9))
			claim, _, err := s.ClaimTenant(t.Context(), fixture.owner, fixture.guid, longLease, nextPass)
			must(t, "claim", err)
			requireLeaseHeld(t, "release", true)(s.ReleaseTenant(t.Context(), claim, dueTime))
		}
	})
}
