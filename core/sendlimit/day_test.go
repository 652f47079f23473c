// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"testing"
	"time"
	_ "time/tzdata" // time zones that the machine may lack

	"github.com/tenantry/tenantry/core/sendlimit"
)

func TestDayLengthsFollowClockChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		at        time.Time
		location  *time.Location
		wantHours float64
	}{
		{noon, time.UTC, 24},
		{time.Date(2026, 3, 29, 10, 0, 0, 0, time.UTC), berlin, 23},
		{time.Date(2026, 10, 25, 10, 0, 0, 0, time.UTC), berlin, 25},
	} {
		day := sendlimit.DayOf(tc.at, tc.location)
		if !day.Contains(tc.at) || day.Contains(day.End) || !day.Contains(day.Start) || day.End.Sub(day.Start).Hours() != tc.wantHours {
			t.Errorf("%s: got %+v, want a day of %v hours", tc.at, day, tc.wantHours)
		}
	}
}

func loadZone(t *testing.T, zone string) *time.Location {
	t.Helper()
	location, err := sendlimit.TimeZone(zone)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// TestDaysAreContiguous checks that each moment is in exactly one day, and that each day starts
// where the previous one ends. It covers time zones where midnight is skipped or occurs twice, and
// one that skipped a date.
func TestDaysAreContiguous(t *testing.T) {
	for zone, years := range map[string][]int{
		"UTC": {2026}, "Europe/Berlin": {2026}, "America/St_Johns": {2010, 2026}, "Pacific/Apia": {2011}, "Asia/Kathmandu": {2026},
		"Atlantic/Azores": {2026, 2027}, "America/Scoresbysund": {2026, 2027}, "America/Havana": {2026, 2027},
		"America/Santiago": {2026, 2027}, "America/Asuncion": {2023}, "Asia/Gaza": {2026, 2027}, "Asia/Beirut": {2026, 2027},
		"Africa/Cairo": {2026, 2027}, "Africa/Casablanca": {2026}, "Australia/Lord_Howe": {2026}, "Pacific/Kiritimati": {2026}, "Pacific/Chatham": {2026},
	} {
		location := loadZone(t, zone)
		for _, year := range years {
			var day sendlimit.Day
			for at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == year; at = at.Add(30 * time.Minute) {
				previous := day
				day = sendlimit.DayOf(at, location)
				if !day.Contains(at) || day.Contains(day.End) || !day.Contains(day.Start) {
					t.Fatalf("%s: the day of %s is %+v, want a day that contains this moment and its Start, but not its End", zone, at, day)
				}
				if next := sendlimit.DayOf(day.End, location); !next.Start.Equal(day.End) || !next.End.After(next.Start) {
					t.Fatalf("%s: %+v is followed by %+v, want a day that starts at the end of the earlier day", zone, day, next)
				}
				if !previous.Start.IsZero() && previous != day && previous.End != day.Start {
					t.Fatalf("%s: %+v does not start at the end of the previous day %+v", zone, day, previous)
				}
			}
		}
	}
}

func TestDayBoundariesFollowTheTimeZone(t *testing.T) {
	for name, tc := range map[string]struct{ zone, at, wantStart, wantEnd string }{
		"the clock skips midnight":   {"Atlantic/Azores", "2027-03-28T10:00:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"},
		"the day before":             {"Atlantic/Azores", "2027-03-28T00:30:00Z", "2027-03-27T01:00:00Z", "2027-03-28T01:00:00Z"},
		"midnight occurs twice":      {"America/Havana", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		"the last hour occurs twice": {"America/Santiago", "2026-04-05T03:30:00Z", "2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z"},
		"a date recurs":              {"America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		"a date is skipped":          {"Pacific/Apia", "2011-12-30T12:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
	} {
		moment, err := time.Parse(time.RFC3339, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		day := sendlimit.DayOf(moment, loadZone(t, tc.zone))
		if start, end := day.Start.Format(time.RFC3339), day.End.Format(time.RFC3339); start != tc.wantStart || end != tc.wantEnd {
			t.Errorf("%s: the day is from %s to %s, want %s to %s", name, start, end, tc.wantStart, tc.wantEnd)
		}
	}
}

func TestTimeZoneAcceptsOnlyIANANames(t *testing.T) {
	for _, name := range []string{"UTC", "Europe/Berlin", "America/St_Johns"} {
		if location, err := sendlimit.TimeZone(name); err != nil || location.String() != name {
			t.Errorf("%s: got %v, %v; want this time zone", name, location, err)
		}
	}
	for _, name := range []string{"", "Local", "Mars/Olympus", "../etc/passwd", "localtime", "right/UTC", "posix/UTC"} {
		if _, err := sendlimit.TimeZone(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}
