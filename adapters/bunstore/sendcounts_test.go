// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

func TestCountsAreStoredByMailboxAndDay(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		must(t, "limit", s.SetSendLimit(t.Context(), fixture.owner, fixture.boxes[1].ID, 9, now))
		yesterday := dayStart.Add(-24 * time.Hour)
		counts := ports.SendCounts{Today: dayStart, At: dueTime, Mark: dayStart, ByMailbox: map[string][]sendlimit.Count{
			fixture.boxes[0].ID: {{Day: dayStart, Final: 3, Recent: 4}, {Day: yesterday, Final: 8}},
			unknownMailboxID:    {{Day: dayStart, Final: 3}},
		}}
		for range 2 {
			requireLeaseHeld(t, "save", true)(s.SaveCounts(t.Context(), claim, counts))
		}
		boxes, err := s.CountedMailboxes(t.Context(), claim, yesterday)
		must(t, "list", err)
		want := []ports.CountedMailbox{
			{MailboxState: sendlimit.MailboxState{ID: fixture.boxes[0].ID, Address: "ada@a.test", Domain: "a.test"}, Counts: []sendlimit.Count{{Day: yesterday, Final: 8}, {Day: dayStart, Final: 3, Recent: 4}}},
			{MailboxState: sendlimit.MailboxState{ID: fixture.boxes[1].ID, Address: "bob@a.test", Domain: "a.test", OwnLimit: 9}},
		}
		if diff := cmp.Diff(want, boxes); diff != "" {
			t.Fatalf("the counted mailboxes (-want +got):\n%s", diff)
		}
		if n := len(fixture.listBoxes(t, s, claim)[0].Counts); n != 1 {
			t.Fatalf("%d counts of the mailbox are listed from today on, want 1", n)
		}
		mailboxes, err := s.Mailboxes(t.Context(), fixture.owner, fixture.guid)
		must(t, "mailboxes", err)
		if mailboxes[0].SendsToday != 7 || !mailboxes[0].SendsTodayAt.Equal(dueTime.Truncate(time.Microsecond)) || mailboxes[1].SendsToday != 0 || !mailboxes[1].SendsTodayAt.IsZero() {
			t.Fatalf("the mailboxes are %+v, want 7 messages of the first mailbox and no count of the second mailbox", mailboxes)
		}
	})
}

// TestMailboxThatIsReservedAgainIsCounted checks a mailbox that a discovery missed and that a
// request then reserves again. The platform may still have the mailbox, so its messages count. A
// reservation of a new mailbox has no messages to count.
func TestMailboxThatIsReservedAgainIsCounted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		d, err := s.Domain(t.Context(), fixture.owner, fixture.guid, "a.test")
		must(t, "find domain", err)
		ada := fixture.boxes[0]
		ada.ObjectID = "object of ada"
		must(t, "save", s.SaveMailbox(t.Context(), fixture.owner, ada))
		fixture.saveCounts(t, s, claim, 7)
		discoverNoMailboxes(t, s, fixture.owner, fixture.guid, now.Add(time.Hour))
		_, err = s.ReserveMailboxes(t.Context(), fixture.owner, d.ID, mailboxSpecs(d, "ada", "new"), mailbox.MaxPerDomain, now.Add(2*time.Hour))
		must(t, "reserve", err)
		boxes := fixture.listBoxes(t, s, claim)
		if len(boxes) != 2 || boxes[0].ID != ada.ID || len(boxes[0].Counts) != 1 || boxes[1].ID != fixture.boxes[1].ID {
			t.Fatalf("the counted mailboxes are %+v, want ada and bob", boxes)
		}
		sending, err := s.Sending(t.Context(), fixture.owner, fixture.guid, dueTime)
		if must(t, "sending", err); sending.SentToday != 14 {
			t.Fatalf("the tenant sent %d messages, want 14", sending.SentToday)
		}
	})
}

func TestPartialCountIsNotShown(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		requireCount := func(label string, want sendlimit.Count) {
			t.Helper()
			if got := fixture.listBoxes(t, s, claim)[0]; len(got.Counts) != 1 || got.Counts[0] != want || got.StateOn(sendlimit.DayOf(dayStart, time.UTC)).Counted == want.Partial {
				t.Fatalf("%s: the mailbox is %+v, want only the count %+v, and Counted only if the count is complete", label, got, want)
			}
		}
		saveCount := func(today, mark time.Time, count sendlimit.Count) {
			t.Helper()
			counts := ports.SendCounts{Today: today, Mark: mark, At: dueTime, ByMailbox: map[string][]sendlimit.Count{fixture.boxes[0].ID: {count}}}
			requireLeaseHeld(t, "save", true)(s.SaveCounts(t.Context(), claim, counts))
		}
		partial := sendlimit.Count{Day: dayStart, Recent: 3, Partial: true}
		complete := sendlimit.Count{Day: dayStart, Recent: 3}
		for range 2 {
			saveCount(time.Time{}, time.Time{}, partial)
			requireCount("a partial count", partial)
		}
		mailboxes, err := s.Mailboxes(t.Context(), fixture.owner, fixture.guid)
		if must(t, "mailboxes", err); !mailboxes[0].SendsTodayAt.IsZero() {
			t.Fatalf("the mailbox is %+v, want it to show no count", mailboxes[0])
		}
		saveCount(dayStart, dayStart, complete)
		requireCount("a complete count", complete)
		complete.Recent++
		saveCount(time.Time{}, time.Time{}, complete)
		requireCount("a higher count", complete)
		if claim = fixture.takeOver(t, s, claim); !claim.Mark.Equal(dayStart) {
			t.Fatalf("the mark is %s, want %s: counts without a mark do not change it", claim.Mark, dayStart)
		}
	})
}

func TestCountsAreDeletedTwoDaysAfterMarkPassedThem(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newSendLimitFixture(t, s, "ann", 1)
		claim := fixture.claim(t, s)
		fixture.saveCounts(t, s, claim, 7)
		countDays := func() int {
			boxes, err := s.CountedMailboxes(t.Context(), claim, dayStart.Add(-240*time.Hour))
			must(t, "list", err)
			return len(boxes[0].Counts)
		}
		saveMark := func(label string, mark time.Time, wantDays int) {
			t.Helper()
			for range 2 { // a repeated save has the same result
				requireLeaseHeld(t, "save", true)(s.SaveCounts(t.Context(), claim, ports.SendCounts{Today: dayStart, At: dueTime, Mark: mark}))
			}
			if n := countDays(); n != wantDays {
				t.Fatalf("%s: counts of %d days are stored, want %d", label, n, wantDays)
			}
		}
		saveMark("the first mark deletes nothing, because the claim has no mark yet", dayStart.Add(48*time.Hour), 1)
		claim = fixture.takeOver(t, s, claim)
		saveMark("a fast clock moves the mark far ahead", dayStart.Add(1000*time.Hour), 1)
		claim.Mark = dayStart.Add(48*time.Hour + time.Microsecond)
		saveMark("both marks are more than two days after the start of the day", dayStart.Add(72*time.Hour), 0)
	})
}
