// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

// Assigned implements ports.Assignments.
func (s *Store) Assigned(ctx context.Context, id tenant.GUID) (access.AccountID, error) {
	var held tenantRow
	err := s.run(ctx, "find assigned tenant", func(ctx context.Context, db bun.IDB) error {
		return oneAssigned(assigned(db, &held, id).Scan(ctx))
	})
	return access.AccountID(held.AccountID), err
}

func assigned(db bun.IDB, held *tenantRow, id tenant.GUID) *bun.SelectQuery {
	return db.NewSelect().Model(held).Join("JOIN tenant_holders AS h ON h.account_id = t.account_id AND h.guid = t.guid").
		Where("h.guid = ?", ident.Lookup(string(id))).Where("t.managed")
}

func oneAssigned(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return fault.TenantNotFound.With("no account holds this tenant as a managed one")
	}
	return err
}

// Withdraw implements ports.Assignments. A tenant that its account connected
// itself is not the operator's to withdraw.
func (s *Store) Withdraw(ctx context.Context, id tenant.GUID, rulesLeft ...string) (access.AccountID, error) {
	var held tenantRow
	err := s.atomically(ctx, "withdraw tenant", func(ctx context.Context, tx bun.IDB) error {
		held = tenantRow{}
		if err := oneAssigned(s.locked(assigned(tx, &held, id), "t").Scan(ctx)); err != nil {
			return err
		}
		guid := ident.Lookup(string(id))
		if _, err := release(ctx, tx, held.AccountID, guid); err != nil {
			return err
		}
		mark := withdrawnRow{AccountID: held.AccountID, GUID: guid, WithdrawnAt: micro(time.Now())}
		if _, err := tx.NewInsert().Model(&mark).On("CONFLICT DO NOTHING").Exec(ctx); err != nil {
			return err
		}
		return s.record(ctx, tx, audit.WithdrawTenant, held.AccountID, withRulesLeft(tenantDetails(held), rulesLeft))
	})
	return access.AccountID(held.AccountID), err
}

// Withdrawn implements ports.Assignments.
func (s *Store) Withdrawn(ctx context.Context, owner access.AccountID, id tenant.GUID) (bool, error) {
	var withdrawn bool
	err := s.run(ctx, "find withdrawn tenant", func(ctx context.Context, db bun.IDB) (err error) {
		withdrawn, err = db.NewSelect().Model((*withdrawnRow)(nil)).
			Where("account_id = ?", account(owner)).Where("guid = ?", ident.Lookup(string(id))).Exists(ctx)
		return err
	})
	return withdrawn, err
}
