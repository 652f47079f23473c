// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"time"
	"unicode"

	"github.com/tenantry/tenantry/core/fault"
)

// Day is one day of a tenant, from midnight to midnight in the tenant's time zone, as UTC times.
type Day struct {
	Start, End time.Time
}

// DayOf returns the day in a time zone that contains a moment. A day starts when its date is first
// reached, so days never overlap and leave no gap. Days with a clock change are shorter or longer
// than 24 hours. If the clock skips midnight, the day starts after midnight. If the clock goes back
// over midnight, the repeated time belongs to the day that has already started.
func DayOf(at time.Time, location *time.Location) Day {
	year, month, date := at.In(location).Date()
	start, end := startOfDate(year, month, date, location), startOfDate(year, month, date+1, location)
	if at.Before(end) {
		return Day{start, end}
	}
	return Day{end, startOfDate(year, month, date+2, location)}
}

// startOfDate returns the first moment at which a time zone reaches a date, in UTC. time.Date with
// the location may return a different moment if midnight is skipped or occurs twice.
func startOfDate(year int, month time.Month, date int, location *time.Location) time.Time {
	midnight := time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
	for at := midnight.Add(-48 * time.Hour).In(location); ; {
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

// Contains reports whether the day contains a moment.
func (d Day) Contains(at time.Time) bool { return !at.Before(d.Start) && at.Before(d.End) }

// DefaultTimeZone is the time zone of a tenant for which the operator has set no time zone.
const DefaultTimeZone = "UTC"

// TimeZone returns the time zone with an IANA name. It fails with invalid_request for an unknown or
// empty name. It also fails for "Local", and for names of files that are not IANA names and begin
// with a small letter, such as localtime and right/UTC.
func TimeZone(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" || !unicode.IsUpper(rune(name[0])) {
		return nil, fault.InvalidRequest.With("a time zone must be an IANA name such as UTC or Europe/Berlin")
	}
	return location, nil
}
