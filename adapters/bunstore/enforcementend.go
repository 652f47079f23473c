// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
)

// DropEvents implements ports.EnforcementEvents.
func (s *Store) DropEvents(ctx context.Context, before time.Time) (int, error) {
	dropped := 0
	var days []countRow
	err := s.run(ctx, "list days of enforcement events", func(ctx context.Context, db bun.IDB) error {
		days = nil
		return db.NewSelect().Model(&days).Distinct().Column("account_id", "starts").Where("ec.tenant_guid = ?", ident.Zero).
			Where("ec.span = ?", day).Where("ec.starts <= ?", before.Unix()-day).Order("ec.starts", "ec.account_id").Scan(ctx)
	})
	for _, d := range days {
		if err != nil {
			break
		}
		var n int
		n, err = s.dropDay(ctx, d)
		dropped += n
	}
	return dropped, err
}

// dropLog deletes all events of an account.
func (s *Store) dropLog(ctx context.Context, owner string) error {
	var days []countRow
	err := s.run(ctx, "list an account's days of enforcement events", func(ctx context.Context, db bun.IDB) error {
		days = nil
		return db.NewSelect().Model(&days).Distinct().Column("account_id", "starts").Where("ec.account_id = ?", owner).
			Where("ec.tenant_guid = ?", ident.Zero).Where("ec.span = ?", day).Order("ec.starts").Scan(ctx)
	})
	for _, d := range days {
		if err == nil {
			_, err = s.dropDay(ctx, d)
		}
	}
	return err
}

func (s *Store) dropDay(ctx context.Context, d countRow) (n int, err error) {
	err = s.atomically(ctx, "drop a day of enforcement events", func(ctx context.Context, tx bun.IDB) error {
		if _, err := tx.NewDelete().Model((*countRow)(nil)).Where("ec.account_id = ?", d.AccountID).
			Where("ec.starts >= ?", d.Starts).Where("ec.starts < ?", d.Starts+day).Exec(ctx); err != nil {
			return err
		}
		res, err := tx.NewDelete().Model((*enforcementRow)(nil)).Where("ev.account_id = ?", d.AccountID).
			Where("ev.id >= ?", firstID(d.Starts)).Where("ev.id < ?", firstID(d.Starts+day)).Exec(ctx)
		if err != nil {
			return err
		}
		gone, err := res.RowsAffected()
		n = int(gone)
		return err
	})
	return n, err
}
