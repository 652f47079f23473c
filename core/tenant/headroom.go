// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"math"
	"time"
)

// Sending is what is stored of how much a tenant sends and may send.
type Sending struct {
	Licenses   Licenses
	LicensesAt time.Time // when they were read; zero: never
	// Today is what the tenant's mailboxes sent on its present day, by the
	// counts that callers see.
	Today int
	// TodayAt is when the oldest of those counts was taken; zero: none yet.
	TodayAt time.Time
}

// Headroom is how near a tenant is to what the platform lets it send. It is an
// estimate: we count messages, the platform their recipients outside of the
// tenant; our day begins at midnight, the platform's is the last 24 hours.
type Headroom struct {
	Limit     int // of external recipients
	Sent      int
	SentAt    time.Time // when that was counted; zero: not yet on this day
	Remaining int       // 0 beyond the limit
	Percent   float64   // one decimal
	Licenses  int       // for e-mail, bought
	At        time.Time
}

// Headroom computes it, or nil while nobody has read the licences.
func (s Sending) Headroom() *Headroom {
	if s.LicensesAt.IsZero() {
		return nil
	}
	limit := s.Licenses.ExternalRecipientLimit()
	return &Headroom{
		Limit: limit, Sent: s.Today, SentAt: s.TodayAt, Remaining: max(0, limit-s.Today), Licenses: s.Licenses.Paid, At: s.LicensesAt,
		Percent: math.Round(float64(s.Today)/float64(limit)*1000) / 10,
	}
}
