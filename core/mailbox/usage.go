// SPDX-License-Identifier: Apache-2.0

package mailbox

import "math"

// Usage is the use of a mailbox's daily limit.
type Usage struct {
	Mailbox Mailbox
	// Limit is the effective daily limit; 0 means none, and then Remaining
	// and Percent mean nothing.
	Limit     int
	Remaining int
	Percent   float64 // one decimal
	Blocked   bool
}

// UsageUnder returns a mailbox's usage of an effective limit, 0 for none.
func UsageUnder(m Mailbox, limit int) Usage {
	u := Usage{Mailbox: m, Limit: limit, Blocked: !m.BlockedAt.IsZero()}
	if limit > 0 {
		u.Remaining = max(0, limit-m.SendsToday)
		u.Percent = math.Round(float64(m.SendsToday)/float64(limit)*1000) / 10
	}
	return u
}
