// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

var _ ports.SendRoom = (*Store)(nil)

type licensesRow struct {
	bun.BaseModel `bun:"table:tenant_licenses,alias:tl"`

	AccountID string `bun:",pk"`
	TenantID  string `bun:",pk"`
	Paid      int
	Trial     int
	ReadAt    time.Time
}

// SaveLicenses implements ports.SendRoom.
func (s *Store) SaveLicenses(ctx context.Context, owner access.AccountID, id tenant.GUID, l tenant.Licenses, at time.Time) error {
	return s.atomically(ctx, "save licences", func(ctx context.Context, tx bun.IDB) error {
		var t tenantRow
		err := s.locked(tx.NewSelect().Model(&t).Where("t.account_id = ?", account(owner)).
			Where("t.guid = ?", ident.Lookup(string(id))), "t").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return noTenant()
		}
		if err != nil {
			return err
		}
		row := licensesRow{AccountID: t.AccountID, TenantID: t.ID, Paid: l.Paid, Trial: l.Trial, ReadAt: micro(at)}
		_, err = tx.NewInsert().Model(&row).On("CONFLICT (account_id, tenant_id) DO UPDATE").
			Set("paid = EXCLUDED.paid").Set("trial = EXCLUDED.trial").Set("read_at = EXCLUDED.read_at").
			Where("tl.read_at <= EXCLUDED.read_at").Exec(ctx)
		return err
	})
}

// sendingRow is a tenant, once for each mailbox that was ever counted.
type sendingRow struct {
	Place        string
	Paid         int
	Trial        int
	ReadAt       time.Time
	SendsToday   int
	SendsTodayAt time.Time
}

// Sending implements ports.SendRoom.
func (s *Store) Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, now time.Time) (tenant.Sending, error) {
	var rows []sendingRow
	err := s.run(ctx, "read what a tenant sends", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("COALESCE(st.place, '') AS place").
			ColumnExpr("tl.paid, tl.trial, tl.read_at, m.sends_today, m.sends_today_at").
			Join(standingOfTenant).
			Join("LEFT JOIN tenant_licenses AS tl ON tl.account_id = t.account_id AND tl.tenant_id = t.id").
			Join("LEFT JOIN mailboxes AS m ON "+boxOfTenant+" AND m.sends_today_at IS NOT NULL AND m.stage IN (?)",
				listedStages).
			Where("t.account_id = ?", account(owner)).Where("t.guid = ?", ident.Lookup(string(id))).Scan(ctx, &rows)
	})
	if err != nil {
		return tenant.Sending{}, err
	}
	if len(rows) == 0 {
		return tenant.Sending{}, noTenant()
	}
	return sending(rows, now)
}

func sending(rows []sendingRow, now time.Time) (tenant.Sending, error) {
	first := rows[0]
	place, err := sendlimit.Place(cmp.Or(first.Place, sendlimit.UsualPlace))
	if err != nil {
		return tenant.Sending{}, fmt.Errorf("the tenant's day: %w", err)
	}
	out := tenant.Sending{Licenses: tenant.Licenses{Paid: first.Paid, Trial: first.Trial}, LicensesAt: first.ReadAt.UTC()}
	today := sendlimit.DayOf(now, place)
	for _, r := range rows {
		if !today.Has(r.SendsTodayAt) {
			continue
		}
		out.Today += r.SendsToday
		if at := r.SendsTodayAt.UTC(); out.TodayAt.IsZero() || at.Before(out.TodayAt) {
			out.TodayAt = at
		}
	}
	return out, nil
}
