// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
)

// droppedAtOnce is how many events one transaction deletes.
const droppedAtOnce = 5000

// DropEvents implements ports.EnforcementEvents.
func (s *Store) DropEvents(ctx context.Context, before time.Time) (int, error) {
	var days []countRow
	err := s.run(ctx, "list days of enforcement events", func(ctx context.Context, db bun.IDB) error {
		days = nil
		return daysOfEvents(db, before).Scan(ctx, &days)
	})
	if err != nil {
		return 0, err
	}
	return s.dropDays(ctx, days)
}

// dropLog deletes all events of an account.
func (s *Store) dropLog(ctx context.Context, owner string) error {
	var days []countRow
	err := s.run(ctx, "list an account's days of enforcement events", func(ctx context.Context, db bun.IDB) error {
		days = nil
		return db.NewSelect().Model(&days).Distinct().Column("account_id", "starts").Where("ec.account_id = ?", owner).
			Where("ec.tenant_guid = ?", ident.Zero).Where("ec.span = ?", day).Order("ec.starts").Scan(ctx)
	})
	if err == nil {
		_, err = s.dropDays(ctx, days)
	}
	return err
}

func (s *Store) dropDays(ctx context.Context, days []countRow) (dropped int, err error) {
	for _, d := range days {
		for n := droppedAtOnce; err == nil && n == droppedAtOnce; dropped += n {
			n, err = s.dropSome(ctx, d, droppedAtOnce)
		}
	}
	return dropped, err
}

// daysOfEvents are the days of accounts that ended by before.
func daysOfEvents(db bun.IDB, before time.Time) *bun.SelectQuery {
	return db.NewSelect().Model((*countRow)(nil)).Distinct().Column("account_id", "starts").Where("ec.tenant_guid = ?", ident.Zero).
		Where("ec.span = ?", day).Where("ec.starts <= ?", before.Unix()-day).Order("ec.starts", "ec.account_id")
}

// dropSome deletes events of a day, at most that many, and takes them out of the
// counts, so that both fit to each other at any moment.
func (s *Store) dropSome(ctx context.Context, d countRow, most int) (n int, err error) {
	err = s.atomically(ctx, "drop enforcement events", func(ctx context.Context, tx bun.IDB) error {
		some := tx.NewSelect().Model((*enforcementRow)(nil)).Column("id").Where("ev.account_id = ?", d.AccountID).
			Where("ev.id >= ?", firstID(d.Starts)).Where("ev.id < ?", firstID(d.Starts+day)).Order("ev.id").Limit(int64(most))
		var gone []enforcementRow
		if err := tx.NewDelete().Model(&gone).Where("ev.account_id = ?", d.AccountID).Where("ev.id IN (?)", some).
			Returning("account_id, id, tenant_guid, action").Scan(ctx); err != nil {
			return err
		}
		n = len(gone)
		return takeOut(ctx, tx, d, gone)
	})
	return n, err
}

// takeOut subtracts events of a day from the counts, and drops those that are
// empty then.
func takeOut(ctx context.Context, tx bun.IDB, d countRow, gone []enforcementRow) error {
	less, tenants := map[countRow]int{}, map[string]bool{}
	for _, row := range gone {
		for _, c := range countedIn(row) {
			less[c]--
			tenants[c.TenantGUID] = true
		}
	}
	if err := addCounts(ctx, tx, less); err != nil || len(less) == 0 {
		return err
	}
	guids := make([]string, 0, len(tenants))
	for guid := range tenants {
		guids = append(guids, guid)
	}
	slices.Sort(guids)
	_, err := tx.NewDelete().Model((*countRow)(nil)).Where("ec.account_id = ?", d.AccountID).Where("ec.tenant_guid IN (?)", bun.List(guids)).
		Where("ec.action IN (?)", bun.List([]sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked})).Where("ec.span IN (?)", bun.List([]int{hour, day})).
		Where("ec.starts >= ?", d.Starts).Where("ec.starts < ?", d.Starts+day).Where("ec.events <= 0").Exec(ctx)
	return err
}
