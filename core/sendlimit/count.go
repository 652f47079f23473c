// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"strings"
	"time"
)

// Sent is one message of one sender in the platform's trace, which has a row
// for each recipient and some rows twice.
type Sent struct {
	Message string // the trace's id of the message
	Sender  string
	At      time.Time
	// Refused messages were not sent: our own rule, or another, stopped them.
	Refused bool
}

// Count is how many messages a mailbox sent on one day. Those before the mark
// up to which the trace was read for good are settled; the recent ones are
// counted anew each time, as the trace still grows there.
type Count struct {
	Day     time.Time // its start
	Settled int
	Recent  int
}

// Total is the count.
func (c Count) Total() int { return c.Settled + c.Recent }

// Overlap is how long after a message was sent its rows may still come.
const Overlap = 6 * time.Hour

// Reading is a whole reading of a tenant's trace, from the mark of the one
// before it on.
type Reading struct {
	From, To time.Time
	Sent     []Sent
}

// Mark is where the next reading begins. It never goes back.
func (r Reading) Mark() time.Time {
	if mark := r.To.Add(-Overlap); mark.After(r.From) {
		return mark
	}
	return r.From
}

// key tells the counts of a reading apart.
type key struct {
	sender string // in lower case
	day    time.Time
}

// Tally counts a reading's messages by sender and day, those before its mark as
// settled. A message counts once, however many recipients it has, on the day it
// was sent.
func (r Reading) Tally(place *time.Location) Tally {
	t := Tally{counts: map[key]Count{}}
	seen, mark := map[string]bool{}, r.Mark()
	for _, s := range r.Sent {
		sender := strings.ToLower(s.Sender)
		id := sender + "\x00" + s.Message
		if s.Refused || seen[id] || s.At.Before(r.From) {
			continue
		}
		seen[id] = true
		k := key{sender, DayOf(s.At, place).Start}
		c := t.counts[k]
		if s.At.Before(mark) {
			c.Settled++
		} else {
			c.Recent++
		}
		t.counts[k] = c
	}
	return t
}

// Tally is what a reading counted.
type Tally struct{ counts map[key]Count }

// After is a mailbox's count of a day after a reading, from what was stored
// before it. It never falls within a day.
func (t Tally) After(before Count, address string) Count {
	got := t.counts[key{strings.ToLower(address), before.Day}]
	after := Count{Day: before.Day, Settled: before.Settled + got.Settled, Recent: got.Recent}
	if missing := before.Total() - after.Total(); missing > 0 {
		after.Recent += missing
	}
	return after
}
