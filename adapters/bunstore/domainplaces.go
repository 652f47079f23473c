// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

// ReserveDomain implements ports.Domains.
func (s *Store) ReserveDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string, most int, now time.Time) (domain.Domain, error) {
	var row domainRow
	fresh := false
	err := s.atomically(ctx, "reserve domain", func(ctx context.Context, tx bun.IDB) error {
		t, err := s.lockTenant(ctx, tx, account(owner), ident.Lookup(string(id)))
		if err != nil {
			return err
		}
		row, fresh = domainRow{}, false
		err = tx.NewSelect().Model(&row).Where("account_id = ?", t.AccountID).
			Where("tenant_id = ?", t.ID).Where("name = ?", text(name)).Scan(ctx)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			fresh = true
			row, err = takePlace(ctx, tx, t, name, most, micro(now))
		case err == nil && !row.Added:
			err = takenUp(ctx, tx, row, micro(now))
		}
		row.TenantGUID = t.GUID
		return err
	})
	if err != nil {
		return domain.Domain{}, err
	}
	d := row.domain()
	d.Fresh = fresh
	return d, nil
}

func (s *Store) lockTenant(ctx context.Context, tx bun.IDB, owner, guid string) (tenantRow, error) {
	var t tenantRow
	err := s.locked(tx.NewSelect().Model(&t).Where("t.account_id = ?", owner).Where("t.guid = ?", guid), "t").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return t, noTenant()
	}
	return t, err
}

func takePlace(ctx context.Context, tx bun.IDB, t tenantRow, name string, most int, now time.Time) (domainRow, error) {
	held, err := tx.NewSelect().Model((*domainRow)(nil)).
		Where("account_id = ?", t.AccountID).Where("tenant_id = ?", t.ID).Count(ctx)
	if err != nil {
		return domainRow{}, err
	}
	if err := domain.Admit(int(held), most); err != nil {
		return domainRow{}, err
	}
	row := domainRow{AccountID: t.AccountID, ID: newID(), TenantID: t.ID, Name: text(name), CreatedAt: now, StoredAt: now}
	_, err = tx.NewInsert().Model(&row).Exec(ctx)
	return row, err
}

// takenUp marks an unfinished creation as under way again.
func takenUp(ctx context.Context, tx bun.IDB, row domainRow, now time.Time) error {
	_, err := tx.NewUpdate().Model((*domainRow)(nil)).Set("stored_at = ?", now).
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
	return err
}

// ReleaseDomain implements ports.Domains.
func (s *Store) ReleaseDomain(ctx context.Context, owner access.AccountID, domainID string) error {
	return s.run(ctx, "release domain", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewDelete().Model((*domainRow)(nil)).Where("account_id = ?", account(owner)).
			Where("id = ?", ident.Lookup(domainID)).Where("NOT added").Exec(ctx)
		return err
	})
}
