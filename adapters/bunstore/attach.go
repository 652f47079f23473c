// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
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
		if _, err := s.lockOpen(ctx, tx, row.AccountID); err != nil {
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
		if attached, err = selectTenant(ctx, tx, row.AccountID, row.GUID); err != nil || !row.Managed {
			return err
		}
		return s.recordAssignment(ctx, tx, row, attached)
	})
	return attached, err
}

// recordAssignment is an operator's act, unless the account connected the
// tenant itself: that is not the operator's to take over.
func (s *Store) recordAssignment(ctx context.Context, tx bun.IDB, row tenantRow, attached tenant.Tenant) error {
	if !attached.Managed {
		return fault.TenantHeld.With("the account connected this tenant itself")
	}
	return s.record(ctx, tx, audit.AssignTenant, row.AccountID, tenantDetails(row))
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
