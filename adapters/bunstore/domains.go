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
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

func noDomain() error { return fault.DomainNotFound.With("the tenant holds no such domain") }

// domainsBelow reads a tenant and, joined to it, its domains that on lets
// through: no row means no tenant, an empty one no domain.
func domainsBelow(db bun.IDB, owner, guid, on string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("d.*").ColumnExpr("t.guid AS tenant_guid").
		Join("LEFT JOIN domains AS d ON d.account_id = t.account_id AND d.tenant_id = t.id AND d.added"+on, args...).
		Where("t.account_id = ?", owner).Where("t.guid = ?", guid)
}

// Domains implements ports.Domains.
func (s *Store) Domains(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]domain.Domain, error) {
	var rows []domainRow
	err := s.run(ctx, "list domains", func(ctx context.Context, db bun.IDB) error {
		return domainsBelow(db, account(owner), ident.Lookup(string(id)), "").Order("d.name").Scan(ctx, &rows)
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, noTenant()
	}
	domains := make([]domain.Domain, 0, len(rows))
	for _, r := range rows {
		if r.ID != "" {
			domains = append(domains, r.domain())
		}
	}
	return domains, nil
}

// Domain implements ports.Domains.
func (s *Store) Domain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	var row domainRow
	err := s.run(ctx, "find domain", func(ctx context.Context, db bun.IDB) error {
		err := domainsBelow(db, account(owner), ident.Lookup(string(id)), " AND d.name = ?", text(name)).Scan(ctx, &row)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noTenant()
		case err == nil && row.ID == "":
			return noDomain()
		}
		return err
	})
	if err != nil {
		return domain.Domain{}, err
	}
	return row.domain(), nil
}

// DomainByID implements ports.Domains.
func (s *Store) DomainByID(ctx context.Context, owner access.AccountID, domainID string) (domain.Domain, error) {
	var row domainRow
	err := s.run(ctx, "find domain by id", func(ctx context.Context, db bun.IDB) error {
		return oneDomain(withTenant(db.NewSelect().Model(&row)).
			Where("d.account_id = ?", account(owner)).Where("d.id = ?", ident.Lookup(domainID)).
			Where("d.added").Scan(ctx))
	})
	if err != nil {
		return domain.Domain{}, err
	}
	return row.domain(), nil
}

func withTenant(q *bun.SelectQuery) *bun.SelectQuery {
	return q.ColumnExpr("d.*").ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name").
		Join("JOIN tenants AS t ON t.account_id = d.account_id AND t.id = d.tenant_id")
}

func oneDomain(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return noDomain()
	}
	return err
}

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

// SaveDomain implements ports.Domains.
func (s *Store) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	row := newDomainRow(account(owner), d)
	return s.run(ctx, "save domain", func(ctx context.Context, db bun.IDB) error {
		res, err := saveDomain(ctx, db, row)
		return changed(res, err, noDomain())
	})
}

func saveDomain(ctx context.Context, db bun.IDB, row domainRow) (sql.Result, error) {
	return db.NewUpdate().Model(&row).
		Column("added", "is_default", "verified", "dkim", "mail_ready", "records",
			"mx", "spf", "dmarc", "dkim_status", "verification_seen", "checked_at").
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
}
