// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// abandoned is how long an unfinished creation counts as under way after a
// request last took it up. No request lives nearly as long.
const abandoned = time.Hour

// SaveDiscovery implements ports.Discovered. The locks, tenant before domains,
// keep reservations out while rows are compared with the platform's lists, and
// that of where enforcement stands keeps blocks out.
func (s *Store) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Began = micro(f.Began)
	return s.atomically(ctx, "save discovery", func(ctx context.Context, tx bun.IDB) error {
		t, err := s.lockTenant(ctx, tx, account(owner), ident.Lookup(string(id)))
		if err != nil {
			return err
		}
		stored, err := s.lockDomains(ctx, tx, t)
		if err != nil {
			return err
		}
		if f.Domains != nil {
			if err := mergeDomains(ctx, tx, t, stored, f); err != nil {
				return err
			}
		}
		if f.Mailboxes != nil {
			return s.mergeMailboxes(ctx, tx, t, f)
		}
		return nil
	})
}

func (s *Store) lockDomains(ctx context.Context, tx bun.IDB, t tenantRow) ([]domainRow, error) {
	var rows []domainRow
	err := s.locked(tx.NewSelect().Model(&rows).Where("d.account_id = ?", t.AccountID).
		Where("d.tenant_id = ?", t.ID).Order("d.id"), "d").Scan(ctx)
	return rows, err
}

// vanished decides whether a stored row that the platform did not list goes.
// The list is as old as began: what came later may well be there.
func vanished(began, storedAt time.Time, finished bool) bool {
	if !finished {
		began = began.Add(-abandoned)
	}
	return !storedAt.After(began)
}

// deleteRows removes rows of the account by id.
func deleteRows(ctx context.Context, tx bun.IDB, model any, owner string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model(model).Where("account_id = ?", owner).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}
