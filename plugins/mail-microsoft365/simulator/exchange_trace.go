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

// messageBatch describes messages that a mailbox sent at the same time.
type messageBatch struct {
	Serial        int       `json:"serial"` // number of the first message
	Sender        string    `json:"sender"`
	Count         int       `json:"count"`
	Recipients    int       `json:"recipients"` // of each message, 0 for one to three in rotation
	At            time.Time `json:"at"`
	VisibilityLag lag       `json:"shows"`   // until the trace shows the messages
	Blocked       bool      `json:"stopped"` // a rule blocked the messages
	Bounced       bool      `json:"bounced"` // the recipients' servers refused the messages
}

// traceRow is one message to one recipient.
type traceRow struct {
	messageBatch

	number    int // number of the message
	recipient string
}

func (r traceRow) id() string { return guid("message", r.Sender, strconv.Itoa(r.number)) }

// rows returns one row for each message and recipient.
func (b messageBatch) rows() []traceRow {
	var rows []traceRow
	for i := range b.Count {
		recipients := b.Recipients
		if recipients == 0 {
			recipients = 1 + i%3
		}
		for n := range recipients {
			rows = append(rows, traceRow{b, b.Serial + i, fmt.Sprintf("reader-%06d-%d@recipient.example", b.Serial+i, n)})
		}
	}
	return rows
}

// The limits of Get-MessageTraceV2.
const (
	traceQuota          = 100
	traceQuotaSpan      = 300 * time.Second
	maxTraceResults     = 5000
	defaultTraceResults = 1000
	maxTraceWindow      = 10 * 24 * time.Hour
	maxTraceAge         = 90 * 24 * time.Hour
	defaultTraceWindow  = 48 * time.Hour
	// traceDuplicateInterval is the distance between two duplicated rows with the setting
	// TraceDuplicates.
	traceDuplicateInterval = 5
)

func getTrace(call *invocation, t *tenant, _ map[string]bool) outcome {
	// The quota uses the real clock: after a jump of the simulated clock back, queries would count
	// for too long.
	wallClock := time.Now()
	t.Exchange.TraceQueryTimes = slices.DeleteFunc(t.Exchange.TraceQueryTimes, func(at time.Time) bool { return wallClock.Sub(at) >= traceQuotaSpan })
	if len(t.Exchange.TraceQueryTimes) >= cmp.Or(t.Behaviour.TraceQuota, traceQuota) {
		return outcome{failure: errTraceQuota.with(""), status: t.Behaviour.TraceThrottled}
	}
	t.Exchange.TraceQueryTimes = append(t.Exchange.TraceQueryTimes, wallClock)
	from, to, failure := call.traceWindow()
	if failure != nil {
		return outcome{failure: failure}
	}
	rows := slices.DeleteFunc(t.visibleTraceRows(call.now), func(r traceRow) bool {
		return r.At.Before(from) || r.At.After(to) || !call.matchesFilters(r) ||
			r.At.Equal(to) && r.recipient < strings.ToLower(call.params.text("StartingRecipientAddress"))
	})
	return call.tracePage(t, rows)
}

// visibleTraceRows returns the rows that are visible now: newest first, then by recipient. With the
// setting TraceDuplicates, some rows are duplicated.
func (t *tenant) visibleTraceRows(now time.Time) []traceRow {
	var rows []traceRow
	for _, b := range t.Exchange.SentBatches {
		if b.VisibilityLag.hasPassed(now) {
			rows = append(rows, b.rows()...)
		}
	}
	slices.SortFunc(rows, func(a, b traceRow) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.recipient, b.recipient))
	})
	if !t.Behaviour.TraceDuplicates {
		return rows
	}
	var traceRows []traceRow
	for i, r := range rows {
		traceRows = append(traceRows, r)
		if i%traceDuplicateInterval == 0 {
			traceRows = append(traceRows, r)
		}
	}
	return traceRows
}

// tracePage returns at most ResultSize rows, and at most as many as the setting TracePage allows.
// If it leaves out rows, it returns a warning, but no link to the next page.
func (call *invocation) tracePage(t *tenant, rows []traceRow) outcome {
	size := defaultTraceResults
	if n, ok := call.params["resultsize"].(float64); ok {
		size = int(n)
	}
	size = min(size, cmp.Or(t.Behaviour.TracePage, maxTraceResults))
	result := outcome{unpaged: true}
	if len(rows) > size {
		rows = rows[:size]
		last := rows[size-1]
		result.warnings = []string{fmt.Sprintf("There are more results, use the following command to get more. "+
			"Get-MessageTraceV2 -StartDate \"...\" -EndDate \"%s\" -StartingRecipientAddress \"%s\"", last.At.Format(receivedWithZone), last.recipient)}
	}
	for _, r := range rows {
		result.rows = append(result.rows, call.traceRowObject(t, r))
	}
	return result
}

// The formats of Received.
const (
	receivedWithZone    = "2006-01-02T15:04:05.0000000Z"
	receivedWithoutZone = "2006-01-02T15:04:05.0000000"
)

// traceRowObject returns a row as Get-MessageTraceV2 shows it.
func (call *invocation) traceRowObject(t *tenant, r traceRow) object {
	layout := receivedWithZone
	if t.Behaviour.TraceBare {
		layout = receivedWithoutZone
	}
	row := object{
		"MessageTraceId": r.id(), "MessageId": "<" + r.id() + "@" + t.initialDomain() + ">",
		"Received@data.type": "System.DateTime", "Received": r.At.UTC().Format(layout),
		"SenderAddress": r.Sender, "RecipientAddress": r.recipient, "FromIP": "192.0.2.10", "ToIP": "198.51.100.25",
		"Subject": "A question", "Status": "Delivered", "Size": 21_345,
	}
	switch {
	case r.Blocked: // the message did not reach a server
		row["Status"], row["ToIP"] = "Failed", nil
	case r.Bounced:
		row["Status"] = "Failed"
	case call.now.Before(r.VisibilityLag.Until.Add(r.VisibilityLag.Until.Sub(r.VisibilityLag.Since))):
		// A row is pending for the length of its lag after the lag has passed.
		row["Status"], row["ToIP"] = "Pending", nil
	}
	return row
}

// traceWindow returns the time range in the parameters, by default the last 48 hours.
func (call *invocation) traceWindow() (from, to time.Time, failure *exception) {
	to, from = call.now, call.now.Add(-defaultTraceWindow)
	if call.params.has("EndDate") {
		to = parseDate(call.params.text("EndDate"))
	}
	if call.params.has("StartDate") {
		from = parseDate(call.params.text("StartDate"))
	}
	switch {
	case from.After(to), to.Sub(from) > maxTraceWindow:
		return from, to, errInvalid.with("StartDate is before EndDate, by at most 10 days.")
	case from.Before(call.now.Add(-maxTraceAge)):
		return from, to, errInvalid.with("StartDate is at most 90 days ago.")
	default:
		return from, to, nil
	}
}

func (call *invocation) matchesFilters(r traceRow) bool {
	for name, value := range map[string]string{"SenderAddress": r.Sender, "RecipientAddress": r.recipient, "MessageTraceId": r.id()} {
		values := call.params.textList(name)
		if values != nil && !slices.ContainsFunc(values, func(w string) bool { return strings.EqualFold(w, value) }) {
			return false
		}
	}
	return true
}

// isDate reports whether a value is a date that parseDate accepts.
func isDate(v any) bool {
	text, ok := v.(string)
	return ok && !parseDate(text).IsZero()
}

// parseDate returns the time in a text, in UTC, or the zero time. It reads a time without a zone as
// UTC.
func parseDate(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.9999999", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// sendMessages records messages that a mailbox sends at b.At, or now if b.At is zero.
func (s *simulator) sendMessages(t *tenant, b messageBatch, now time.Time) {
	if b.At.IsZero() {
		b.At = now
	}
	b.At = b.At.UTC().Truncate(100 * time.Nanosecond) // the resolution of Received
	b.Serial = t.Exchange.MessageCount
	t.Exchange.MessageCount += b.Count
	b.Blocked = t.isBlockedByRule(b.Sender, b.At, now)
	b.VisibilityLag = startLag(now, t.Behaviour.TraceMS)
	if b.At.After(now) {
		b.VisibilityLag = startLag(b.At, t.Behaviour.TraceMS)
		b.VisibilityLag.Since = now // hasPassed would return true for a lag that starts at b.At
	}
	t.Exchange.SentBatches = append(t.Exchange.SentBatches, b)
}
