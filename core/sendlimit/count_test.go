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

func TestDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		at       time.Time
		location *time.Location
		hours    float64
	}{
		{noon, time.UTC, 24},
		{time.Date(2026, 3, 29, 10, 0, 0, 0, time.UTC), berlin, 23},
		{time.Date(2026, 10, 25, 10, 0, 0, 0, time.UTC), berlin, 25},
	} {
		day := sendlimit.DayOf(tt.at, tt.location)
		if !day.Has(tt.at) || day.Has(day.End) || !day.Has(day.Start) || day.End.Sub(day.Start).Hours() != tt.hours {
			t.Errorf("%s: %+v", tt.at, day)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	yesterday := sendlimit.DayOf(noon.Add(-24*time.Hour), time.UTC)
	r := sendlimit.Readings(noon.Add(-24*time.Hour), today.Start.Add(time.Hour), time.UTC)[0]
	r.Sent = []sendlimit.Sent{
		{Message: "1", Sender: "Ada@a.test", At: today.Start},
		{Message: "1", Sender: "ada@a.test", At: today.Start}, // its second recipient
		{Message: "2", Sender: "ada@a.test", At: today.Start, Refused: true},
		{Message: "3", Sender: "ada@a.test", At: today.Start.Add(-time.Second)},
		{Message: "4", Sender: "bob@a.test", At: today.Start},
		{Message: "5", Sender: "ada@a.test", At: r.Mark.Add(-time.Second)},
		{Message: "6", Sender: "ada@a.test", At: noon.Add(-25 * time.Hour)}, // before what was asked for
		{Message: "7", Sender: "ada@a.test", At: today.End},
	}
	tally := r.Tally()
	for _, tt := range []struct {
		name    string
		before  sendlimit.Count
		address string
		want    sendlimit.Count
	}{
		{"today", sendlimit.Count{Day: today.Start}, "ADA@a.test", sendlimit.Count{Day: today.Start, Recent: 1}},
		{"today, which is counted anew", sendlimit.Count{Day: today.Start, Settled: 1}, "ada@a.test", sendlimit.Count{Day: today.Start, Recent: 1}},
		{"yesterday", sendlimit.Count{Day: yesterday.Start, Settled: 2, Recent: 2}, "ada@a.test", sendlimit.Count{Day: yesterday.Start, Settled: 3, Recent: 1}},
		{"who sent nothing", sendlimit.Count{Day: today.Start, Settled: 5, Recent: 3}, "cyd@a.test", sendlimit.Count{Day: today.Start, Recent: 8}},
	} {
		if got := tally.After(tt.before, tt.address); got != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestWhatIsReadNext(t *testing.T) {
	hour := func(h int) time.Time { return today.Start.Add(time.Duration(h) * time.Hour) }
	never := time.Time{}
	type reading struct {
		from, to, mark time.Time
		days           int
	}
	for _, tt := range []struct {
		name      string
		mark, now time.Time
		want      []reading
	}{
		{"the first time", never, hour(12), []reading{{hour(0), hour(12), hour(0), 1}}},
		{"the first time, at midnight", never, hour(0), []reading{{hour(0), hour(0), hour(0), 1}}},
		{"within a day", hour(0), hour(23), []reading{{hour(0), hour(23), hour(0), 1}}},
		{"first after midnight", hour(-24), hour(1), []reading{{hour(0), hour(1), never, 1}, {hour(-24), hour(0), hour(-5), 1}}},
		{"by night", hour(-6), hour(1), []reading{{hour(-6), hour(1), hour(-5), 2}}},
		{"in the morning", hour(-1), hour(6), []reading{{hour(0), hour(6), never, 1}, {hour(-1), hour(0), hour(0), 1}}},
		{"after a gap", hour(-70), hour(12), []reading{
			{hour(0), hour(12), never, 1},
			{hour(-70), hour(-48), hour(-48), 1}, {hour(-48), hour(-24), hour(-24), 1}, {hour(-24), hour(0), hour(0), 1},
		}},
		{"after a gap, by night", hour(-25), hour(1), []reading{
			{hour(0), hour(1), never, 1},
			{hour(-25), hour(-24), hour(-24), 1}, {hour(-24), hour(0), hour(-5), 1},
		}},
		{"after a clock that was hours ahead", hour(11), hour(12), []reading{{hour(0), hour(12), hour(0), 1}}},
		{"after one that was a month ahead", hour(30 * 24), hour(12), []reading{{hour(0), hour(12), hour(0), 1}}},
	} {
		var got []reading
		for _, r := range sendlimit.Readings(tt.mark, tt.now, time.UTC) {
			got = append(got, reading{r.From, r.To, r.Mark, len(r.Days)})
			if !r.Days[0].Has(r.From) {
				t.Errorf("%s: %+v", tt.name, r)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	long := sendlimit.Readings(hour(-1000), hour(12), time.UTC)
	if len(long) != 10 || !long[1].From.Equal(hour(12-9*24)) || !long[1].To.Equal(hour(-8*24)) {
		t.Errorf("after a long gap: %+v", long)
	}
}

// TestCountsOfALateTrace: however a trace comes, doubled, out of order and late,
// by any time on its day and by six hours after it, and however often it is read, each message counts once, on its day, and no
// count falls on the way.
func TestCountsOfALateTrace(t *testing.T) {
	type row struct {
		sendlimit.Sent

		shown time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		startOfDate := today.Start.Add(-30 * time.Hour)
		var rows []row
		want := map[string]map[time.Time]int{}
		for n := range rapid.IntRange(0, 60).Draw(t, "messages") {
			s := sendlimit.Sent{Message: fmt.Sprint(n), Sender: rapid.SampledFrom([]string{"ada@a.test", "bob@a.test"}).Draw(t, "sender"),
				At: startOfDate.Add(time.Duration(rapid.IntRange(0, 50*60).Draw(t, "minute")) * time.Minute)}
			day := sendlimit.DayOf(s.At, time.UTC)
			for range rapid.IntRange(1, 3).Draw(t, "rows") {
				shown := s.At.Add(time.Duration(rapid.IntRange(0, 24*60).Draw(t, "late")) * time.Minute)
				if earliest := s.At.Add(sendlimit.Overlap - time.Minute); !day.Has(shown) && shown.After(earliest) {
					shown = earliest
				}
				rows = append(rows, row{s, shown})
			}
			if want[s.Sender] == nil {
				want[s.Sender] = map[time.Time]int{}
			}
			want[s.Sender][day.Start]++
		}
		counts := map[string]map[time.Time]sendlimit.Count{"ada@a.test": {}, "bob@a.test": {}}
		mark, at := startOfDate, startOfDate
		for end := startOfDate.Add(60 * time.Hour); at.Before(end); {
			at = at.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "pause")) * time.Minute)
			for _, r := range sendlimit.Readings(mark, at, time.UTC) {
				for _, one := range rows {
					if !one.shown.After(at) && !one.At.Before(r.From) && one.At.Before(r.To) {
						r.Sent = append(r.Sent, one.Sent)
					}
				}
				slices.SortFunc(r.Sent, func(a, b sendlimit.Sent) int { return cmp.Compare(b.At.Unix(), a.At.Unix()) })
				tally := r.Tally()
				for sender := range counts {
					for _, day := range r.Days {
						before := counts[sender][day.Start]
						before.Day = day.Start
						after := tally.After(before, sender)
						if after.Total() < before.Total() || after.Total() > want[sender][day.Start] {
							t.Fatalf("%s on %s: %d after %d, of %d", sender, day, after.Total(), before.Total(), want[sender][day.Start])
						}
						counts[sender][day.Start] = after
					}
				}
				if !r.Mark.IsZero() {
					mark = r.Mark
				}
			}
		}
		for sender, days := range counts {
			for day, c := range days {
				if c.Total() != want[sender][day] {
					t.Fatalf("%s on %s: %d of %d", sender, day, c.Total(), want[sender][day])
				}
			}
		}
	})
}
