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

// maxRead is the longest time that one pass spends in trace calls. The time that a call waits for a
// call slot does not count.
const maxRead = 25 * time.Second

// count reads the trace from the last mark to now and stores the counts of each day in between.
// Each reading is stored before the next one begins, so several passes can share a long trace.
func (p *pass) count(ctx context.Context) error {
	reading, cancel := p.readContext(ctx)
	defer cancel()
	for _, r := range sendlimit.Readings(p.Mark, p.now, p.zone) {
		if err := p.countReading(ctx, reading, r); err != nil {
			return err
		}
	}
	return nil
}

// readContext returns the context for reading the trace and sets readBudget. Trace calls get at
// most half of the remaining time, and waiting for call slots at most another quarter. The rest is
// reserved for the rules.
func (p *pass) readContext(ctx context.Context) (context.Context, context.CancelFunc) {
	p.readBudget = maxRead
	end, has := ctx.Deadline()
	if !has {
		return context.WithCancel(ctx)
	}
	remaining := time.Until(end)
	p.readBudget = min(maxRead, remaining/2)
	return context.WithTimeout(ctx, remaining*3/4)
}

// countReading makes one reading and stores its counts. When the trace cannot be read to its end,
// countReading stores partial counts and returns the error.
func (p *pass) countReading(ctx, reading context.Context, r sendlimit.Reading) error {
	boxes, err := p.Runs.SendBoxes(ctx, p.SendRun, r.Days[0].Start)
	if err != nil {
		return err
	}
	if r.Sent, err = p.readSent(reading, r, rotated(boxes)); err != nil {
		return errors.Join(fmt.Errorf("read trace: %w", err), p.savePartial(ctx, r, boxes))
	}
	if err := p.saveReading(ctx, r, boxes); err != nil {
		return err
	}
	if r.To.Equal(p.now) {
		p.todayReading = r
	}
	return nil
}

// rotated returns the mailboxes rotated by a random offset. The platform is queried in this order.
// If passes cannot read the whole trace, the offset varies which mailboxes are missed.
func rotated(boxes []ports.SendBox) []ports.SendBox {
	if len(boxes) == 0 {
		return nil
	}
	first := rand.IntN(len(boxes))
	return slices.Concat(boxes[first:], boxes[:first])
}

// readSent returns the messages that managed mailboxes sent. If a call fails, it returns the
// messages read so far and the error. Rows of other senders are dropped page by page, to bound
// memory.
func (p *pass) readSent(ctx context.Context, r sendlimit.Reading, boxes []ports.SendBox) (sent []sendlimit.Sent, err error) {
	q := sendlimit.TraceQuery{From: r.From, To: r.To}
	managed := make(map[string]bool, len(boxes))
	for _, b := range boxes {
		q.Senders = append(q.Senders, b.Address)
		managed[strings.ToLower(b.Address)] = true
	}
	for more := len(boxes) > 0 && r.To.After(r.From); more; more = q.Cursor != "" {
		var page sendlimit.Trace
		if err := p.callReadOnly(ctx, func(ctx context.Context) (err error) {
			defer func(began time.Time) { p.readBudget -= time.Since(began) }(time.Now())
			ctx, cancel := context.WithTimeout(ctx, p.readBudget)
			defer cancel()
			page, err = p.platform.Sent(ctx, q)
			return err
		}); err != nil {
			return sent, err
		}
		for _, s := range page.Sent {
			if !s.Refused && managed[strings.ToLower(s.Sender)] {
				sent = append(sent, s)
			}
		}
		q.Cursor = page.Next
	}
	return sent, nil
}

// saveReading stores the counts of a complete reading. If a reading misses the start of a day, only
// mailboxes with an earlier count for that day are updated. The count of any other mailbox is
// unknown, and a missing count is not zero.
func (p *pass) saveReading(ctx context.Context, r sendlimit.Reading, boxes []ports.SendBox) error {
	tally := r.Tally()
	c := ports.SendCounts{At: p.now, Mark: r.Mark, Boxes: make(map[string][]sendlimit.Count, len(boxes))}
	for _, day := range r.Days {
		if day.Start.Equal(p.day.Start) {
			c.Today = day.Start
		}
		for _, b := range boxes {
			if before, counted := countOn(b, day.Start); counted || !day.Start.Before(r.From) {
				c.Boxes[b.ID] = append(c.Boxes[b.ID], tally.After(before, b.Address))
			}
		}
	}
	return p.saveCounts(ctx, c)
}

// savePartial stores what an incomplete reading counted. A partial count is a lower bound: it can
// block a mailbox but cannot unblock one. The mark does not move, so the next pass reads the same
// period again.
func (p *pass) savePartial(ctx context.Context, r sendlimit.Reading, boxes []ports.SendBox) error {
	r.Mark = r.From // no row of this reading is final
	tally := r.Tally()
	c := ports.SendCounts{At: p.now, Boxes: map[string][]sendlimit.Count{}}
	for _, day := range r.Days {
		for _, b := range boxes {
			before, counted := countOn(b, day.Start)
			if !counted && day.Start.Before(r.From) {
				continue
			}
			least := tally.After(before, b.Address)
			if least.Partial = true; least.Total() > before.Total() {
				c.Boxes[b.ID] = append(c.Boxes[b.ID], least)
			}
		}
	}
	if len(c.Boxes) == 0 {
		return nil
	}
	return p.saveCounts(ctx, c)
}

func (p *pass) saveCounts(ctx context.Context, c ports.SendCounts) error {
	return leaseError(p.Runs.SaveCounts(ctx, p.SendRun, c))
}

// countOn returns the count of a mailbox on a day, false if there is none.
func countOn(b ports.SendBox, day time.Time) (sendlimit.Count, bool) {
	if i := slices.IndexFunc(b.Counts, func(c sendlimit.Count) bool { return c.Day.Equal(day) }); i >= 0 {
		return b.Counts[i], true
	}
	return sendlimit.Count{Day: day}, false
}
