// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestTallyCountsEachMessageOnce(t *testing.T) {
	yesterday := sendlimit.DayOf(noon.Add(-24*time.Hour), time.UTC)
	reading := sendlimit.Readings(noon.Add(-24*time.Hour), today.Start.Add(time.Hour), time.UTC)[0]
	reading.Sent = []sendlimit.Sent{
		{Message: "1", Sender: "Ada@a.test", At: today.Start},
		{Message: "1", Sender: "ada@a.test", At: today.Start}, // the row of a second recipient
		{Message: "2", Sender: "ada@a.test", At: today.Start, Refused: true},
		{Message: "3", Sender: "ada@a.test", At: today.Start.Add(-time.Second)},
		{Message: "4", Sender: "bob@a.test", At: today.Start},
		{Message: "5", Sender: "ada@a.test", At: reading.Mark.Add(-time.Second)},
		{Message: "6", Sender: "ada@a.test", At: noon.Add(-25 * time.Hour)}, // before the reading
		{Message: "7", Sender: "ada@a.test", At: today.End},
	}
	tally := reading.Tally()
	for _, tc := range []struct {
		name    string
		before  sendlimit.Count
		address string
		want    sendlimit.Count
	}{
		{"a count of today", sendlimit.Count{Day: today.Start}, "ADA@a.test", sendlimit.Count{Day: today.Start, Recent: 1}},
		{"a count of today, which is counted again", sendlimit.Count{Day: today.Start, Final: 1}, "ada@a.test", sendlimit.Count{Day: today.Start, Recent: 1}},
		{"a count of yesterday", sendlimit.Count{Day: yesterday.Start, Final: 2, Recent: 2}, "ada@a.test", sendlimit.Count{Day: yesterday.Start, Final: 3, Recent: 1}},
		{"a mailbox without new messages", sendlimit.Count{Day: today.Start, Final: 5, Recent: 3}, "cyd@a.test", sendlimit.Count{Day: today.Start, Recent: 8}},
	} {
		if got := tally.CountAfter(tc.before, tc.address); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

func TestReadingsCoverTheUncountedTime(t *testing.T) {
	hour := func(h int) time.Time { return today.Start.Add(time.Duration(h) * time.Hour) }
	never := time.Time{}
	type reading struct {
		from, to, mark time.Time
		days           int // the number of days that the reading covers
	}
	for _, tc := range []struct {
		name      string
		mark, now time.Time
		want      []reading
	}{
		{"never read", never, hour(12), []reading{{hour(0), hour(12), hour(0), 1}}},
		{"never read, at midnight", never, hour(0), []reading{{hour(0), hour(0), hour(0), 1}}},
		{"within a day", hour(0), hour(23), []reading{{hour(0), hour(23), hour(0), 1}}},
		{"the first reading after midnight", hour(-24), hour(1), []reading{{hour(0), hour(1), never, 1}, {hour(-24), hour(0), hour(-5), 1}}},
		{"before the previous day is final", hour(-6), hour(1), []reading{{hour(-6), hour(1), hour(-5), 2}}},
		{"after the previous day is final", hour(-1), hour(6), []reading{{hour(0), hour(6), never, 1}, {hour(-1), hour(0), hour(0), 1}}},
		{"after a gap", hour(-70), hour(12), []reading{
			{hour(0), hour(12), never, 1},
			{hour(-70), hour(-48), hour(-48), 1}, {hour(-48), hour(-24), hour(-24), 1}, {hour(-24), hour(0), hour(0), 1},
		}},
		{"after a gap, before the previous day is final", hour(-25), hour(1), []reading{
			{hour(0), hour(1), never, 1},
			{hour(-25), hour(-24), hour(-24), 1}, {hour(-24), hour(0), hour(-5), 1},
		}},
		{"a mark hours ahead by clock skew", hour(11), hour(12), []reading{{hour(0), hour(12), hour(0), 1}}},
		{"a mark a month ahead by clock skew", hour(30 * 24), hour(12), []reading{{hour(0), hour(12), hour(0), 1}}},
	} {
		var got []reading
		for _, r := range sendlimit.Readings(tc.mark, tc.now, time.UTC) {
			got = append(got, reading{r.From, r.To, r.Mark, len(r.Days)})
			if !r.Days[0].Contains(r.From) {
				t.Errorf("%s: the first day does not contain From: %+v", tc.name, r)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %+v, want %+v", tc.name, got, tc.want)
		}
	}
	afterLongGap := sendlimit.Readings(hour(-1000), hour(12), time.UTC)
	if len(afterLongGap) != 10 || !afterLongGap[1].From.Equal(hour(12-9*24)) || !afterLongGap[1].To.Equal(hour(-8*24)) {
		t.Errorf("after a long gap: got %+v, want 10 readings that go back 9 days", afterLongGap)
	}
}

// TestCountsMatchLateTrace reads a trace that lists the newest rows first and repeats rows. Rows
// appear late: at any time on the day of the message, or later but less than MaxTraceDelay after
// the message. Each message counts once, on its day, and no count decreases.
func TestCountsMatchLateTrace(t *testing.T) {
	type row struct {
		sendlimit.Sent

		visibleAt time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		start := today.Start.Add(-30 * time.Hour)
		var rows []row
		wantCounts := map[string]map[time.Time]int{}
		for n := range rapid.IntRange(0, 60).Draw(t, "messages") {
			sent := sendlimit.Sent{Message: fmt.Sprint(n), Sender: rapid.SampledFrom([]string{"ada@a.test", "bob@a.test"}).Draw(t, "sender"),
				At: start.Add(time.Duration(rapid.IntRange(0, 50*60).Draw(t, "minute")) * time.Minute)}
			day := sendlimit.DayOf(sent.At, time.UTC)
			for range rapid.IntRange(1, 3).Draw(t, "rows") {
				visibleAt := sent.At.Add(time.Duration(rapid.IntRange(0, 24*60).Draw(t, "late")) * time.Minute)
				if latest := sent.At.Add(sendlimit.MaxTraceDelay - time.Minute); !day.Contains(visibleAt) && visibleAt.After(latest) {
					visibleAt = latest
				}
				rows = append(rows, row{sent, visibleAt})
			}
			if wantCounts[sent.Sender] == nil {
				wantCounts[sent.Sender] = map[time.Time]int{}
			}
			wantCounts[sent.Sender][day.Start]++
		}
		counts := map[string]map[time.Time]sendlimit.Count{"ada@a.test": {}, "bob@a.test": {}}
		mark, readAt := start, start
		for endOfTrace := start.Add(60 * time.Hour); readAt.Before(endOfTrace); {
			readAt = readAt.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "pause")) * time.Minute)
			for _, reading := range sendlimit.Readings(mark, readAt, time.UTC) {
				for _, row := range rows {
					if !row.visibleAt.After(readAt) && !row.At.Before(reading.From) && row.At.Before(reading.To) {
						reading.Sent = append(reading.Sent, row.Sent)
					}
				}
				slices.SortFunc(reading.Sent, func(a, b sendlimit.Sent) int { return cmp.Compare(b.At.Unix(), a.At.Unix()) })
				tally := reading.Tally()
				for sender := range counts {
					for _, day := range reading.Days {
						before := counts[sender][day.Start]
						before.Day = day.Start
						after := tally.CountAfter(before, sender)
						if after.Total() < before.Total() || after.Total() > wantCounts[sender][day.Start] {
							t.Fatalf("%s on %s: the count changes from %d to %d, although %d messages were sent", sender, day, before.Total(), after.Total(), wantCounts[sender][day.Start])
						}
						counts[sender][day.Start] = after
					}
				}
				if !reading.Mark.IsZero() {
					mark = reading.Mark
				}
			}
		}
		for sender, days := range counts {
			for day, c := range days {
				if c.Total() != wantCounts[sender][day] {
					t.Fatalf("%s on %s: counted %d messages, want %d", sender, day, c.Total(), wantCounts[sender][day])
				}
			}
		}
	})
}

func TestExceededAtIsTheTimeOfTheFirstExcessMessage(t *testing.T) {
	at := func(minute int) time.Time { return noon.Add(time.Duration(minute) * time.Minute) }
	reading := sendlimit.Reading{From: noon, To: at(60), Sent: []sendlimit.Sent{
		{Message: "3", Sender: "Ada@a.test", At: at(30)},
		{Message: "1", Sender: "ada@a.test", At: at(10)},
		{Message: "1", Sender: "ada@a.test", At: at(11)}, // the row of a second recipient
		{Message: "2", Sender: "ada@a.test", At: at(20)},
		{Message: "4", Sender: "bob@a.test", At: at(1)},
		{Message: "5", Sender: "ada@a.test", At: at(5), Refused: true},
		{Message: "6", Sender: "ada@a.test", At: at(-1)}, // before the reading
		{Message: "7", Sender: "ada@a.test", At: today.End},
	}}
	for _, tc := range []struct {
		name  string
		limit int
		want  time.Time
	}{
		{"limit 1", 1, at(20)},
		{"limit 2", 2, at(30)},
		{"not exceeded", 3, time.Time{}},
	} {
		got, exceeded := reading.ExceededAt("ada@a.test", tc.limit, today)
		if !got.Equal(tc.want) || exceeded == tc.want.IsZero() {
			t.Errorf("%s: got %s, %t; want %s", tc.name, got, exceeded, tc.want)
		}
	}
}
