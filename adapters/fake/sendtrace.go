// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// tracePage is the number of rows on a page of the message trace if Setup.TracePage is not set.
const tracePage = 1000

// traceRow is one row of the message trace. The trace shows it from visibleAt on.
type traceRow struct {
	sendlimit.Sent
	visibleAt time.Time
}

// Send lets a mailbox send count messages now, each to two recipients. It returns how many messages
// were accepted: 0 if a rule blocks the mailbox, count otherwise. The trace has a row for each
// recipient.
func (p *Platform) Send(id tenant.GUID, mailbox string, count int) (accepted int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	mailbox = strings.ToLower(mailbox)
	isRefused := false
	for _, r := range t.rules {
		isRefused = isRefused || r.blocks(mailbox, p.now, t.Lag.Rule)
	}
	for range count {
		p.serial++
		row := traceRow{visibleAt: p.now.Add(t.Lag.Trace), Sent: sendlimit.Sent{
			Message: fmt.Sprintf("message-%d", p.serial), Sender: mailbox, At: p.now, Refused: isRefused,
		}}
		t.trace = append(t.trace, row, row)
	}
	if isRefused {
		return 0
	}
	return count
}

// Sent implements ports.SendTrace. A cursor is the index of the first row of a page. That row is
// also the last row of the previous page.
func (c tenantClient) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	var page sendlimit.Trace
	err := c.callMailServer(ctx, "Sent", "", func(t *tenantState) (bool, error) {
		start, err := strconv.Atoi(q.Cursor)
		if q.Cursor != "" && (err != nil || start < 1) {
			return false, refuse(fault.ProviderError, "the cursor is invalid")
		}
		rows := t.visibleRows(q, c.p.now)
		start = min(start, len(rows))
		end := min(start+t.TracePage, len(rows))
		page.Sent = rows[start:end]
		if end < len(rows) {
			page.Next = strconv.Itoa(end - 1)
		}
		return false, nil
	})
	return page, err
}

// visibleRows returns the rows that match the query and are visible at the time now, newest first.
func (t *tenantState) visibleRows(q sendlimit.TraceQuery, now time.Time) []sendlimit.Sent {
	var rows []sendlimit.Sent
	for _, row := range t.trace {
		isSender := slices.ContainsFunc(q.Senders, func(address string) bool { return strings.EqualFold(address, row.Sender) })
		if isSender && !row.At.Before(q.From) && row.At.Before(q.To) && !now.Before(row.visibleAt) {
			rows = append(rows, row.Sent)
		}
	}
	slices.SortStableFunc(rows, func(a, b sendlimit.Sent) int { return b.At.Compare(a.At) })
	return rows
}
