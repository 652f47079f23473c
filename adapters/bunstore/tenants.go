// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

// ofTenant narrows counting to one tenant of the owner.
const ofTenant = " AND tenant_id = (SELECT id FROM tenants WHERE account_id = ? AND guid = ?)"

// tenantQuery reads the owner's tenants with their counts in one statement:
// all of them, or the one with that GUID.
func tenantQuery(db bun.IDB, rows, owner any, only *string) *bun.SelectQuery {
	narrow, args := "", []any{owner}
	if only != nil {
		narrow, args = ofTenant, []any{owner, owner, *only}
	}
	listed := append(args[:1:1], append([]any{listedStages}, args[1:]...)...)
	q := db.NewSelect().Model(rows).ColumnExpr("?TableColumns").
		ColumnExpr("COALESCE(d.held, 0) AS domain_count, COALESCE(d.verified, 0) AS domains_verified").
		ColumnExpr("COALESCE(d.signed, 0) AS domains_signed, COALESCE(d.published, 0) AS domains_published").
		ColumnExpr("COALESCE(m.held, 0) AS mailbox_count").
		Join("LEFT JOIN (SELECT tenant_id, COUNT(*) AS held, COUNT(*) FILTER (WHERE verified) AS verified, "+
			"COUNT(*) FILTER (WHERE dkim) AS signed, COUNT(*) FILTER (WHERE verification_seen AND NOT verified) AS published "+
			"FROM domains WHERE account_id = ? AND added"+narrow+" GROUP BY tenant_id) AS d ON d.tenant_id = t.id", args...).
		Join("LEFT JOIN (SELECT tenant_id, COUNT(*) AS held FROM mailboxes "+
			"WHERE account_id = ? AND stage IN (?)"+narrow+" GROUP BY tenant_id) AS m ON m.tenant_id = t.id", listed...).
		Where("t.account_id = ?", owner)
	if only != nil {
		q = q.Where("t.guid = ?", *only)
	}
	return q
}

func selectTenant(ctx context.Context, db bun.IDB, owner, guid string) (tenant.Tenant, error) {
	var row tenantRow
	err := tenantQuery(db, &row, owner, &guid).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return tenant.Tenant{}, noTenant()
	}
	return row.tenant(), err
}

func noTenant() error { return fault.TenantNotFound.With("the account holds no such tenant") }

func tenantsOfOwner(db *bun.DB) *prepared {
	return fixed(tenantQuery(db, (*tenantRow)(nil), first, nil).OrderExpr("t.consented_at DESC, t.id DESC"))
}

// Tenants implements ports.Tenants.
func (s *Store) Tenants(ctx context.Context, owner access.AccountID) ([]tenant.Tenant, error) {
	var tenants []tenant.Tenant
	err := s.run(ctx, "list tenants", func(ctx context.Context, _ bun.IDB) error {
		tenants = []tenant.Tenant{}
		return s.read(ctx, s.tenantsOfOwner, account(owner), func(r row) error {
			t, err := takeTenant(r)
			tenants = append(tenants, t)
			return err
		})
	})
	return tenants, err
}

// Tenant implements ports.Tenants.
func (s *Store) Tenant(ctx context.Context, owner access.AccountID, id tenant.GUID) (tenant.Tenant, error) {
	var found tenant.Tenant
	err := s.run(ctx, "find tenant", func(ctx context.Context, db bun.IDB) (err error) {
		found, err = selectTenant(ctx, db, account(owner), ident.Lookup(string(id)))
		return err
	})
	return found, err
}

// TenantCount implements ports.Tenants.
func (s *Store) TenantCount(ctx context.Context, owner access.AccountID) (int, error) {
	var held int
	err := s.run(ctx, "count tenants", func(ctx context.Context, db bun.IDB) (err error) {
		held, err = countTenants(ctx, db, account(owner))
		return err
	})
	return held, err
}

func countTenants(ctx context.Context, db bun.IDB, owner string) (int, error) {
	held, err := db.NewSelect().Model((*tenantRow)(nil)).Where("account_id = ?", owner).Count(ctx)
	return int(held), err
}

// SaveTenant implements ports.Tenants. A consent that was renewed after t was
// loaded is not taken back by what t's loader met before.
func (s *Store) SaveTenant(ctx context.Context, owner access.AccountID, t tenant.Tenant) error {
	row := newTenantRow(account(owner), t)
	return s.run(ctx, "save tenant", func(ctx context.Context, db bun.IDB) error {
		res, err := db.NewUpdate().Model(&row).
			Column("name", "builtin_domain", "default_domain", "bootstrap", "bootstrap_step",
				"smtp_auth", "discovery", "last_sync_at", "user_mailboxes").
			Set("consent = CASE WHEN consented_at > ? THEN consent ELSE ? END", row.ConsentedAt, row.Consent).
			Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
		return changed(res, err, noTenant())
	})
}

// DeleteTenant implements ports.Tenants. What hangs below goes by foreign key.
func (s *Store) DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID) error {
	held := false
	err := s.atomically(ctx, "delete tenant", func(ctx context.Context, tx bun.IDB) (err error) {
		guid := ident.Lookup(string(id))
		if held, err = release(ctx, tx, account(owner), guid); err != nil {
			return err
		}
		_, err = tx.NewDelete().Model((*withdrawnRow)(nil)).
			Where("account_id = ?", account(owner)).Where("guid = ?", guid).Exec(ctx)
		if err != nil || !held {
			return err
		}
		return s.complete(ctx, tx)
	})
	if err == nil && !held {
		return noTenant()
	}
	return err
}

// release takes the tenant from its holder and reports whether it was held.
func release(ctx context.Context, tx bun.IDB, owner, guid string) (bool, error) {
	res, err := tx.NewDelete().Model((*tenantRow)(nil)).
		Where("account_id = ?", owner).Where("guid = ?", guid).Exec(ctx)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	_, err = tx.NewDelete().Model((*holderRow)(nil)).
		Where("account_id = ?", owner).Where("guid = ?", guid).Exec(ctx)
	return true, err
}
