// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// batch is messages that a mailbox sent at one moment.
type batch struct {
	Serial     int       `json:"serial"` // of the first
	Sender     string    `json:"sender"`
	Count      int       `json:"count"`
	Recipients int       `json:"recipients"` // of each message; 0 is one to three
	At         time.Time `json:"at"`
	Shows      lag       `json:"shows"`
	Stopped    bool      `json:"stopped"` // by a rule
	Bounced    bool      `json:"bounced"` // by the recipient's server
}

// traceRow is one message to one recipient.
type traceRow struct {
	batch

	number    int // of the message
	recipient string
}

func (r traceRow) id() string { return guid("message", r.Sender, strconv.Itoa(r.number)) }

// rows are the messages by recipient.
func (b batch) rows() []traceRow {
	var out []traceRow
	for i := range b.Count {
		to := b.Recipients
		if to == 0 {
			to = 1 + i%3
		}
		for n := range to {
			out = append(out, traceRow{b, b.Serial + i, fmt.Sprintf("reader-%06d-%d@recipient.example", b.Serial+i, n)})
		}
	}
	return out
}

const (
	traceQuota     = 100
	traceQuotaSpan = 300 * time.Second
	traceLargest   = 5000
	traceUsual     = 1000
	traceWindow    = 10 * 24 * time.Hour
	traceAge       = 90 * 24 * time.Hour
	traceDefault   = 48 * time.Hour
	// traceRepeats: one row of so many is there twice.
	traceRepeats = 5
)

func getTrace(in *invocation, t *tenant, _ map[string]bool) outcome {
	// Windows of rates do not follow the sandbox's clock.
	real := time.Now()
	t.Exchange.Traced = slices.DeleteFunc(t.Exchange.Traced, func(at time.Time) bool { return real.Sub(at) >= traceQuotaSpan })
	if len(t.Exchange.Traced) >= cmp.Or(t.Behaviour.TraceQuota, traceQuota) {
		return outcome{failed: errTraceQuota.of(""), status: t.Behaviour.TraceThrottled}
	}
	t.Exchange.Traced = append(t.Exchange.Traced, real)
	from, to, failed := in.traceSpan()
	if failed != nil {
		return outcome{failed: failed}
	}
	rows := slices.DeleteFunc(t.traced(in.now), func(r traceRow) bool {
		return r.At.Before(from) || r.At.After(to) || !in.asksFor(r) ||
			r.At.Equal(to) && r.recipient < strings.ToLower(in.params.text("StartingRecipientAddress"))
	})
	return in.tracePage(t, rows)
}

// traced are all rows that show by now: newest first, then by recipient, some
// of them twice.
func (t *tenant) traced(now time.Time) []traceRow {
	var rows []traceRow
	for _, b := range t.Exchange.Sent {
		if b.Shows.over(now) {
			rows = append(rows, b.rows()...)
		}
	}
	slices.SortFunc(rows, func(a, b traceRow) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.recipient, b.recipient))
	})
	if !t.Behaviour.TraceDuplicates {
		return rows
	}
	var all []traceRow
	for i, r := range rows {
		all = append(all, r)
		if i%traceRepeats == 0 {
			all = append(all, r)
		}
	}
	return all
}

// tracePage cuts the rows to ResultSize. That there is more only a warning says.
func (in *invocation) tracePage(t *tenant, rows []traceRow) outcome {
	size := traceUsual
	if n, ok := in.params["resultsize"].(float64); ok {
		size = int(n)
	}
	size = min(size, cmp.Or(t.Behaviour.TracePage, traceLargest))
	out := outcome{whole: true}
	if len(rows) > size {
		rows = rows[:size]
		last := rows[size-1]
		out.warnings = []string{fmt.Sprintf("There are more results, use the following command to get more. "+
			"Get-MessageTraceV2 -StartDate \"...\" -EndDate \"%s\" -StartingRecipientAddress \"%s\"", last.At.Format(traceZoned), last.recipient)}
	}
	for _, r := range rows {
		out.rows = append(out.rows, in.traceObject(t, r))
	}
	return out
}

// How Received is written.
const (
	traceZoned = "2006-01-02T15:04:05.0000000Z"
	traceBare  = "2006-01-02T15:04:05.0000000"
)

func (in *invocation) traceObject(t *tenant, r traceRow) object {
	form := traceZoned
	if t.Behaviour.TraceBare {
		form = traceBare
	}
	row := object{
		"MessageTraceId": r.id(), "MessageId": "<" + r.id() + "@" + t.initial() + ">",
		"Received@data.type": "System.DateTime", "Received": r.At.UTC().Format(form),
		"SenderAddress": r.Sender, "RecipientAddress": r.recipient, "FromIP": "192.0.2.10", "ToIP": "198.51.100.25",
		"Subject": "A question", "Status": "Delivered", "Size": 21_345,
	}
	switch {
	case r.Stopped: // it never left
		row["Status"], row["ToIP"] = "Failed", nil
	case r.Bounced:
		row["Status"] = "Failed"
	case in.now.Before(r.Shows.Until.Add(r.Shows.Until.Sub(r.Shows.Since))):
		row["Status"], row["ToIP"] = "Pending", nil
	}
	return row
}

// traceSpan reads the window that is asked for.
func (in *invocation) traceSpan() (from, to time.Time, failed *exception) {
	to, from = in.now, in.now.Add(-traceDefault)
	if in.params.has("EndDate") {
		to = dateOf(in.params.text("EndDate"))
	}
	if in.params.has("StartDate") {
		from = dateOf(in.params.text("StartDate"))
	}
	switch {
	case from.After(to), to.Sub(from) > traceWindow:
		return from, to, errInvalid.of("StartDate is before EndDate, by at most 10 days.")
	case from.Before(in.now.Add(-traceAge)):
		return from, to, errInvalid.of("StartDate is at most 90 days ago.")
	default:
		return from, to, nil
	}
}

// asksFor reports whether a row has what the filters ask for.
func (in *invocation) asksFor(r traceRow) bool {
	for name, value := range map[string]string{"SenderAddress": r.Sender, "RecipientAddress": r.recipient, "MessageTraceId": r.id()} {
		wanted := in.params.texts(name)
		if wanted != nil && !slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, value) }) {
			return false
		}
	}
	return true
}

// isDate takes a date with a zone or without, which is UTC then.
func isDate(v any) bool {
	s, ok := v.(string)
	return ok && !dateOf(s).IsZero()
}

func dateOf(text string) time.Time {
	for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.9999999", time.DateOnly} {
		if at, err := time.Parse(form, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// send makes a mailbox send messages now or at a moment. What a rule stops
// comes back to it, and the trace says so.
func (s *simulator) send(t *tenant, b batch, now time.Time) {
	if b.At.IsZero() {
		b.At = now
	}
	b.At = b.At.UTC().Truncate(100 * time.Nanosecond) // no finer is shown
	b.Serial = t.Exchange.Messages
	t.Exchange.Messages += b.Count
	b.Stopped = t.stopped(b.Sender, b.At, now)
	b.Shows = after(now, t.Behaviour.TraceMS)
	if b.At.After(now) {
		b.Shows = after(b.At, t.Behaviour.TraceMS)
		b.Shows.Since = now
	}
	t.Exchange.Sent = append(t.Exchange.Sent, b)
}
