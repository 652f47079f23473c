// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
)

// Attach implements ports.Tenants. The lock on the account makes counting and
// taking a slot one step; the key of tenant_holders decides between accounts.
func (s *Store) Attach(ctx context.Context, owner access.AccountID, t tenant.Tenant, slots int) (tenant.Tenant, error) {
	row := newTenantRow(account(owner), t)
	row.ID, row.Consent = newID(), string(tenant.ConsentGranted)
	var attached tenant.Tenant
	err := s.atomically(ctx, "attach tenant", func(ctx context.Context, tx bun.IDB) error {
		if err := s.lockAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		renewed, err := renew(ctx, tx, row)
		if err != nil {
			return err
		}
		if !renewed {
			if err := takeSlot(ctx, tx, row, slots); err != nil {
				return err
			}
		}
		attached, err = selectTenant(ctx, tx, row.AccountID, row.GUID)
		return err
	})
	return attached, err
}

func (s *Store) lockAccount(ctx context.Context, tx bun.IDB, owner string) error {
	var id string
	err := s.locked(tx.NewSelect().Model((*accountRow)(nil)).Column("account_id").
		Where("account_id = ?", owner), "a").Scan(ctx, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return fault.AccountNotFound.With("there is no such account")
	}
	return err
}

// renew is the consent of a tenant that the account holds already.
func renew(ctx context.Context, tx bun.IDB, row tenantRow) (bool, error) {
	res, err := tx.NewUpdate().Model(&row).Column("consent", "consented_at", "connected_by").
		Where("account_id = ?", row.AccountID).Where("guid = ?", row.GUID).Exec(ctx)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

func takeSlot(ctx context.Context, tx bun.IDB, row tenantRow, slots int) error {
	held, err := countTenants(ctx, tx, row.AccountID)
	if err != nil {
		return err
	}
	if err := (access.Account{Plan: access.Plan{TenantSlots: slots}}).MayAttach(held); err != nil {
		return err
	}
	holder := holderRow{GUID: row.GUID, AccountID: row.AccountID}
	res, err := tx.NewInsert().Model(&holder).On("CONFLICT DO NOTHING").Exec(ctx)
	if err := changed(res, err, fault.TenantHeld.With("this tenant is connected already")); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return err
	}
	_, err = tx.NewDelete().Model((*withdrawnRow)(nil)).
		Where("account_id = ?", row.AccountID).Where("guid = ?", row.GUID).Exec(ctx)
	return err
}
