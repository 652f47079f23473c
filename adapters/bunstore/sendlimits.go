// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

func noPolicy() error { return fault.PolicyNotFound.With("no send limit is enforced for this scope") }

// domainOfPolicy is what a policy needs to be there: its domain, the very one
// that it was made for, or none.
const domainOfPolicy = "(sp.scope = '' OR EXISTS (SELECT 1 FROM domains AS d WHERE d.account_id = sp.account_id AND d.id = sp.domain_id AND d.added))"

// policiesBelow is domainsBelow for policies that are in force.
func policiesBelow(db bun.IDB, owner access.AccountID, id tenant.GUID, on string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("sp.*").
		Join("LEFT JOIN send_policies AS sp ON "+policyOfTenant+" AND sp.daily_send_limit IS NOT NULL AND "+
			domainOfPolicy+on, args...).
		Where("t.account_id = ?", account(owner)).Where("t.guid = ?", ident.Lookup(string(id)))
}

// Policies implements ports.SendPolicies.
func (s *Store) Policies(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]sendlimit.Policy, error) {
	var rows []policyRow
	err := s.run(ctx, "list send limits", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return policiesBelow(db, owner, id, "").OrderExpr("sp.scope").Scan(ctx, &rows)
	})
	if err == nil && len(rows) == 0 {
		return nil, noTenant()
	}
	policies := make([]sendlimit.Policy, 0, len(rows))
	for _, r := range rows {
		if r.ID != "" {
			policies = append(policies, r.policy(ident.Lookup(string(id))))
		}
	}
	return policies, err
}

// Policy implements ports.SendPolicies.
func (s *Store) Policy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string) (sendlimit.Policy, error) {
	var row policyRow
	err := s.run(ctx, "find send limit", func(ctx context.Context, db bun.IDB) error {
		err := policiesBelow(db, owner, id, " AND sp.scope = ?", text(scope)).Scan(ctx, &row)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noTenant()
		case err == nil && row.ID == "":
			return noPolicy()
		}
		return err
	})
	if err != nil {
		return sendlimit.Policy{}, err
	}
	return row.policy(ident.Lookup(string(id))), nil
}

// ReservePolicy implements ports.SendPolicies.
func (s *Store) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (sendlimit.Policy, error) {
	var row policyRow
	err := s.atomically(ctx, "reserve send limit", func(ctx context.Context, tx bun.IDB) error {
		fresh, err := s.placeOf(ctx, tx, account(owner), ident.Lookup(string(id)), text(scope))
		if err != nil {
			return err
		}
		// One of a domain that is gone makes room for that of the domain which
		// has the name now.
		if _, err := tx.NewDelete().Model((*policyRow)(nil)).Where("sp.account_id = ?", fresh.AccountID).
			Where("sp.tenant_id = ?", fresh.TenantID).Where("sp.scope = ?", fresh.Scope).Where("sp.domain_id <> ?", fresh.DomainID).Exec(ctx); err != nil {
			return err
		}
		fresh.ID, fresh.RuleName, fresh.CreatedAt, fresh.UpdatedAt = newID(), text(sendlimit.RuleName(scope)), micro(now), micro(now)
		if _, err := tx.NewInsert().Model(&fresh).On("CONFLICT (account_id, tenant_id, scope) DO NOTHING").Exec(ctx); err != nil {
			return err
		}
		row = policyRow{}
		return tx.NewSelect().Model(&row).Where("sp.account_id = ?", fresh.AccountID).
			Where("sp.tenant_id = ?", fresh.TenantID).Where("sp.scope = ?", fresh.Scope).Scan(ctx)
	})
	if err != nil {
		return sendlimit.Policy{}, err
	}
	return row.policy(ident.Lookup(string(id))), nil
}

// placeOf is where a policy goes, under a lock on its tenant.
func (s *Store) placeOf(ctx context.Context, tx bun.IDB, owner, guid, scope string) (policyRow, error) {
	row := policyRow{AccountID: owner, DomainID: ident.Zero, Scope: scope}
	var t tenantRow
	err := s.locked(tx.NewSelect().Model(&t).Where("t.account_id = ?", owner).Where("t.guid = ?", guid), "t").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return row, noTenant()
	}
	if row.TenantID = t.ID; err != nil || scope == sendlimit.TenantWide {
		return row, err
	}
	err = tx.NewSelect().Model((*domainRow)(nil)).Column("id").Where("d.account_id = ?", owner).Where("d.tenant_id = ?", t.ID).
		Where("d.name = ?", scope).Where("d.added").Scan(ctx, &row.DomainID)
	return row, oneDomain(err)
}

// SavePolicy implements ports.SendPolicies.
func (s *Store) SavePolicy(ctx context.Context, owner access.AccountID, p sendlimit.Policy) error {
	row := newPolicyRow(account(owner), p)
	return s.atomically(ctx, "save send limit", func(ctx context.Context, tx bun.IDB) error {
		held := tx.NewSelect().Model((*policyRow)(nil)).Where("sp.account_id = ?", row.AccountID).Where("sp.id = ?", row.ID)
		st, err := s.lockSending(ctx, tx, row.AccountID, held.Clone().Column("tenant_id"))
		if err != nil {
			return err
		}
		other, err := held.Where("COALESCE(sp.daily_send_limit, 0) <> ?", row.DailySendLimit).Exists(ctx)
		if err != nil {
			return err
		}
		res, err := tx.NewUpdate().Model(&row).Column("daily_send_limit", "rule_id", "rule_name", "updated_at").
			Where("sp.account_id = ?", row.AccountID).Where("sp.id = ?", row.ID).Where(domainOfPolicy).Exec(ctx)
		if err := changed(res, err, noPolicy()); err != nil {
			return err
		}
		if other {
			if err := hasten(ctx, tx, st, p.UpdatedAt); err != nil {
				return err
			}
		}
		return s.complete(ctx, tx)
	})
}

// RuledScopes implements ports.SendPolicies.
func (s *Store) RuledScopes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error) {
	var rows []struct{ Scope sql.NullString }
	err := s.run(ctx, "list scopes with rules", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		owner, guid := account(owner), ident.Lookup(string(id))
		ruled := db.NewSelect().TableExpr("send_policies AS sp").Column("sp.tenant_id", "sp.scope").
			Where("sp.account_id = ?", owner).Where("sp.tenant_id = "+tenantOfRun, owner, guid).
			Union(db.NewSelect().TableExpr("mailbox_blocks AS mb").Join(boxOfBlock).
				Column("m.tenant_id", "mb.scope").Where("mb.account_id = ?", owner).Where("m.tenant_id = "+tenantOfRun, owner, guid))
		return db.NewSelect().TableExpr("tenants AS t").Join("LEFT JOIN (?) AS r ON r.tenant_id = t.id", ruled).
			ColumnExpr("r.scope").Where("t.account_id = ?", owner).Where("t.guid = ?", guid).
			OrderExpr("r.scope").Scan(ctx, &rows)
	})
	if err == nil && len(rows) == 0 {
		return nil, noTenant()
	}
	scopes := []string{}
	for _, r := range rows {
		if r.Scope.Valid {
			scopes = append(scopes, r.Scope.String)
		}
	}
	return scopes, err
}
