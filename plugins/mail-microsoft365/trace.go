// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
)

type traceRow struct {
	ID        exchange.Text `json:"MessageTraceId"`
	Received  exchange.Time
	Sender    exchange.Text `json:"SenderAddress"`
	Recipient exchange.Text `json:"RecipientAddress"`
	Status    exchange.Text
	To        exchange.Text `json:"ToIP"`
}

var traceProperties = []string{"MessageTraceId", "Received", "SenderAddress", "RecipientAddress", "Status", "ToIP"}

// sent is the row in the words of the port. What our rules stopped is not to
// count, and a row names no rule: such mail never went to another server, which
// it shows. Mail that failed there was sent.
func (r traceRow) sent() sendlimit.Sent {
	return sendlimit.Sent{
		Message: string(r.ID), Sender: string(r.Sender), At: r.Received.Time,
		Refused: equalFold(string(r.Status), exchange.Failed) && r.To == "",
	}
}

// traceSpan is as long as one query may be, 10 days, with room for full seconds.
const traceSpan = 10*24*time.Hour - time.Minute

// traceTime is how the trace takes a time: in UTC, and without saying so.
const traceTime = "2006-01-02T15:04:05.9999999"

// traceSenders is how many senders one query asks about.
const traceSenders = 50

// place is where a page of the trace begins.
type place struct {
	Span  int `json:"s"`           // how many spans were read
	Batch int `json:"b,omitempty"` // how many batches of senders, in this span
	// End and Recipient are those of the last row of the page before, both
	// zero at the beginning of a batch. That row comes again.
	End       time.Time `json:"e,omitzero"`
	Recipient string    `json:"r,omitempty"`
}

// Sent implements sdk.MailTenant. One call is one request, as each counts in a
// quota of the tenant; the trace is read backwards, newest first.
func (c *client) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	at, ok := placeOf(q.Cursor)
	batches := slices.Collect(slices.Chunk(q.Senders, traceSenders))
	if !ok || at.Batch > 0 && at.Batch >= len(batches) {
		return sendlimit.Trace{}, call.Refuse(fault.ProviderError, "this cursor is none of the trace's")
	}
	if len(batches) == 0 { // a query without senders would be for all
		return sendlimit.Trace{}, nil
	}
	end := q.To.Add(time.Duration(-at.Span) * traceSpan)
	begin := end.Add(-traceSpan)
	if begin.Before(q.From) {
		begin = q.From
	}
	rows, warned, err := exchange.InvokePage[traceRow](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetMessageTrace, Select: traceProperties,
		Parameters: at.parameters(begin, end, batches[at.Batch]),
	})
	if err != nil {
		return sendlimit.Trace{}, comeBack(err)
	}
	out := sendlimit.Trace{}
	for _, r := range rows {
		if r.ID == "" || r.Received.IsZero() {
			return sendlimit.Trace{}, call.Broken("exchange", "trace_row")
		}
		// Reports of failed delivery have no sender.
		if s := r.sent(); s.Sender != "" && !s.At.Before(q.From) && s.At.Before(q.To) {
			out.Sent = append(out.Sent, s)
		}
	}
	next, more, err := at.after(rows, warned)
	switch {
	case err != nil || more:
	case at.Batch+1 < len(batches):
		next, more = place{Span: at.Span, Batch: at.Batch + 1}, true
	case begin.After(q.From):
		next, more = place{Span: at.Span + 1}, true
	}
	if more {
		out.Next = next.cursor()
	}
	return out, err
}

// quotaWait is when to come back to a quota that is used up. The platform names
// no time; a page comes free every 3 seconds on the average, 5 minutes at worst.
const quotaWait = time.Minute

// comeBack gives a throttle that names no time one.
func comeBack(err error) error {
	var o *outcome.Error
	if errors.As(err, &o) && o.Kind == outcome.Throttled && o.RetryAfter <= 0 {
		o.RetryAfter = quotaWait
	}
	return err
}

func (p place) parameters(begin, end time.Time, senders []string) map[string]any {
	in := map[string]any{
		"StartDate":  begin.UTC().Truncate(time.Second).Format(traceTime),
		"EndDate":    end.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second).Format(traceTime),
		"ResultSize": exchange.TracePage, "SenderAddress": senders,
	}
	if !p.End.IsZero() {
		in["EndDate"], in["StartingRecipientAddress"] = p.End.UTC().Format(traceTime), p.Recipient
	}
	return in
}

// after is where the page after these rows begins. An answer that is cut short
// says so by a warning, which it may have for other reasons too: then the next
// page is the last row again, and the end.
func (p place) after(rows []traceRow, warned bool) (next place, more bool, err error) {
	if !warned || len(rows) == 0 {
		return place{}, false, nil
	}
	last := rows[len(rows)-1]
	next = place{p.Span, p.Batch, last.Received.Time, string(last.Recipient)}
	if next.End.Equal(p.End) && next.Recipient == p.Recipient {
		if len(rows) >= exchange.TracePage {
			return place{}, false, call.Broken("exchange", "trace_stands_still")
		}
		return place{}, false, nil
	}
	return next, true, nil
}

func (p place) cursor() string {
	raw, _ := json.Marshal(p) // cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

func placeOf(cursor string) (p place, ok bool) {
	if cursor == "" {
		return place{}, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	return p, err == nil && json.Unmarshal(raw, &p) == nil && p.Span >= 0 && p.Batch >= 0
}
