// SPDX-License-Identifier: Apache-2.0

package sendlimit

import (
	"slices"
	"strings"
	"time"
)

// TraceQuery requests one page of the messages that Senders sent at From or later and before To.
type TraceQuery struct {
	From, To time.Time
	// Senders are the addresses to query. An empty list matches no message.
	Senders []string
	// Cursor is Trace.Next of the previous page, empty for the first page. The other fields must be
	// the same for all pages of a query.
	Cursor string
}

// Sent is one row of the platform's message trace. The trace has a row for each recipient of a
// message, and repeats some rows.
type Sent struct {
	Message string // trace id of the message
	Sender  string
	At      time.Time
	// Refused is true when a transport rule rejected the message, so it was not sent.
	Refused bool
}

// Trace is one page of the message trace.
type Trace struct {
	Sent []Sent
	// Next is the cursor of the next page, empty on the last page.
	Next string
}

// Count is the number of messages that a mailbox sent on one day. The mark is the time up to which
// the trace is final. Final counts the messages before the mark. Recent counts the later messages.
// Each reading computes Recent again, because the trace can still get rows of messages sent after
// the mark.
type Count struct {
	Day    time.Time // start of the day
	Final  int
	Recent int
	// Partial is true if the count comes from a reading that did not complete. The count is then a
	// lower bound.
	Partial bool
}

// Total returns the number of messages of the day, final and recent.
func (c Count) Total() int { return c.Final + c.Recent }

const (
	// MaxTraceDelay is how long the trace may still add rows to a day that has ended.
	MaxTraceDelay = 6 * time.Hour
	// maxTraceAge is how far back the trace is read. Older messages are never counted.
	maxTraceAge = 9 * 24 * time.Hour
)

// Reading describes one reading of a tenant's trace and holds its rows.
type Reading struct {
	From, To time.Time
	// Mark is the time up to which the trace is final after this reading. The zero value leaves the
	// stored mark unchanged.
	Mark time.Time
	// Days are the days that the reading covers, oldest first. The first day may start before From.
	Days []Day
	Sent []Sent
}

// Readings returns the readings that bring a tenant's counts up to date, in the order in which to
// make them. mark is the stored mark, or zero if the trace was never read.
//
// The readings include the whole current day. They therefore count rows that arrive late, and the
// messages of mailboxes that were added late. A mark later than now can only come from clock skew
// and is ignored.
//
// The current day comes first if an earlier day must be read from its start, or can be read to its
// end because its trace is final. Only the counts of the current day decide which mailboxes are
// blocked. The earlier days follow, oldest first. In all other cases there is a single reading.
func Readings(mark, now time.Time, location *time.Location) (readings []Reading) {
	today, next := DayOf(now, location), nextReading(mark, now, location)
	lagging := next.From.Before(today.Start) && (next.To.Before(now) || next.From.Equal(next.Days[0].Start))
	if !lagging {
		return []Reading{next}
	}
	readings = append(readings, Reading{From: today.Start, To: now, Days: []Day{today}})
	for ; next.To.Before(now); next = nextReading(next.Mark, now, location) {
		readings = append(readings, next)
	}
	if next.From.Before(today.Start) {
		next.To, next.Days = today.Start, next.Days[:len(next.Days)-1]
		readings = append(readings, next)
	}
	return readings
}

// nextReading returns the next reading after the mark. If the day of the mark has ended and its
// trace is final, this is a reading of the rest of that day. Otherwise it is a reading up to now,
// from the mark or from the start of the current day, whichever is earlier.
func nextReading(mark, now time.Time, location *time.Location) Reading {
	today := DayOf(now, location)
	from := today.Start
	if !mark.IsZero() && mark.Before(from) {
		from = mark
	}
	if earliest := now.Add(-maxTraceAge); from.Before(earliest) {
		from = earliest
	}
	finalUntil := now.Add(-MaxTraceDelay)
	first := DayOf(from, location)
	if !first.End.After(finalUntil) {
		return Reading{From: from, To: first.End, Mark: first.End, Days: []Day{first}}
	}
	if finalUntil.After(today.Start) {
		finalUntil = today.Start
	}
	if finalUntil.Before(from) {
		finalUntil = from
	}
	r := Reading{From: from, To: now, Mark: finalUntil, Days: []Day{first}}
	for day := first; day.Start.Before(today.Start); {
		day = DayOf(day.End, location)
		r.Days = append(r.Days, day)
	}
	return r
}

type countKey struct {
	sender string // in lower case
	day    time.Time
}

// Tally counts the reading's messages by sender and day. Messages before the mark count as final. A
// message counts once, on the day it was sent, however many recipients it has.
func (r Reading) Tally() Tally {
	tally := Tally{from: r.From, counts: map[countKey]Count{}}
	seen := map[string]bool{}
	for _, s := range r.Sent {
		sender := strings.ToLower(s.Sender)
		id := sender + "\x00" + s.Message
		day := slices.IndexFunc(r.Days, func(d Day) bool { return d.Contains(s.At) })
		if s.Refused || seen[id] || s.At.Before(r.From) || day < 0 {
			continue
		}
		seen[id] = true
		key := countKey{sender, r.Days[day].Start}
		count := tally.counts[key]
		if s.At.Before(r.Mark) {
			count.Final++
		} else {
			count.Recent++
		}
		tally.counts[key] = count
	}
	return tally
}

// Tally holds the counts of a reading. CountAfter merges them with stored counts.
type Tally struct {
	from   time.Time
	counts map[countKey]Count
}

// CountAfter returns a mailbox's count of a day after the reading. before is the stored count of
// that day. If the reading covers the day from its start, the count of the reading replaces the
// stored count. Otherwise CountAfter adds the count of the reading to the stored final count. A
// count never decreases within a day.
func (t Tally) CountAfter(before Count, address string) Count {
	after := t.counts[countKey{strings.ToLower(address), before.Day}]
	after.Day = before.Day
	if before.Day.Before(t.from) {
		after.Final += before.Final
		after.Partial = before.Partial
	}
	if missing := before.Total() - after.Total(); missing > 0 {
		after.Recent += missing
	}
	return after
}

// ExceededAt returns the time at which a sender sent the first message beyond limit on a day. The
// reading must cover the day from its start. exceeded is false when the sender did not exceed the
// limit.
func (r Reading) ExceededAt(address string, limit int, day Day) (at time.Time, exceeded bool) {
	firstTimes := map[string]time.Time{} // a message's rows may have different times
	for _, s := range r.Sent {
		if s.Refused || !strings.EqualFold(s.Sender, address) || !day.Contains(s.At) || s.At.Before(r.From) {
			continue
		}
		if earliest, seen := firstTimes[s.Message]; !seen || s.At.Before(earliest) {
			firstTimes[s.Message] = s.At
		}
	}
	times := make([]time.Time, 0, len(firstTimes))
	for _, at := range firstTimes {
		times = append(times, at)
	}
	slices.SortFunc(times, time.Time.Compare)
	if limit >= len(times) {
		return time.Time{}, false
	}
	return times[limit], true
}
