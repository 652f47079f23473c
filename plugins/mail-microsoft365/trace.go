// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
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
	ToIP      exchange.Text
}

var traceProperties = []string{"MessageTraceId", "Received", "SenderAddress", "RecipientAddress", "Status", "ToIP"}

// sent returns the row in the port's type. Refused is true for a message that a rule blocked. Such
// a message must not count as sent. A row does not name the rule. But a failed row without ToIP
// never reached a different server, so its message counts as blocked. A message that the
// recipient's server rejected counts as sent.
func (r traceRow) sent() sendlimit.Sent {
	return sendlimit.Sent{
		Message: string(r.ID), Sender: string(r.Sender), At: r.Received.Time,
		Refused: strings.EqualFold(string(r.Status), exchange.Failed) && r.ToIP == "",
	}
}

// maxTraceSpan is the longest time range of one query. The platform's limit is 10 days. One minute
// is left for rounding.
const maxTraceSpan = 10*24*time.Hour - time.Minute

// traceTimeLayout is the format of times in a query: UTC without a zone.
const traceTimeLayout = "2006-01-02T15:04:05.9999999"

// maxTraceSenders is the maximum number of senders in one query.
const maxTraceSenders = 50

// tracePosition is where a page of the trace begins. A cursor is an encoded tracePosition.
type tracePosition struct {
	Span  int `json:"s"`           // number of time spans that were read completely
	Batch int `json:"b,omitempty"` // number of batches of senders that were read completely in this span
	// End and Recipient are the time and the recipient of the last row of the previous page. The
	// next page repeats that row. Both are zero at the beginning of a batch.
	End       time.Time `json:"e,omitzero"`
	Recipient string    `json:"r,omitempty"`
}

// Sent implements sdk.MailTenant. Sent reads one page in each call, because each request counts in
// a quota of the tenant. It reads each time span backwards, the newest message first.
func (c *tenantClient) Sent(ctx context.Context, query sendlimit.TraceQuery) (sendlimit.Trace, error) {
	position, ok := parseCursor(query.Cursor)
	batches := slices.Collect(slices.Chunk(query.Senders, maxTraceSenders))
	if !ok || position.Batch > 0 && position.Batch >= len(batches) {
		return sendlimit.Trace{}, call.Refuse(fault.ProviderError, "the cursor is not valid for this trace")
	}
	if len(batches) == 0 { // a query without senders would return the messages of all senders
		return sendlimit.Trace{}, nil
	}
	end := query.To.Add(time.Duration(-position.Span) * maxTraceSpan)
	begin := end.Add(-maxTraceSpan)
	if begin.Before(query.From) {
		begin = query.From
	}
	rows, mayHaveMore, err := exchange.InvokePage[traceRow](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetMessageTrace, Select: traceProperties,
		Parameters: position.parameters(begin, end, batches[position.Batch]),
	})
	if err != nil {
		return sendlimit.Trace{}, withRetryDelay(err)
	}
	trace := sendlimit.Trace{}
	for _, r := range rows {
		if r.ID == "" || r.Received.IsZero() {
			return sendlimit.Trace{}, call.Broken("exchange", "trace_row")
		}
		// Reports of failed deliveries have no sender.
		if s := r.sent(); s.Sender != "" && !s.At.Before(query.From) && s.At.Before(query.To) {
			trace.Sent = append(trace.Sent, s)
		}
	}
	next, hasMore, err := position.next(rows, mayHaveMore)
	switch {
	case err != nil || hasMore:
	case position.Batch+1 < len(batches):
		next, hasMore = tracePosition{Span: position.Span, Batch: position.Batch + 1}, true
	case begin.After(query.From):
		next, hasMore = tracePosition{Span: position.Span + 1}, true
	}
	if hasMore {
		trace.Next = next.cursor()
	}
	return trace, err
}

// quotaWait is the retry delay when the quota is used up. The platform does not say how long to
// wait. The quota allows one request every 3 seconds on average, and the next request after 5
// minutes at the latest.
const quotaWait = time.Minute

// withRetryDelay sets quotaWait as the delay of a throttled outcome without a delay.
func withRetryDelay(err error) error {
	var result *outcome.Error
	if errors.As(err, &result) && result.Kind == outcome.Throttled && result.RetryAfter <= 0 {
		result.RetryAfter = quotaWait
	}
	return err
}

func (p tracePosition) parameters(begin, end time.Time, senders []string) map[string]any {
	body := map[string]any{
		"StartDate":  begin.UTC().Truncate(time.Second).Format(traceTimeLayout),
		"EndDate":    end.UTC().Add(time.Second - time.Nanosecond).Truncate(time.Second).Format(traceTimeLayout),
		"ResultSize": exchange.TracePage, "SenderAddress": senders,
	}
	if !p.End.IsZero() {
		body["EndDate"], body["StartingRecipientAddress"] = p.End.UTC().Format(traceTimeLayout), p.Recipient
	}
	return body
}

// next returns the position of the page after these rows. hasMore is false after the last page. The
// platform adds a warning to a truncated answer, but a warning can also have a different reason.
// The next page then contains only the last row again, and next returns false for hasMore.
func (p tracePosition) next(rows []traceRow, mayHaveMore bool) (next tracePosition, hasMore bool, err error) {
	if !mayHaveMore || len(rows) == 0 {
		return tracePosition{}, false, nil
	}
	last := rows[len(rows)-1]
	next = tracePosition{p.Span, p.Batch, last.Received.Time, string(last.Recipient)}
	if next.End.Equal(p.End) && next.Recipient == p.Recipient {
		if len(rows) >= exchange.TracePage {
			return tracePosition{}, false, call.Broken("exchange", "trace_without_progress")
		}
		return tracePosition{}, false, nil
	}
	return next, true, nil
}

func (p tracePosition) cursor() string {
	raw, _ := json.Marshal(p) // cannot fail for a tracePosition
	return base64.RawURLEncoding.EncodeToString(raw)
}

func parseCursor(cursor string) (p tracePosition, ok bool) {
	if cursor == "" {
		return tracePosition{}, true
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	return p, err == nil && json.Unmarshal(raw, &p) == nil && p.Span >= 0 && p.Batch >= 0
}
