// SPDX-License-Identifier: Apache-2.0

package sendlimit_test

import (
	"testing"
	"time"
	_ "time/tzdata" // zones that the machine may lack

	"github.com/tenantry/tenantry/core/sendlimit"
)

func at(t *testing.T, zone string) *time.Location {
	t.Helper()
	location, err := sendlimit.Place(zone)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// TestDaysLieEndToEnd: each moment lies in one day, and where that ends the
// next begins, also where midnight is left out, or comes twice, or a whole date
// is left out.
func TestDaysLieEndToEnd(t *testing.T) {
	for zone, years := range map[string][]int{
		"UTC": {2026}, "Europe/Berlin": {2026}, "America/St_Johns": {2010, 2026}, "Pacific/Apia": {2011}, "Asia/Kathmandu": {2026},
		"Atlantic/Azores": {2026, 2027}, "America/Scoresbysund": {2026, 2027}, "America/Havana": {2026, 2027},
		"America/Santiago": {2026, 2027}, "America/Asuncion": {2023}, "Asia/Gaza": {2026, 2027}, "Asia/Beirut": {2026, 2027},
		"Africa/Cairo": {2026, 2027}, "Africa/Casablanca": {2026}, "Australia/Lord_Howe": {2026}, "Pacific/Kiritimati": {2026}, "Pacific/Chatham": {2026},
	} {
		location := at(t, zone)
		for _, year := range years {
			var day sendlimit.Day
			for at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() == year; at = at.Add(30 * time.Minute) {
				was := day
				day = sendlimit.DayOf(at, location)
				if !day.Has(at) || day.Has(day.End) || !day.Has(day.Start) {
					t.Fatalf("%s: the day of %s is %+v", zone, at, day)
				}
				if next := sendlimit.DayOf(day.End, location); !next.Start.Equal(day.End) || !next.End.After(next.Start) {
					t.Fatalf("%s: %+v is followed by %+v", zone, day, next)
				}
				if !was.Start.IsZero() && was != day && was.End != day.Start {
					t.Fatalf("%s: %+v comes after %+v", zone, day, was)
				}
			}
		}
	}
}

func TestWhereADayBegins(t *testing.T) {
	for name, tt := range map[string]struct{ zone, at, start, end string }{
		"midnight is left out":      {"Atlantic/Azores", "2027-03-28T10:00:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"},
		"the day before":            {"Atlantic/Azores", "2027-03-28T00:30:00Z", "2027-03-27T01:00:00Z", "2027-03-28T01:00:00Z"},
		"midnight comes twice":      {"America/Havana", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
		"the last hour comes twice": {"America/Santiago", "2026-04-05T03:30:00Z", "2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z"},
		"a date comes again":        {"America/St_Johns", "2010-11-07T03:00:00Z", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},
		"a date is left out":        {"Pacific/Apia", "2011-12-30T12:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},
	} {
		when, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		day := sendlimit.DayOf(when, at(t, tt.zone))
		if start, end := day.Start.Format(time.RFC3339), day.End.Format(time.RFC3339); start != tt.start || end != tt.end {
			t.Errorf("%s: from %s to %s", name, start, end)
		}
	}
}
