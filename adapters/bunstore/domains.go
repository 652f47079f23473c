// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"

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

// SaveDomain implements ports.Domains.
func (s *Store) SaveDomain(ctx context.Context, owner access.AccountID, d domain.Domain) error {
	row := newDomainRow(account(owner), d)
	return s.completing(ctx, "save domain", func(ctx context.Context, db bun.IDB) error {
		res, err := saveDomain(ctx, db, row)
		return changed(res, err, noDomain())
	})
}

// ChangeDomain implements ports.Domains. The lock keeps two changes apart, each
// of which leaves the other's fields alone.
func (s *Store) ChangeDomain(ctx context.Context, owner access.AccountID, was, now domain.Domain) (domain.Domain, error) {
	var d domain.Domain
	err := s.atomically(ctx, "change domain", func(ctx context.Context, tx bun.IDB) error {
		var row domainRow
		lock := tx.NewSelect().Model(&row).Where("d.account_id = ?", account(owner)).Where("d.id = ?", ident.Lookup(now.ID)).Where("d.added")
		if err := oneDomain(s.locked(lock, "d").Scan(ctx)); err != nil {
			return err
		}
		d = row.domain().With(was, now)
		d.TenantGUID = now.TenantGUID
		if _, err := saveDomain(ctx, tx, newDomainRow(row.AccountID, d)); err != nil {
			return err
		}
		return s.complete(ctx, tx)
	})
	return d, err
}

func saveDomain(ctx context.Context, db bun.IDB, row domainRow) (sql.Result, error) {
	return db.NewUpdate().Model(&row).
		Column("added", "is_default", "verified", "dkim", "mail_ready", "records",
			"mx", "spf", "dmarc", "dkim_status", "verification_seen", "checked_at").
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
}
