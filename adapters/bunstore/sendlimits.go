// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type policyRow struct {
	bun.BaseModel `bun:"table:send_policies,alias:sp"`

	AccountID      string `bun:",pk"`
	ID             string `bun:",pk"`
	TenantID       string
	DomainID       string // ident.Zero for a policy of the whole tenant
	Scope          string
	DailySendLimit int    `bun:",nullzero"`
	RuleID         string `bun:"rule_id"`
	RuleName       string
	CreatedAt      time.Time
	UpdatedAt      time.Time
}

func newPolicyRow(owner string, p sendlimit.Policy) policyRow {
	return policyRow{AccountID: owner, ID: ident.ParseOrZero(p.ID), DailySendLimit: p.PerDay, RuleID: storedText(p.RuleID), RuleName: storedText(p.RuleName),
		UpdatedAt: storedTime(p.UpdatedAt)}
}

func (r policyRow) policy(tenantGUID string) sendlimit.Policy {
	return sendlimit.Policy{ID: r.ID, Tenant: tenant.GUID(tenantGUID), Scope: r.Scope, PerDay: r.DailySendLimit, RuleID: r.RuleID, RuleName: r.RuleName,
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC()}
}

func policyNotFound() error {
	return fault.PolicyNotFound.With("no send limit is enforced for this scope")
}

// domainOfPolicy is the condition that a policy applies to the whole tenant, or that the policy's
// own domain still exists. A new domain with the same name is a different domain. A missing domain
// that is reserved again keeps its id, so its policy stays in force.
const domainOfPolicy = "(sp.scope = '' OR EXISTS (SELECT 1 FROM domains AS d WHERE d.account_id = sp.account_id AND d.id = sp.domain_id))"

// policiesOfTenant selects a tenant left-joined with its policies in force (see domainsOfTenant).
func policiesOfTenant(db bun.IDB, owner access.AccountID, id tenant.GUID, joinCondition string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("sp.*").
		Join("LEFT JOIN send_policies AS sp ON "+policyOfTenant+" AND sp.daily_send_limit IS NOT NULL AND "+
			domainOfPolicy+joinCondition, args...).
		Where("t.account_id = ?", accountKey(owner)).Where("t.guid = ?", ident.ParseOrZero(string(id)))
}

// Policies implements ports.SendPolicies.
func (s *Store) Policies(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]sendlimit.Policy, error) {
	var rows []policyRow
	err := s.db.RunRead(ctx, "list send limits", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return policiesOfTenant(db, owner, id, "").OrderExpr("sp.scope").Scan(ctx, &rows)
	})
	if err == nil && len(rows) == 0 {
		return nil, tenantNotFound()
	}
	policies := make([]sendlimit.Policy, 0, len(rows))
	for _, r := range rows {
		if r.ID != "" {
			policies = append(policies, r.policy(ident.ParseOrZero(string(id))))
		}
	}
	return policies, err
}

// Policy implements ports.SendPolicies.
func (s *Store) Policy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string) (sendlimit.Policy, error) {
	var row policyRow
	err := s.db.RunRead(ctx, "find send limit", func(ctx context.Context, db bun.IDB) error {
		err := policiesOfTenant(db, owner, id, " AND sp.scope = ?", storedText(scope)).Scan(ctx, &row)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return tenantNotFound()
		case err == nil && row.ID == "":
			return policyNotFound()
		}
		return err
	})
	if err != nil {
		return sendlimit.Policy{}, err
	}
	return row.policy(ident.ParseOrZero(string(id))), nil
}

// ReservePolicy implements ports.SendPolicies.
func (s *Store) ReservePolicy(ctx context.Context, owner access.AccountID, id tenant.GUID, scope string, now time.Time) (sendlimit.Policy, error) {
	var row policyRow
	err := s.inTransaction(ctx, "reserve send limit", func(ctx context.Context, tx bun.IDB) error {
		fresh, err := s.newPolicyRowFor(ctx, tx, accountKey(owner), ident.ParseOrZero(string(id)), storedText(scope))
		if err != nil {
			return err
		}
		// The stored policy may belong to a deleted domain with the same name. It is then replaced.
		if _, err := tx.NewDelete().Model((*policyRow)(nil)).Where("sp.account_id = ?", fresh.AccountID).
			Where("sp.tenant_id = ?", fresh.TenantID).Where("sp.scope = ?", fresh.Scope).Where("sp.domain_id <> ?", fresh.DomainID).Exec(ctx); err != nil {
			return err
		}
		fresh.ID, fresh.RuleName, fresh.CreatedAt, fresh.UpdatedAt = newID(), storedText(sendlimit.RuleName(scope)), storedTime(now), storedTime(now)
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
	return row.policy(ident.ParseOrZero(string(id))), nil
}

// deletePolicies runs q, which deletes policies of a tenant, and emits their events. It returns
// their number. It does not delete policies whose domain was deleted (see emitEndedPolicies).
func deletePolicies(ctx context.Context, id tenant.GUID, q *bun.DeleteQuery) (int, error) {
	var deleted []policyRow
	if err := q.Model(&deleted).Where(domainOfPolicy).Returning("*").Scan(ctx); err != nil {
		return 0, err
	}
	for _, row := range deleted {
		emitPolicy(ctx, row.AccountID, change[sendlimit.Policy]{before: row.policy(string(id))})
	}
	return len(deleted), nil
}

// emitEndedPolicies emits the events of the policies that end because these domains of a tenant are
// being deleted. The rows of the policies stay until their rules block no mailbox (see
// deleteOrphanPolicies). Call lockSendState first, because RemovePolicy takes the same lock. A
// RemovePolicy that runs later no longer finds the domain, and emits no second event.
func (s *Store) emitEndedPolicies(ctx context.Context, tx bun.IDB, owner string, id tenant.GUID, domainIDs []string) error {
	var rows []policyRow
	guid := ident.ParseOrZero(string(id))
	err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("sp.account_id = ?", owner).Where("sp.tenant_id = "+tenantByGUID, owner, guid).
		Where("sp.domain_id IN (?)", bun.List(domainIDs)).Order("sp.id"), "sp").Scan(ctx)
	for _, row := range rows {
		emitPolicy(ctx, owner, change[sendlimit.Policy]{before: row.policy(guid)})
	}
	return err
}

// newPolicyRowFor locks the tenant and returns a new policy row, which it does not store. It fails
// if the tenant or the domain of the scope does not exist.
func (s *Store) newPolicyRowFor(ctx context.Context, tx bun.IDB, owner, guid, scope string) (policyRow, error) {
	row := policyRow{AccountID: owner, DomainID: ident.Zero, Scope: scope}
	t, err := s.lockTenant(ctx, tx, owner, guid)
	if row.TenantID = t.ID; err != nil || scope == sendlimit.TenantWide {
		return row, err
	}
	err = tx.NewSelect().Model((*domainRow)(nil)).Column("id").Where("d.account_id = ?", owner).Where("d.tenant_id = ?", t.ID).
		Where("d.name = ?", scope).Where("d.added").Scan(ctx, &row.DomainID)
	return row, orNotFound(err, domainNotFound())
}

// ChangePolicy implements ports.SendPolicies.
func (s *Store) ChangePolicy(ctx context.Context, owner access.AccountID, policyID string, apply func(sendlimit.Policy) (sendlimit.Policy, *ports.StoredAnswer, error)) error {
	account, id := accountKey(owner), ident.ParseOrZero(policyID)
	return s.inTransaction(ctx, "change send limit", func(ctx context.Context, tx bun.IDB) error {
		tenantOfPolicy := tx.NewSelect().Model((*policyRow)(nil)).Where("sp.account_id = ?", account).Where("sp.id = ?", id).Column("tenant_id")
		state, err := s.lockSendState(ctx, tx, account, tenantOfPolicy)
		if err != nil {
			return err
		}
		before, err := s.lockPolicy(ctx, tx, account, id)
		if err != nil {
			return err
		}
		after, storedAnswer, err := apply(before)
		if err != nil {
			return err
		}
		row := newPolicyRow(account, after)
		res, err := tx.NewUpdate().Model(&row).Column("daily_send_limit", "rule_id", "rule_name", "updated_at").
			Where("sp.account_id = ?", account).Where("sp.id = ?", id).Where(domainOfPolicy).Exec(ctx)
		if err := requireRow(res, err, policyNotFound()); err != nil {
			return err
		}
		emitPolicy(ctx, account, change[sendlimit.Policy]{before, after})
		if before.PerDay != after.PerDay {
			if err := makeDue(ctx, tx, state, after.UpdatedAt); err != nil {
				return err
			}
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

func (s *Store) lockPolicy(ctx context.Context, tx bun.IDB, owner, id string) (sendlimit.Policy, error) {
	var row struct {
		policyRow
		TenantGUID string `bun:"tenant_guid"`
	}
	err := s.db.LockRows(tx.NewSelect().TableExpr("send_policies AS sp").ColumnExpr("sp.*").ColumnExpr("t.guid AS tenant_guid").
		Join("JOIN tenants AS t ON "+policyOfTenant).Where("sp.account_id = ?", owner).Where("sp.id = ?", id), "sp").Scan(ctx, &row)
	return row.policy(row.TenantGUID), orNotFound(err, policyNotFound())
}

// tenantScopesRead selects the scopes of the policies and blocks of a tenant, and the names of its
// orphan rules.
func tenantScopesRead(db *bun.DB) *database.PreparedRead {
	owner, guid := database.PreparedArg, database.PreparedArg2
	scopesAndRules := db.NewSelect().TableExpr("send_policies AS sp").ColumnExpr("sp.tenant_id, sp.scope, NULL AS orphan_rule").
		Where("sp.account_id = ?", owner).Where("sp.tenant_id = "+tenantByGUID, owner, guid).
		Union(db.NewSelect().TableExpr("mailbox_blocks AS mb").Join(mailboxOfBlock).
			ColumnExpr("m.tenant_id, mb.scope, NULL").Where("mb.account_id = ?", owner).Where("m.tenant_id = "+tenantByGUID, owner, guid)).
		Union(db.NewSelect().TableExpr("orphan_rules AS orp").ColumnExpr("orp.tenant_id, NULL, orp.rule_name").
			Where("orp.account_id = ?", owner).Where("orp.tenant_id = "+tenantByGUID, owner, guid))
	return database.NewPreparedRead(db.NewSelect().TableExpr("tenants AS t").Join("LEFT JOIN (?) AS r ON r.tenant_id = t.id", scopesAndRules).
		ColumnExpr("r.scope, r.orphan_rule").Where("t.account_id = ?", owner).Where("t.guid = ?", guid).OrderExpr("r.scope"))
}

// ScopesWithRules implements ports.SendPolicies.
func (s *Store) ScopesWithRules(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]string, error) {
	type scopeOrRule struct{ Scope, OrphanRule sql.NullString }
	var rows []scopeOrRule
	err := s.db.RunRead(ctx, "list scopes with rules", func(ctx context.Context, _ bun.IDB) error {
		rows = nil
		return s.db.ReadPrepared(ctx, s.tenantScopesRead, func(r database.Row) error {
			var row scopeOrRule
			err := r.Scan(&row.Scope, &row.OrphanRule)
			rows = append(rows, row)
			return err
		}, accountKey(owner), ident.ParseOrZero(string(id)))
	})
	if err == nil && len(rows) == 0 {
		return nil, tenantNotFound()
	}
	scopes := []string{}
	for _, r := range rows {
		if r.Scope.Valid {
			scopes = append(scopes, r.Scope.String)
		}
	}
	for _, r := range rows {
		hasRule := func(scope string) bool { return sendlimit.RuleName(scope) == r.OrphanRule.String }
		if r.OrphanRule.Valid && !slices.ContainsFunc(scopes, hasRule) {
			scopes = append(scopes, sendlimit.ScopeOfRule(r.OrphanRule.String))
		}
	}
	slices.Sort(scopes)
	return scopes, err
}
