// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// heldRow is a tenant with where its days are, found by its GUID alone.
type heldRow struct {
	tenantRow `bun:",extend"`

	Place string `bun:",scanonly"`
}

func heldByGUID(db bun.IDB, row *heldRow, id tenant.GUID) *bun.SelectQuery {
	return db.NewSelect().Model(row).ColumnExpr("?TableColumns").ColumnExpr("COALESCE(st.place, '') AS place").
		Join("JOIN tenant_holders AS h ON h.account_id = t.account_id AND h.guid = t.guid").
		Join(standingOfTenant).
		Where("h.guid = ?", ident.Lookup(string(id)))
}

func oneHeld(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.TenantNotFound.With("no account holds this tenant")
	}
	return err
}

// Day implements ports.SendDays.
func (s *Store) Day(ctx context.Context, id tenant.GUID) (string, access.AccountID, error) {
	var held heldRow
	err := s.run(ctx, "find a tenant's day", func(ctx context.Context, db bun.IDB) error {
		return oneHeld(heldByGUID(db, &held, id).Scan(ctx))
	})
	return cmp.Or(held.Place, sendlimit.UsualPlace), access.AccountID(held.AccountID), err
}

// SetDay implements ports.SendDays.
func (s *Store) SetDay(ctx context.Context, id tenant.GUID, place string) (access.AccountID, error) {
	var held heldRow
	err := s.atomically(ctx, "set a tenant's day", func(ctx context.Context, tx bun.IDB) error {
		held = heldRow{}
		if err := oneHeld(s.locked(heldByGUID(tx, &held, id), "t").Scan(ctx)); err != nil {
			return err
		}
		if cmp.Or(held.Place, sendlimit.UsualPlace) == place {
			return nil
		}
		row := sendTenantRow{AccountID: held.AccountID, TenantID: held.ID, Place: text(place), DueAt: micro(time.Unix(0, 0))}
		if _, err := tx.NewInsert().Model(&row).On("CONFLICT (account_id, tenant_id) DO UPDATE").Set("place = EXCLUDED.place").
			Set("mark = NULL").Set("due_at = EXCLUDED.due_at").Set("epoch = st.epoch + 1").Set("leased_until = 0").Exec(ctx); err != nil {
			return err
		}
		if err := dropCounts(ctx, tx, held.AccountID, held.ID, forgotten); err != nil {
			return err
		}
		return s.record(ctx, tx, audit.SetTenantDay, held.AccountID, map[string]string{"tenant_id": held.GUID, "time_zone": place})
	})
	return access.AccountID(held.AccountID), err
}

// forgotten is later than any day that was counted.
var forgotten = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// dropCounts forgets what a tenant's mailboxes sent on days that began before.
func dropCounts(ctx context.Context, tx bun.IDB, owner, tenantID string, before time.Time) error {
	_, err := tx.NewDelete().Model((*sendsRow)(nil)).Where("ms.account_id = ?", owner).Where("ms.day_start < ?", micro(before)).
		Where("ms.mailbox_id IN (SELECT m.id FROM mailboxes AS m WHERE m.account_id = ? AND m.tenant_id = ?)", owner, tenantID).Exec(ctx)
	return err
}
