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
		at    time.Time
		place *time.Location
		hours float64
	}{
		{noon, time.UTC, 24},
		{time.Date(2026, 3, 29, 10, 0, 0, 0, time.UTC), berlin, 23},
		{time.Date(2026, 10, 25, 10, 0, 0, 0, time.UTC), berlin, 25},
	} {
		day := sendlimit.DayOf(tt.at, tt.place)
		if !day.Has(tt.at) || day.Has(day.End) || !day.Has(day.Start) || day.End.Sub(day.Start).Hours() != tt.hours {
			t.Errorf("%s: %+v", tt.at, day)
		}
	}
}

func TestWhatCounts(t *testing.T) {
	r := sendlimit.Reading{From: noon.Add(-24 * time.Hour), To: noon, Sent: []sendlimit.Sent{
		{Message: "1", Sender: "Ada@a.test", At: noon},
		{Message: "1", Sender: "ada@a.test", At: noon}, // its second recipient
		{Message: "2", Sender: "ada@a.test", At: noon, Refused: true},
		{Message: "3", Sender: "ada@a.test", At: today.Start.Add(-time.Second)},
		{Message: "4", Sender: "bob@a.test", At: noon},
		{Message: "5", Sender: "ada@a.test", At: noon.Add(-7 * time.Hour)},
		{Message: "6", Sender: "ada@a.test", At: noon.Add(-25 * time.Hour)}, // before what was asked for
	}}
	tally := r.Tally(time.UTC)
	if got := tally.After(sendlimit.Count{Day: today.Start}, "ADA@a.test"); got != (sendlimit.Count{Day: today.Start, Settled: 1, Recent: 1}) {
		t.Errorf("today %+v", got)
	}
	if got := tally.After(sendlimit.Count{Day: today.Start.Add(-24 * time.Hour), Settled: 2}, "ada@a.test"); got.Total() != 3 {
		t.Errorf("yesterday %+v", got)
	}
	if got := tally.After(sendlimit.Count{Day: today.Start, Settled: 5, Recent: 3}, "cyd@a.test"); got.Total() != 8 {
		t.Errorf("a count fell to %+v", got)
	}
}

// TestCountsOfALateTrace: however a trace comes, late, doubled and out of order,
// and however often it is read, each message counts once, on its day, and no
// count falls on the way.
func TestCountsOfALateTrace(t *testing.T) {
	type row struct {
		sendlimit.Sent

		shown time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		begin := today.Start.Add(-30 * time.Hour)
		var rows []row
		want := map[string]map[time.Time]int{}
		for n := range rapid.IntRange(0, 60).Draw(t, "messages") {
			s := sendlimit.Sent{Message: fmt.Sprint(n), Sender: rapid.SampledFrom([]string{"ada@a.test", "bob@a.test"}).Draw(t, "sender"),
				At: begin.Add(time.Duration(rapid.IntRange(0, 50*60).Draw(t, "minute")) * time.Minute)}
			for range rapid.IntRange(1, 3).Draw(t, "rows") {
				rows = append(rows, row{s, s.At.Add(time.Duration(rapid.IntRange(0, 5*60+59).Draw(t, "late")) * time.Minute)})
			}
			day := sendlimit.DayOf(s.At, time.UTC).Start
			if want[s.Sender] == nil {
				want[s.Sender] = map[time.Time]int{}
			}
			want[s.Sender][day]++
		}
		counts := map[string]map[time.Time]sendlimit.Count{"ada@a.test": {}, "bob@a.test": {}}
		mark, at := begin, begin
		for end := begin.Add(60 * time.Hour); at.Before(end); {
			at = at.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "pause")) * time.Minute)
			r := sendlimit.Reading{From: mark, To: at}
			for _, one := range rows {
				if !one.shown.After(at) && !one.At.Before(mark) {
					r.Sent = append(r.Sent, one.Sent)
				}
			}
			slices.SortFunc(r.Sent, func(a, b sendlimit.Sent) int { return cmp.Compare(b.At.Unix(), a.At.Unix()) })
			tally := r.Tally(time.UTC)
			for sender := range counts {
				for day := sendlimit.DayOf(begin, time.UTC).Start; day.Before(end); day = day.Add(24 * time.Hour) {
					before := counts[sender][day]
					before.Day = day
					after := tally.After(before, sender)
					if after.Total() < before.Total() || after.Total() > want[sender][day] {
						t.Fatalf("%s on %s: %d after %d, of %d", sender, day, after.Total(), before.Total(), want[sender][day])
					}
					counts[sender][day] = after
				}
			}
			mark = r.Mark()
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
