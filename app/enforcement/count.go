// SPDX-License-Identifier: Apache-2.0

package enforcement

import (
	"context"
	"fmt"
	"time"

	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
	"github.com/tenantry/tenantry/ports/failpoint"
)

// oldest is how far back the platform's trace is read. What was sent before, by
// a tenant that could not be asked for so long, stays unknown.
const oldest = 9 * 24 * time.Hour

// count reads the trace from where the last reading was good for, and stores
// what it counted on each day since.
func (w *look) count(ctx context.Context) error {
	r, err := w.read(ctx)
	if err != nil || !r.To.After(r.From) {
		return err
	}
	first := sendlimit.DayOf(r.From, w.place)
	boxes, err := w.Runs.SendBoxes(ctx, w.SendRun, first.Start)
	if err != nil {
		return err
	}
	w.reading, w.before = r, make(map[string]int, len(boxes))
	tally := r.Tally(w.place)
	c := ports.SendCounts{Today: w.day.Start, At: w.now, Mark: r.Mark(), Boxes: make(map[string][]sendlimit.Count, len(boxes))}
	for _, b := range boxes {
		w.before[b.ID] = on(b, w.day.Start).Settled
		for day := first; !day.Start.After(w.day.Start); day = sendlimit.DayOf(day.End, w.place) {
			c.Boxes[b.ID] = append(c.Boxes[b.ID], tally.After(on(b, day.Start), b.Address))
		}
	}
	failpoint.Hit("enforcement.before-counts")
	err = saved(w.Runs.SaveCounts(ctx, w.SendRun, c))
	failpoint.Hit("enforcement.after-counts")
	return err
}

// on is what was counted of a mailbox on a day.
func on(b ports.SendBox, day time.Time) sendlimit.Count {
	for _, c := range b.Counts {
		if c.Day.Equal(day) {
			return c
		}
	}
	return sendlimit.Count{Day: day}
}

// read reads the trace up to now. A clock that stepped back reads nothing.
func (w *look) read(ctx context.Context) (sendlimit.Reading, error) {
	r := sendlimit.Reading{From: w.Mark, To: w.now}
	if r.From.IsZero() {
		r.From = w.day.Start
	}
	if least := w.now.Add(-oldest); r.From.Before(least) {
		r.From = least
	}
	for cursor, more := "", r.To.After(r.From); more; {
		var page sendlimit.Trace
		if err := w.guard(ctx, func(ctx context.Context) (err error) {
			page, err = w.platform.Sent(ctx, r.From, r.To, cursor)
			return err
		}); err != nil {
			return r, fmt.Errorf("read trace: %w", err)
		}
		r.Sent = append(r.Sent, page.Sent...)
		cursor, more = page.Next, page.Next != ""
	}
	return r, nil
}
