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

// tracePage is how many rows a page of the trace has where Setup says nothing.
const tracePage = 1000

// traced is one row of the trace, and when it shows.
type traced struct {
	sendlimit.Sent
	shows time.Time
}

// Send is a mailbox that sends this many messages now, each to two recipients.
// What a rule stops is refused. It returns how many were not.
func (p *Platform) Send(id tenant.GUID, mailbox string, count int) (sent int) {
	return p.SendAt(id, mailbox, count, time.Time{})
}

// SendAt is Send at a moment other than now: messages that the trace shows late,
// or did not show before.
func (p *Platform) SendAt(id tenant.GUID, mailbox string, count int, at time.Time) (sent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[id]
	if at.IsZero() {
		at = p.now
	}
	mailbox = strings.ToLower(mailbox)
	refused := false
	for _, r := range t.rules {
		refused = refused || r.blocks(mailbox, at, t.Lag.Rule)
	}
	for range count {
		p.serial++
		row := traced{shows: p.now.Add(t.Lag.Trace), Sent: sendlimit.Sent{
			Message: fmt.Sprintf("message-%d", p.serial), Sender: mailbox, At: at, Refused: refused,
		}}
		t.trace = append(t.trace, row, row)
	}
	if refused {
		return 0
	}
	return count
}

// Sent implements ports.SendTrace. A cursor is where a page begins; its first
// row was the last one of the page before.
func (c client) Sent(ctx context.Context, q sendlimit.TraceQuery) (sendlimit.Trace, error) {
	var out sendlimit.Trace
	err := c.server(ctx, "Sent", "", func(t *state) (bool, error) {
		at, err := strconv.Atoi(q.Cursor)
		if q.Cursor != "" && (err != nil || at < 1) {
			return false, refuse(fault.ProviderError, "this cursor is none of the trace's")
		}
		rows := t.shown(q, c.p.now)
		at = min(at, len(rows))
		end := min(at+t.TracePage, len(rows))
		out.Sent = rows[at:end]
		if end < len(rows) {
			out.Next = strconv.Itoa(end - 1)
		}
		return false, nil
	})
	return out, err
}

// shown are the rows that are asked for and that the trace shows by now, newest
// first.
func (t *state) shown(q sendlimit.TraceQuery, now time.Time) []sendlimit.Sent {
	var rows []sendlimit.Sent
	for _, row := range t.trace {
		asked := slices.ContainsFunc(q.Senders, func(address string) bool { return strings.EqualFold(address, row.Sender) })
		if asked && !row.At.Before(q.From) && row.At.Before(q.To) && !now.Before(row.shows) {
			rows = append(rows, row.Sent)
		}
	}
	slices.SortStableFunc(rows, func(a, b sendlimit.Sent) int { return b.At.Compare(a.At) })
	return rows
}
