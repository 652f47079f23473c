// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// eventsAtOnce is how many events one statement inserts.
const eventsAtOnce = 500

// RecordEvents implements ports.EnforcementEvents. What is there already is only
// looked for when it was in the way: a batch that is repeated is rare.
func (s *Store) RecordEvents(ctx context.Context, owner access.AccountID, events []sendlimit.Event) error {
	repeated := false
	return s.atomically(ctx, "record enforcement events", func(ctx context.Context, tx bun.IDB) error {
		fresh := events
		if repeated {
			var err error
			if fresh, err = unrecorded(ctx, tx, account(owner), events); err != nil {
				return err
			}
		}
		err := recordEvents(ctx, tx, account(owner), fresh)
		repeated = err != nil
		return err
	})
}

// unrecorded are those of events that are not there, each once.
func unrecorded(ctx context.Context, tx bun.IDB, owner string, events []sendlimit.Event) (fresh []sendlimit.Event, err error) {
	there := map[string]bool{}
	for some := range slices.Chunk(events, eventsAtOnce) {
		ids := make([]string, 0, len(some))
		for _, e := range some {
			ids = append(ids, ident.Lookup(e.ID))
		}
		var known []string
		if err := tx.NewSelect().Model((*enforcementRow)(nil)).Column("id").Where("ev.account_id = ?", owner).
			Where("ev.id IN (?)", bun.List(ids)).Scan(ctx, &known); err != nil {
			return nil, err
		}
		for _, id := range known {
			there[id] = true
		}
	}
	for _, e := range events {
		if id := ident.Lookup(e.ID); !there[id] {
			there[id] = true
			fresh = append(fresh, e)
		}
	}
	return fresh, nil
}

// recordEvents adds events, none of which is there, and counts them. The counts
// of an account are written last and in order: they are what its transactions
// would wait for each other at.
func recordEvents(ctx context.Context, tx bun.IDB, owner string, events []sendlimit.Event) error {
	counts := map[countRow]int{}
	for some := range slices.Chunk(events, eventsAtOnce) {
		insert := make([]enforcementRow, 0, len(some))
		for _, e := range some {
			row := newEnforcementRow(owner, e)
			insert = append(insert, row)
			for _, c := range countedIn(row) {
				counts[c]++
			}
		}
		if _, err := tx.NewInsert().Model(&insert).Exec(ctx); err != nil {
			return err
		}
	}
	return addCounts(ctx, tx, counts)
}

func addCounts(ctx context.Context, tx bun.IDB, counts map[countRow]int) error {
	if len(counts) == 0 {
		return nil
	}
	rows := make([]countRow, 0, len(counts))
	for row, n := range counts {
		row.Events = n
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b countRow) int {
		return cmp.Or(cmp.Compare(b.TenantGUID, a.TenantGUID), cmp.Compare(b.Action, a.Action), cmp.Compare(a.Span, b.Span), cmp.Compare(a.Starts, b.Starts))
	})
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (account_id, tenant_guid, action, span, starts) DO UPDATE").
		Set("events = ec.events + EXCLUDED.events").Exec(ctx)
	return err
}

// Events implements ports.EnforcementEvents.
func (s *Store) Events(ctx context.Context, owner access.AccountID, q ports.EventQuery) (ports.EventPage, error) {
	var page ports.EventPage
	err := s.snapshot(ctx, "list enforcement events", func(ctx context.Context, tx bun.IDB) error {
		page = ports.EventPage{Events: []sendlimit.Event{}}
		if q.Tenant != "" {
			held, err := tx.NewSelect().Model((*tenantRow)(nil)).Where("t.account_id = ?", account(owner)).
				Where("t.guid = ?", ident.Lookup(string(q.Tenant))).Exists(ctx)
			if err != nil || !held {
				return cmp.Or(err, noTenant())
			}
		}
		days, err := counts(ctx, tx, owner, q, day, 0, forever)
		if err != nil {
			return err
		}
		for _, d := range days {
			page.Total += d.Events
		}
		if q.Offset >= page.Total {
			return nil
		}
		page.Events, err = seek(ctx, tx, owner, q, days)
		return err
	})
	return page, err
}

// forever is later than any event.
const forever = 1 << 48 / 1000

// seek passes over whole days, then over whole hours of the day in which the
// page begins, and so never over more rows than an hour has.
func seek(ctx context.Context, tx bun.IDB, owner access.AccountID, q ports.EventQuery, days []countRow) ([]sendlimit.Event, error) {
	in, rest := pass(days, q.Offset)
	hours, err := counts(ctx, tx, owner, q, hour, in.Starts, in.Starts+day)
	if err != nil {
		return nil, err
	}
	in, rest = pass(hours, rest)
	var rows []enforcementRow
	query := tx.NewSelect().Model(&rows).Where("ev.account_id = ?", account(owner)).Where("ev.id < ?", firstID(in.Starts+hour))
	if q.Tenant != "" {
		query = query.Where("ev.tenant_guid = ?", ident.Lookup(string(q.Tenant)))
	}
	if q.Action != "" {
		query = query.Where("ev.action = ?", string(q.Action))
	}
	err = query.OrderExpr("ev.id DESC").Limit(int64(q.Limit)).Offset(int64(rest)).Scan(ctx)
	events := make([]sendlimit.Event, 0, len(rows))
	for _, r := range rows {
		events = append(events, r.event())
	}
	return events, err
}

// pass goes over spans that lie before an offset, and returns the one that it
// lies in with what of it is left.
func pass(spans []countRow, offset int) (in countRow, rest int) {
	for _, in = range spans {
		if offset < in.Events {
			break
		}
		offset -= in.Events
	}
	return in, offset
}

// counts are an account's, for one filter, newest first. What is counted for
// each action adds up to what there is.
func counts(ctx context.Context, tx bun.IDB, owner access.AccountID, q ports.EventQuery, span int, from, to int64) ([]countRow, error) {
	var rows []countRow
	guid := ident.Zero
	if q.Tenant != "" {
		guid = ident.Lookup(string(q.Tenant))
	}
	actions := []sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked}
	if q.Action != "" {
		actions = []sendlimit.Action{q.Action}
	}
	err := tx.NewSelect().Model(&rows).Column("starts").ColumnExpr("CAST(SUM(ec.events) AS bigint) AS events").
		Where("ec.account_id = ?", account(owner)).Where("ec.tenant_guid = ?", guid).Where("ec.action IN (?)", bun.List(actions)).
		Where("ec.span = ?", span).Where("ec.starts >= ?", from).Where("ec.starts < ?", to).
		GroupExpr("ec.starts").OrderExpr("ec.starts DESC").Scan(ctx)
	return rows, err
}
