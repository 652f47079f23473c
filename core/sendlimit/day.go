// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"time"

	"github.com/tenantry/tenantry/core/fault"
)

// Day is one of a tenant's days, from midnight to midnight where it lives.
type Day struct {
	Start, End time.Time
}

// DayOf is the day at a place in which a moment lies. Days with a change of the
// clock are shorter or longer than others. A day begins when its date is first
// reached, so days lie end to end: where midnight is left out it begins later,
// and where a date comes again after the next began, that is still the next.
func DayOf(at time.Time, place *time.Location) Day {
	year, month, date := at.In(place).Date()
	start, end := begin(year, month, date, place), begin(year, month, date+1, place)
	if at.Before(end) {
		return Day{start, end}
	}
	return Day{end, begin(year, month, date+2, place)}
}

// begin is the first moment at a place at which a date is reached. time.Date
// does not tell it where midnight is left out, or comes twice.
func begin(year int, month time.Month, date int, place *time.Location) time.Time {
	midnight := time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
	for at := midnight.Add(-48 * time.Hour).In(place); ; {
		_, offset := at.Zone()
		first := midnight.Add(-time.Duration(offset) * time.Second)
		if first.Before(at) {
			first = at
		}
		_, end := at.ZoneBounds()
		if end.IsZero() || first.Before(end) {
			return first.UTC()
		}
		at = end
	}
}

// Has reports whether a moment lies in the day.
func (d Day) Has(at time.Time) bool { return !at.Before(d.Start) && at.Before(d.End) }

// UsualPlace is where the days of a tenant are that nobody said anything else
// of.
const UsualPlace = "UTC"

// Place finds a place by the IANA name of its time zone. Refusal:
// invalid_request.
func Place(name string) (*time.Location, error) {
	place, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fault.InvalidRequest.With("a time zone has a name like UTC or Europe/Berlin")
	}
	return place, nil
}
