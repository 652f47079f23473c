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
// clock are shorter or longer than others.
func DayOf(at time.Time, place *time.Location) Day {
	year, month, day := at.In(place).Date()
	return Day{time.Date(year, month, day, 0, 0, 0, 0, place).UTC(), time.Date(year, month, day+1, 0, 0, 0, 0, place).UTC()}
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
