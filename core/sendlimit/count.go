// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"slices"
	"strings"
	"time"
)

// TraceQuery asks for a page of what senders sent from one moment on and before
// another.
type TraceQuery struct {
	From, To time.Time
	// Senders are the addresses that are asked about; of none there is nothing.
	Senders []string
	// Cursor is Next of the page before, empty for the first. All else is as
	// it was for that.
	Cursor string
}

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
	// Part is a count of which the last reading did not come to its end: it is
	// at least that many.
	Part bool
}

// Total is the count.
func (c Count) Total() int { return c.Settled + c.Recent }

const (
	// Overlap is how long after a message was sent its rows may still come, to
	// a day that is over. Those of the present day may come at any time.
	Overlap = 6 * time.Hour
	// oldest is how far back the trace is read. What was sent before, by a
	// tenant that could not be asked for so long, stays unknown.
	oldest = 9 * 24 * time.Hour
)

// Reading is a reading of a tenant's trace.
type Reading struct {
	From, To time.Time
	// Mark is up to where the trace is read for good by then, and the next
	// reading begins there at the latest. Zero moves nothing.
	Mark time.Time
	// Days are those that it reaches, oldest first. The first may have begun
	// before From.
	Days []Day
	Sent []Sent
}

// Readings are what to read, one after the other, of a trace that was read for
// good up to a mark, which is zero if it never was.
//
// The present day is always read from its beginning: then rows count however
// late they come, and mailboxes that we come to know late. So it is when the
// mark is later, which a clock said that was ahead. It comes first where a whole
// day before it is to be read too, as it alone decides who is blocked, and then
// the others, the oldest first, so that each stays counted whatever becomes of the
// rest.
func Readings(mark, now time.Time, place *time.Location) (all []Reading) {
	today, r := DayOf(now, place), nextReading(mark, now, place)
	behind := r.From.Before(today.Start) && (r.To.Before(now) || r.From.Equal(r.Days[0].Start))
	if !behind {
		return []Reading{r}
	}
	all = append(all, Reading{From: today.Start, To: now, Days: []Day{today}})
	for ; r.To.Before(now); r = nextReading(r.Mark, now, place) {
		all = append(all, r)
	}
	if r.From.Before(today.Start) {
		r.To, r.Days = today.Start, r.Days[:len(r.Days)-1]
		all = append(all, r)
	}
	return all
}

// nextReading is the oldest day alone, once its rows have come, or all since the
// mark.
func nextReading(mark, now time.Time, place *time.Location) Reading {
	today := DayOf(now, place)
	from := today.Start
	if !mark.IsZero() && mark.Before(from) {
		from = mark
	}
	if least := now.Add(-oldest); from.Before(least) {
		from = least
	}
	good := now.Add(-Overlap)
	first := DayOf(from, place)
	if !first.End.After(good) {
		return Reading{From: from, To: first.End, Mark: first.End, Days: []Day{first}}
	}
	if good.After(today.Start) {
		good = today.Start
	}
	if good.Before(from) {
		good = from
	}
	r := Reading{From: from, To: now, Mark: good, Days: []Day{first}}
	for day := first; day.Start.Before(today.Start); {
		day = DayOf(day.End, place)
		r.Days = append(r.Days, day)
	}
	return r
}

// key tells the counts of a reading apart.
type key struct {
	sender string // in lower case
	day    time.Time
}

// Tally counts a reading's messages by sender and day, those before its mark as
// settled. A message counts once, however many recipients it has, on the day it
// was sent.
func (r Reading) Tally() Tally {
	t := Tally{from: r.From, counts: map[key]Count{}}
	seen := map[string]bool{}
	for _, s := range r.Sent {
		sender := strings.ToLower(s.Sender)
		id := sender + "\x00" + s.Message
		day := slices.IndexFunc(r.Days, func(d Day) bool { return d.Has(s.At) })
		if s.Refused || seen[id] || s.At.Before(r.From) || day < 0 {
			continue
		}
		seen[id] = true
		k := key{sender, r.Days[day].Start}
		c := t.counts[k]
		if s.At.Before(r.Mark) {
			c.Settled++
		} else {
			c.Recent++
		}
		t.counts[k] = c
	}
	return t
}

// Tally is what a reading counted.
type Tally struct {
	from   time.Time
	counts map[key]Count
}

// After is a mailbox's count of a day after a reading, from what was stored
// before it. A day that was read from its beginning is counted anew, of others
// what is settled stays. A count never falls within a day.
func (t Tally) After(before Count, address string) Count {
	after := t.counts[key{strings.ToLower(address), before.Day}]
	after.Day = before.Day
	if before.Day.Before(t.from) {
		after.Settled += before.Settled
		after.Part = before.Part
	}
	if missing := before.Total() - after.Total(); missing > 0 {
		after.Recent += missing
	}
	return after
}
