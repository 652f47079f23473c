// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// maxTraceTime is the longest time that one pass spends in trace calls. Waiting for a call slot
// does not count as a trace call.
const maxTraceTime = 25 * time.Second

// count reads the message trace and stores the counts of each day. sendlimit.Readings decides which
// periods it reads. Each reading is stored before the next reading begins, so a later pass can
// continue where this pass stopped.
func (p *pass) count(ctx context.Context) error {
	readCtx, cancel := p.readContext(ctx)
	defer cancel()
	for _, r := range sendlimit.Readings(p.Mark, p.now, p.location) {
		if err := p.countReading(ctx, readCtx, r); err != nil {
			return err
		}
	}
	return nil
}

// readContext returns the context for reading the trace, and sets p.readBudget. Trace calls get at
// most half of the remaining time. Trace calls and waits for call slots together get at most three
// quarters of the remaining time. The last quarter is reserved for the transport rules.
func (p *pass) readContext(ctx context.Context) (context.Context, context.CancelFunc) {
	p.readBudget = maxTraceTime
	deadline, hasDeadline := ctx.Deadline()
	if !hasDeadline {
		return context.WithCancel(ctx)
	}
	remaining := time.Until(deadline)
	p.readBudget = min(maxTraceTime, remaining/2)
	return context.WithTimeout(ctx, remaining*3/4)
}

// countReading reads the trace of one reading's period and stores the counts. If it cannot read the
// whole period, it stores partial counts and returns the error.
func (p *pass) countReading(ctx, readCtx context.Context, r sendlimit.Reading) error {
	mailboxes, err := p.Claims.CountedMailboxes(ctx, p.TenantClaim, r.Days[0].Start)
	if err != nil {
		return err
	}
	if r.Sent, err = p.readSent(readCtx, r, rotateRandomly(mailboxes)); err != nil {
		return errors.Join(fmt.Errorf("read trace: %w", err), p.savePartial(ctx, r, mailboxes))
	}
	if err := p.saveReading(ctx, r, mailboxes); err != nil {
		return err
	}
	if r.To.Equal(p.now) {
		p.todayReading = r
	}
	return nil
}

// rotateRandomly returns the mailboxes rotated by a random offset. The trace is read in this order
// of mailboxes. Passes that run out of time therefore usually miss different mailboxes.
func rotateRandomly(mailboxes []ports.CountedMailbox) []ports.CountedMailbox {
	if len(mailboxes) == 0 {
		return nil
	}
	first := rand.IntN(len(mailboxes))
	return slices.Concat(mailboxes[first:], mailboxes[:first])
}

// readSent returns the messages that managed mailboxes sent and that were not refused. If a call
// fails, it returns the messages read so far and the error. It drops all other messages after each
// page, to bound memory.
func (p *pass) readSent(ctx context.Context, r sendlimit.Reading, mailboxes []ports.CountedMailbox) (sent []sendlimit.Sent, err error) {
	query := sendlimit.TraceQuery{From: r.From, To: r.To}
	managed := make(map[string]bool, len(mailboxes))
	for _, m := range mailboxes {
		query.Senders = append(query.Senders, m.Address)
		managed[strings.ToLower(m.Address)] = true
	}
	for more := len(mailboxes) > 0 && r.To.After(r.From); more; more = query.Cursor != "" {
		var page sendlimit.Trace
		if err := p.callReadOnly(ctx, func(ctx context.Context) (err error) {
			defer func(began time.Time) { p.readBudget -= time.Since(began) }(time.Now())
			ctx, cancel := context.WithTimeout(ctx, p.readBudget)
			defer cancel()
			page, err = p.platform.Sent(ctx, query)
			return err
		}); err != nil {
			return sent, err
		}
		for _, s := range page.Sent {
			if !s.Refused && managed[strings.ToLower(s.Sender)] {
				sent = append(sent, s)
			}
		}
		query.Cursor = page.Next
	}
	return sent, nil
}

// saveReading stores the counts of a complete reading. If the reading starts after the start of a
// day, saveReading updates only mailboxes that already have a count for that day. The count of any
// other mailbox stays unknown, because a missing count is not zero.
func (p *pass) saveReading(ctx context.Context, r sendlimit.Reading, mailboxes []ports.CountedMailbox) error {
	tally := r.Tally()
	counts := ports.SendCounts{At: p.now, Mark: r.Mark, ByMailbox: make(map[string][]sendlimit.Count, len(mailboxes))}
	for _, day := range r.Days {
		if day.Start.Equal(p.day.Start) {
			counts.Today = day.Start
		}
		for _, m := range mailboxes {
			if stored, counted := countOn(m, day.Start); counted || !day.Start.Before(r.From) {
				counts.ByMailbox[m.ID] = append(counts.ByMailbox[m.ID], tally.CountAfter(stored, m.Address))
			}
		}
	}
	return p.saveCounts(ctx, counts)
}

// savePartial stores the counts of an incomplete reading that exceed the stored counts. A partial
// count is a lower bound: it can block a mailbox but cannot unblock one. The stored mark does not
// change, so the next pass reads the same period again.
func (p *pass) savePartial(ctx context.Context, r sendlimit.Reading, mailboxes []ports.CountedMailbox) error {
	r.Mark = r.From // no message counts as final
	tally := r.Tally()
	counts := ports.SendCounts{At: p.now, ByMailbox: map[string][]sendlimit.Count{}}
	for _, day := range r.Days {
		for _, m := range mailboxes {
			stored, counted := countOn(m, day.Start)
			if !counted && day.Start.Before(r.From) {
				continue
			}
			atLeast := tally.CountAfter(stored, m.Address)
			if atLeast.Partial = true; atLeast.Total() > stored.Total() {
				counts.ByMailbox[m.ID] = append(counts.ByMailbox[m.ID], atLeast)
			}
		}
	}
	if len(counts.ByMailbox) == 0 {
		return nil
	}
	return p.saveCounts(ctx, counts)
}

func (p *pass) saveCounts(ctx context.Context, counts ports.SendCounts) error {
	return leaseError(p.Claims.SaveCounts(ctx, p.TenantClaim, counts))
}

// countOn returns the stored count of a mailbox on a day, or a zero count and false.
func countOn(m ports.CountedMailbox, day time.Time) (sendlimit.Count, bool) {
	if i := slices.IndexFunc(m.Counts, func(c sendlimit.Count) bool { return c.Day.Equal(day) }); i >= 0 {
		return m.Counts[i], true
	}
	return sendlimit.Count{Day: day}, false
}
