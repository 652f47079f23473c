// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// countsKept is how long counts of a day stay that no reading reaches any more.
const countsKept = 48 * time.Hour

// SendBoxes implements ports.SendRuns.
func (s *Store) SendBoxes(ctx context.Context, r ports.SendRun, since time.Time) ([]ports.SendBox, error) {
	var boxes []mailboxRow
	var sends []sendsRow
	var grounds map[string]groundRow
	owner, guid := account(r.Account), ident.Lookup(string(r.Tenant))
	err := s.snapshot(ctx, "list mailboxes with counts", func(ctx context.Context, tx bun.IDB) error {
		boxes, sends = nil, nil
		if err := tx.NewSelect().Model(&boxes).Column("id", "address", "domain_name", "daily_send_limit", "blocked_at").
			Where("m.account_id = ?", owner).Where("m.tenant_id = "+tenantOfRun, owner, guid).Where("m.stage IN (?)", listedStages).Order("m.address").Scan(ctx); err != nil {
			return err
		}
		ids := make([]string, 0, len(boxes))
		for _, m := range boxes {
			ids = append(ids, m.ID)
		}
		// By their ids: a join may go through what the account's other tenants sent.
		for some := range slices.Chunk(ids, batch) {
			var counted []sendsRow
			if err := tx.NewSelect().Model(&counted).Where("ms.account_id = ?", owner).Where("ms.mailbox_id IN (?)", bun.List(some)).
				Where("ms.day_start >= ?", micro(since)).Order("ms.day_start").Scan(ctx); err != nil {
				return err
			}
			sends = append(sends, counted...)
		}
		var err error
		grounds, err = groundsOf(ctx, tx, owner, boxes)
		return err
	})
	counts := map[string][]sendlimit.Count{}
	for _, c := range sends {
		counts[c.MailboxID] = append(counts[c.MailboxID], c.count())
	}
	all := make([]ports.SendBox, 0, len(boxes))
	for _, m := range boxes {
		all = append(all, ports.SendBox{Counts: counts[m.ID], Box: m.box(grounds[m.ID])})
	}
	return all, err
}

// SaveCounts implements ports.SendRuns.
func (s *Store) SaveCounts(ctx context.Context, r ports.SendRun, c ports.SendCounts) (bool, error) {
	lock := func(ctx context.Context, tx bun.IDB, own *sendTenantRow) error {
		if c.Mark.IsZero() {
			return s.lockRun(ctx, tx, r, own)
		}
		return ofRun(tx, r).Set("mark = ?", micro(c.Mark)).Returning("*").Scan(ctx, own)
	}
	return s.inRun(ctx, "save counts", lock, func(ctx context.Context, tx bun.IDB, own sendTenantRow) error {
		var there []string
		if err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", own.AccountID).
			Where("m.tenant_id = ?", own.TenantID).Scan(ctx, &there); err != nil {
			return err
		}
		if err := putCounts(ctx, tx, own, there, c); err != nil {
			return err
		}
		passed, news := passed(r.Mark, c.Mark)
		if !news {
			return nil
		}
		return dropCounts(ctx, tx, own.AccountID, own.TenantID, passed.Add(-countsKept))
	})
}

// passed is the mark that says which counts are of no use any more: the earlier
// one of two runs, as the clock of one may be ahead. It has news once a day, which
// is often enough.
func passed(was, is time.Time) (mark time.Time, news bool) {
	if was.IsZero() || is.IsZero() || was.UTC().Format(time.DateOnly) == is.UTC().Format(time.DateOnly) {
		return mark, false
	}
	if is.Before(was) {
		return is, true
	}
	return was, true
}

// putCounts stores the counts of mailboxes that are there, and shows today's.
func putCounts(ctx context.Context, tx bun.IDB, own sendTenantRow, there []string, c ports.SendCounts) error {
	var rows []sendsRow
	var today []string
	for _, id := range there {
		for _, count := range c.Boxes[id] {
			row := sendsRow{AccountID: own.AccountID, MailboxID: id, DayStart: micro(count.Day),
				Settled: count.Settled, Recent: count.Recent, CountedAt: micro(c.At)}
			if count.Part {
				row.CountedAt = row.DayStart
			}
			rows = append(rows, row)
			if count.Day.Equal(c.Today) {
				today = append(today, id)
			}
		}
	}
	slices.SortFunc(rows, func(a, b sendsRow) int {
		return cmp.Or(cmp.Compare(a.MailboxID, b.MailboxID), a.DayStart.Compare(b.DayStart))
	})
	for some := range slices.Chunk(rows, batch) {
		if _, err := tx.NewInsert().Model(&some).On("CONFLICT (account_id, mailbox_id, day_start) DO UPDATE").
			Set("settled = EXCLUDED.settled").Set("recent = EXCLUDED.recent").Set("counted_at = EXCLUDED.counted_at").
			Where("ms.settled <> EXCLUDED.settled OR ms.recent <> EXCLUDED.recent OR ms.counted_at <= ms.day_start").Exec(ctx); err != nil {
			return err
		}
	}
	return showToday(ctx, tx, own, today, c)
}

// showToday makes the counts of today those that callers see.
func showToday(ctx context.Context, tx bun.IDB, own sendTenantRow, ids []string, c ports.SendCounts) error {
	for some := range slices.Chunk(ids, batch) {
		if _, err := tx.NewUpdate().Model((*mailboxRow)(nil)).
			Set("sends_today = (SELECT ms.settled + ms.recent FROM mailbox_sends AS ms WHERE ms.account_id = m.account_id "+
				"AND ms.mailbox_id = m.id AND ms.day_start = ?)", micro(c.Today)).
			Set("sends_today_at = ?", micro(c.At)).
			Where("m.account_id = ?", own.AccountID).Where("m.id IN (?)", bun.List(some)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
