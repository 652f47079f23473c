// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// TestNextStampNeverRepeatsATime covers a running clock, and a clock that was set to a time before
// the previous change. It also covers an empty and an invalid previous stamp.
func TestNextStampNeverRepeatsATime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 400_000, time.FixedZone("", 3600))
	for before, want := range map[string]string{
		"":                         "2026-11-21T11:00:00.000Z",
		"yesterday":                "2026-11-21T11:00:00.000Z",
		"2026-11-21T10:59:59.999Z": "2026-11-21T11:00:00.000Z",
		"2026-11-21T11:00:00.000Z": "2026-11-21T11:00:00.001Z",
		"2027-01-01T00:00:00.000Z": "2027-01-01T00:00:00.001Z",
	} {
		if got := simulate.NextStamp(before, now); got != want {
			t.Errorf("the stamp after %q is %s, want %s", before, got, want)
		}
	}
}

func TestDisplayNameIsDerivedFromTheAddress(t *testing.T) {
	for address, want := range map[string]string{"ann.lee@a.example": "Ann Lee", "BOB_king-3@a.example": "Bob King 3", "émile+sales@a.example": "Émile Sales", "@": ""} {
		if got := simulate.DisplayName(address); got != want {
			t.Errorf("the display name of %s is %q, want %q", address, got, want)
		}
	}
}
