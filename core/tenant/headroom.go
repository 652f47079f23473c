// SPDX-License-Identifier: Apache-2.0

package tenant

import (
	"math"
	"time"
)

// Licenses are a tenant's licences for e-mail.
type Licenses struct {
	Paid  int
	Trial int // licences of trial subscriptions
	// RecipientLimit is the limit that the platform publishes for these licences: the maximum
	// number of external recipients to whom the tenant may send in 24 hours. It is 0 if the
	// platform publishes no limit.
	RecipientLimit int
}

// Sending is the stored data about how much a tenant sends and may send.
type Sending struct {
	Licenses   Licenses
	LicensesAt time.Time // when the licences were read, zero if they were never read
	// SentToday is the number of messages that the tenant's mailboxes sent on the current day, in
	// the tenant's time zone.
	SentToday int
	// CountedAt is the time of the oldest mailbox count of this day, zero if no mailbox has a count
	// of this day.
	CountedAt time.Time
}

// Headroom estimates how close a tenant is to the platform's sending limit. It is only an estimate,
// because tenantry counts messages since midnight, and the platform counts external recipients in
// the last 24 hours.
type Headroom struct {
	Limit       int       // external recipients in 24 hours
	Sent        int       // messages on the current day
	CountedAt   time.Time // as Sending.CountedAt
	Remaining   int       // 0 if Sent exceeds Limit
	UsedPercent float64   // one decimal
	Licenses    int       // paid licences
	LicensesAt  time.Time // when the licences were read
}

// Headroom returns the estimate, or nil if the licences were never read or the platform publishes
// no limit.
func (s Sending) Headroom() *Headroom {
	limit := s.Licenses.RecipientLimit
	if limit <= 0 {
		return nil
	}
	return &Headroom{
		Limit: limit, Sent: s.SentToday, CountedAt: s.CountedAt, Remaining: max(0, limit-s.SentToday), Licenses: s.Licenses.Paid, LicensesAt: s.LicensesAt,
		UsedPercent: math.Round(float64(s.SentToday)/float64(limit)*1000) / 10,
	}
}
