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
	"github.com/tenantry/tenantry/ports/failpoint"
)

// reads is how long a look reads the trace at most, without the time in which its
// calls wait for those of others.
const reads = 25 * time.Second

// count reads the trace from where the last reading was good for, and stores
// what it counted on each day since. What is read is stored before more is: a
// trace that is too long for one look is read by several.
func (w *look) count(ctx context.Context) error {
	reading, cancel := w.mayRead(ctx)
	defer cancel()
	for _, r := range sendlimit.Readings(w.Mark, w.now, w.place) {
		if err := w.countOne(ctx, reading, r); err != nil {
			return err
		}
	}
	return nil
}

// mayRead says how long a look reads: half of the time that it has, and some more
// of it waiting, so that the rest is there for rules, however long the trace.
func (w *look) mayRead(ctx context.Context) (context.Context, context.CancelFunc) {
	w.left = reads
	end, has := ctx.Deadline()
	if !has {
		return context.WithCancel(ctx)
	}
	all := time.Until(end)
	w.left = min(reads, all/2)
	return context.WithTimeout(ctx, all*3/4)
}

// countOne makes a reading and stores what it counted, or what it had read of it
// when it ended.
func (w *look) countOne(ctx, reading context.Context, r sendlimit.Reading) error {
	boxes, err := w.Runs.SendBoxes(ctx, w.SendRun, r.Days[0].Start)
	if err != nil {
		return err
	}
	if r.Sent, err = w.read(reading, r, turned(boxes)); err != nil {
		return errors.Join(fmt.Errorf("read trace: %w", err), w.keepPart(ctx, r, boxes))
	}
	if err := w.keep(ctx, r, boxes); err != nil {
		return err
	}
	if r.To.Equal(w.now) {
		w.reading = r
	}
	return nil
}

// turned has any mailbox come first, by chance: the platform is asked about some
// after others, and looks that cannot read it all are not to leave out the same
// ones each time.
func turned(boxes []ports.SendBox) []ports.SendBox {
	if len(boxes) == 0 {
		return nil
	}
	first := rand.IntN(len(boxes))
	return slices.Concat(boxes[first:], boxes[:first])
}

// read reads what mailboxes of ours sent, or a part of it and why not the rest.
// Nothing else stays in memory.
func (w *look) read(ctx context.Context, r sendlimit.Reading, boxes []ports.SendBox) (sent []sendlimit.Sent, err error) {
	q := sendlimit.TraceQuery{From: r.From, To: r.To}
	ours := make(map[string]bool, len(boxes))
	for _, b := range boxes {
		q.Senders = append(q.Senders, b.Address)
		ours[strings.ToLower(b.Address)] = true
	}
	for more := len(boxes) > 0 && r.To.After(r.From); more; more = q.Cursor != "" {
		var page sendlimit.Trace
		if err := w.ask(ctx, func(ctx context.Context) (err error) {
			defer func(began time.Time) { w.left -= time.Since(began) }(time.Now())
			ctx, cancel := context.WithTimeout(ctx, w.left)
			defer cancel()
			page, err = w.platform.Sent(ctx, q)
			return err
		}); err != nil {
			return sent, err
		}
		for _, s := range page.Sent {
			if !s.Refused && ours[strings.ToLower(s.Sender)] {
				sent = append(sent, s)
			}
		}
		q.Cursor = page.Next
	}
	return sent, nil
}

// keep stores what a reading counted. Of a day that it does not have from its
// beginning that is something only for those that were counted before: a gap is
// no zero.
func (w *look) keep(ctx context.Context, r sendlimit.Reading, boxes []ports.SendBox) error {
	tally := r.Tally()
	c := ports.SendCounts{At: w.now, Mark: r.Mark, Boxes: make(map[string][]sendlimit.Count, len(boxes))}
	for _, day := range r.Days {
		if day.Start.Equal(w.day.Start) {
			c.Today = day.Start
		}
		for _, b := range boxes {
			if before, counted := on(b, day.Start); counted || !day.Start.Before(r.From) {
				c.Boxes[b.ID] = append(c.Boxes[b.ID], tally.After(before, b.Address))
			}
		}
	}
	return w.saveCounts(ctx, c)
}

// keepPart stores what a reading counted that came to no end: mailboxes sent at
// least that much, so whoever is beyond his limit by it is. Nobody is shown to be
// counted, and all is read again.
func (w *look) keepPart(ctx context.Context, r sendlimit.Reading, boxes []ports.SendBox) error {
	r.Mark = r.From // nothing is settled
	tally := r.Tally()
	c := ports.SendCounts{At: w.now, Boxes: map[string][]sendlimit.Count{}}
	for _, day := range r.Days {
		for _, b := range boxes {
			before, counted := on(b, day.Start)
			if !counted && day.Start.Before(r.From) {
				continue
			}
			least := tally.After(before, b.Address)
			if least.Part = true; least.Total() > before.Total() {
				c.Boxes[b.ID] = append(c.Boxes[b.ID], least)
			}
		}
	}
	if len(c.Boxes) == 0 {
		return nil
	}
	return w.saveCounts(ctx, c)
}

func (w *look) saveCounts(ctx context.Context, c ports.SendCounts) error {
	failpoint.Hit("enforcement.before-counts")
	err := saved(w.Runs.SaveCounts(ctx, w.SendRun, c))
	failpoint.Hit("enforcement.after-counts")
	return err
}

// on is what was counted of a mailbox on a day, if it was.
func on(b ports.SendBox, day time.Time) (sendlimit.Count, bool) {
	if i := slices.IndexFunc(b.Counts, func(c sendlimit.Count) bool { return c.Day.Equal(day) }); i >= 0 {
		return b.Counts[i], true
	}
	return sendlimit.Count{Day: day}, false
}
