// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"
	"time"
)

func TestSinceAcceptsDatesTimesAndDurations(t *testing.T) {
	now := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		raw   string
		want  time.Time
		valid bool
	}{
		{"", time.Time{}, true},
		{"2026-11-20", now.Add(-32 * time.Hour), true},
		{"2026-11-21T08:00:00Z", now, true},
		{"2026-11-21T09:30:00+01:00", now.Add(30 * time.Minute), true},
		{"90m", now.Add(-90 * time.Minute), true},
		{"-1h", time.Time{}, false},
		{"yesterday", time.Time{}, false},
		{"2026-11-31", time.Time{}, false},
		{"20.11.2026", time.Time{}, false},
	} {
		if got, err := parseSince(tc.raw, now); !got.Equal(tc.want) || (err == nil) != tc.valid {
			t.Errorf("%q: got %v, %v, want %v and valid %t", tc.raw, got, err, tc.want, tc.valid)
		}
	}
}
