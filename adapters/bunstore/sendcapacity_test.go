// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// readSending returns the licences of the tenant, and what it sent on the day of the time at.
func (fixture sendLimitFixture) readSending(t testing.TB, s *Store, at time.Time) tenant.Sending {
	t.Helper()
	sending, err := s.Sending(t.Context(), fixture.owner, fixture.guid, at)
	must(t, "sending", err)
	return sending
}

func (fixture sendLimitFixture) requireSending(t testing.TB, s *Store, want tenant.Sending) {
	t.Helper()
	if got := fixture.readSending(t, s, dueTime); got != want {
		t.Fatalf("Sending returned %+v, want %+v", got, want)
	}
}

func TestLicencesOfLatestReadAreKept(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		const beyondInt32 = 4 << 30
		fixture := newSendLimitFixture(t, s, "ann", 1)
		fixture.requireSending(t, s, tenant.Sending{})
		for _, read := range []struct {
			licenses tenant.Licenses
			after    time.Duration // from now
			want     tenant.Sending
		}{
			{tenant.Licenses{Paid: 25, Trial: 5, RecipientLimit: 7}, 0, tenant.Sending{Licenses: tenant.Licenses{Paid: 25, Trial: 5, RecipientLimit: 7}, LicensesAt: now}},
			{tenant.Licenses{Paid: 1, RecipientLimit: beyondInt32}, time.Hour, tenant.Sending{Licenses: tenant.Licenses{Paid: 1, RecipientLimit: beyondInt32}, LicensesAt: now.Add(time.Hour)}},
			{tenant.Licenses{Paid: 9, RecipientLimit: 9}, time.Minute, tenant.Sending{Licenses: tenant.Licenses{Paid: 1, RecipientLimit: beyondInt32}, LicensesAt: now.Add(time.Hour)}},
			{tenant.Licenses{}, 2 * time.Hour, tenant.Sending{LicensesAt: now.Add(2 * time.Hour)}},
		} {
			must(t, "save", s.SaveLicenses(t.Context(), fixture.owner, fixture.guid, read.licenses, now.Add(read.after)))
			fixture.requireSending(t, s, read.want)
		}
	})
}

// TestMigrationComputesTheLimitOfStoredLicences migrates a database in which an earlier release
// stored licences without a limit of recipients. With paid licences, the migration computes the
// limit 500 * paid^0.7 + 9500.
func TestMigrationComputesTheLimitOfStoredLicences(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		n := 0
		for paid, want := range map[int]int{0: 5000, 1: 10000, 25: 14259, 100_000: 1590639} {
			n++
			fixture := newSendLimitFixture(t, s, fmt.Sprint("ann", n), n)
			must(t, "save", s.SaveLicenses(t.Context(), fixture.owner, fixture.guid, tenant.Licenses{Paid: paid}, now))
			for _, statement := range []string{"DELETE FROM recipient_limits", "DELETE FROM bun_migrations"} {
				_, err := s.db.ExecContext(withoutStatementCollection(t.Context()), statement)
				must(t, statement, err)
			}
			must(t, "migrate", s.Migrate(withoutStatementCollection(t.Context())))
			fixture.requireSending(t, s, tenant.Sending{Licenses: tenant.Licenses{Paid: paid, RecipientLimit: want}, LicensesAt: now})
		}
	})
}

func TestTenantThatIsSavedOrConnectedAgainKeepsItsLicences(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		licenses := tenant.Licenses{Paid: 25, RecipientLimit: 7}
		must(t, "save", s.SaveLicenses(t.Context(), fixture.owner, fixture.guid, licenses, now))
		stored, err := s.Tenant(t.Context(), fixture.owner, fixture.guid)
		must(t, "tenant", err)
		must(t, "save tenant", s.SaveTenant(t.Context(), fixture.owner, stored))
		_, err = s.Attach(t.Context(), fixture.owner, stored)
		must(t, "attach", err)
		fixture.requireSending(t, s, tenant.Sending{Licenses: licenses, LicensesAt: now})
	})
}

func TestCountsOfAllMailboxesOnCurrentDayAreSummed(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		otherTenant := addSendLimitTenant(t, s, fixture.owner, 2)
		fixture.saveCounts(t, s, fixture.claim(t, s), 7)
		fixture.requireSending(t, s, tenant.Sending{SentToday: 14, CountedAt: dueTime.UTC().Truncate(time.Microsecond)})
		otherTenant.requireSending(t, s, tenant.Sending{})
		for name, moment := range map[string]time.Time{
			"the day before": dayStart.Add(-time.Microsecond), "the day after": dayStart.Add(24 * time.Hour),
		} {
			if got := fixture.readSending(t, s, moment); got.SentToday != 0 || !got.CountedAt.IsZero() {
				t.Fatalf("on %s: Sending returned %+v, want no count", name, got)
			}
		}
		if got := fixture.readSending(t, s, dayStart.Add(24*time.Hour-time.Microsecond)).SentToday; got != 14 {
			t.Fatalf("just before the end of the day, %d messages are counted, want 14", got)
		}
	})
}

func TestCountsOfEarlierDayAreNotCountedToday(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		fixture.saveCounts(t, s, claim, 7)
		nextDay := dayStart.Add(24 * time.Hour)
		requireLeaseHeld(t, "save counts", true)(s.SaveCounts(t.Context(), claim, ports.SendCounts{
			Today: nextDay, At: nextDay.Add(time.Hour), Mark: nextDay,
			ByMailbox: map[string][]sendlimit.Count{fixture.boxes[0].ID: {{Day: nextDay, Recent: 3}}},
		}))
		if got := fixture.readSending(t, s, nextDay.Add(2*time.Hour)); got.SentToday != 3 || !got.CountedAt.Equal(nextDay.Add(time.Hour)) {
			t.Fatalf("Sending returned %+v, want 3 messages, counted an hour after the day began", got)
		}
		requireLeaseHeld(t, "save counts", true)(s.SaveCounts(t.Context(), claim, ports.SendCounts{
			Today: nextDay, At: nextDay.Add(2 * time.Hour), Mark: nextDay,
			ByMailbox: map[string][]sendlimit.Count{fixture.boxes[1].ID: {{Day: nextDay}}},
		}))
		if got := fixture.readSending(t, s, nextDay.Add(3*time.Hour)); got.SentToday != 3 || !got.CountedAt.Equal(nextDay.Add(time.Hour)) {
			t.Fatalf("Sending returned %+v, want 3 messages and the time of the older of the two counts", got)
		}
	})
}

func TestSummedDayIsInTimeZoneOfTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		_, err := s.SetTimeZone(t.Context(), fixture.guid, "Pacific/Auckland")
		must(t, "set time zone", err)
		fixture.saveCounts(t, s, fixture.claim(t, s), 7)
		auckland, err := sendlimit.TimeZone("Pacific/Auckland")
		must(t, "load the time zone", err)
		day := sendlimit.DayOf(dueTime, auckland)
		if within, after := fixture.readSending(t, s, day.End.Add(-time.Second)).SentToday, fixture.readSending(t, s, day.End).SentToday; within != 14 || after != 0 {
			t.Fatalf("%d messages are counted within the day, want 14, and %d after it, want 0", within, after)
		}
	})
}

func TestSendingOfForeignTenantGetsTheSameAnswerAsUnknownOne(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		bob := newAccount(t, s, "bob")
		foreignErr := s.SaveLicenses(t.Context(), bob, fixture.guid, tenant.Licenses{Paid: 9}, now)
		requireRefusal(t, "save", foreignErr, fault.TenantNotFound)
		requireSameError(t, "save", foreignErr, s.SaveLicenses(t.Context(), fixture.owner, unknownGUID, tenant.Licenses{Paid: 9}, now))
		_, foreignErr = s.Sending(t.Context(), bob, fixture.guid, dueTime)
		requireRefusal(t, "sending", foreignErr, fault.TenantNotFound)
		_, unknownErr := s.Sending(t.Context(), fixture.owner, unknownGUID, dueTime)
		requireSameError(t, "sending", foreignErr, unknownErr)
		fixture.requireSending(t, s, tenant.Sending{})
	})
}

func TestLicencesAreDeletedWithTheirTenant(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		must(t, "save", s.SaveLicenses(t.Context(), fixture.owner, fixture.guid, tenant.Licenses{Paid: 9}, now))
		must(t, "delete", s.DeleteTenant(t.Context(), fixture.owner, fixture.guid, nil))
		requireRefusal(t, "save", s.SaveLicenses(t.Context(), fixture.owner, fixture.guid, tenant.Licenses{Paid: 9}, now), fault.TenantNotFound)
		attachTenant(t, s, fixture.owner, 1)
		fixture.requireSending(t, s, tenant.Sending{})
	})
}
