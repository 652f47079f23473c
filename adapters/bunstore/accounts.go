// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
)

type accountRow struct {
	bun.BaseModel `bun:"table:accounts,alias:a"`

	AccountID   string `bun:",pk"`
	Email       string
	Plan        string
	Active      bool
	TenantSlots int `bun:",nullzero"` // 0: the plan's
	CreatedAt   time.Time

	PlanSlots    int       `bun:",scanonly"`
	AutomaticDNS bool      `bun:"automatic_dns,scanonly"`
	ClosedAt     time.Time `bun:",scanonly"`
	TenantsHeld  int       `bun:",scanonly"`
}

func (r accountRow) account() access.Account {
	slots := r.TenantSlots
	if slots == 0 {
		slots = r.PlanSlots
	}
	return access.Account{
		ID: access.AccountID(r.AccountID), Email: r.Email, Active: r.Active, CreatedAt: r.CreatedAt.UTC(),
		Plan:     access.Plan{Name: r.Plan, TenantSlots: slots, AutomaticDNS: r.AutomaticDNS},
		OwnSlots: r.TenantSlots, ClosedAt: r.ClosedAt.UTC(), TenantsHeld: r.TenantsHeld,
	}
}

// accountColumns reads accounts, under the alias a, with their plans.
func accountColumns(q *bun.SelectQuery) *bun.SelectQuery {
	return q.ColumnExpr("?TableColumns").ColumnExpr("p.tenant_slots AS plan_slots, p.automatic_dns").
		Join("JOIN plans AS p ON p.name = a.plan")
}

// operatorColumns adds what only operators see.
func operatorColumns(q *bun.SelectQuery) *bun.SelectQuery {
	return accountColumns(q).ColumnExpr("c.closed_at").
		ColumnExpr("(SELECT COUNT(*) FROM tenants AS t WHERE t.account_id = a.account_id) AS tenants_held").
		Join("LEFT JOIN closed_accounts AS c ON c.account_id = a.account_id")
}

// CreateAccount implements ports.Accounts.
func (s *Store) CreateAccount(ctx context.Context, email, plan string, slots int, now time.Time) (access.Account, error) {
	row := accountRow{
		AccountID: newID(), Email: mailAddress(email), Plan: text(plan), Active: true, TenantSlots: slots, CreatedAt: micro(now),
	}
	err := s.atomically(ctx, "create account", func(ctx context.Context, tx bun.IDB) error {
		if err := s.claimAddress(ctx, tx, row.Email); err != nil {
			return err
		}
		if err := knownPlan(ctx, tx, plan); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		member := memberRow{AccountID: row.AccountID, Email: row.Email, CreatedAt: row.CreatedAt}
		if _, err := tx.NewInsert().Model(&member).Exec(ctx); err != nil {
			return err
		}
		if err := accountColumns(tx.NewSelect().Model(&row)).Where("a.account_id = ?", row.AccountID).Scan(ctx); err != nil {
			return err
		}
		return s.record(ctx, tx, audit.CreateAccount, row.AccountID, map[string]string{
			"email": row.Email, "plan": row.Plan, "tenant_slots": strconv.Itoa(row.account().Plan.TenantSlots),
		})
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}

// claimAddress refuses an address that is taken. On PostgreSQL two creations
// with one address wait for each other, as no key across accounts can decide.
func (s *Store) claimAddress(ctx context.Context, tx bun.IDB, email string) error {
	if s.postgres() {
		if _, err := tx.NewRaw("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", email).Exec(ctx); err != nil {
			return err
		}
	}
	taken, err := tx.NewSelect().Model((*memberRow)(nil)).Where("email = ?", email).Exists(ctx)
	if err == nil && taken {
		return fault.InvalidRequest.With("the e-mail address has an account already")
	}
	return err
}

// Accounts implements ports.Accounts.
func (s *Store) Accounts(ctx context.Context) ([]access.Account, error) {
	var rows []accountRow
	err := s.run(ctx, "list accounts", func(ctx context.Context, db bun.IDB) error {
		return operatorColumns(db.NewSelect().Model(&rows)).Order("a.created_at", "a.account_id").Scan(ctx)
	})
	accounts := make([]access.Account, 0, len(rows))
	for _, r := range rows {
		accounts = append(accounts, r.account())
	}
	return accounts, err
}

// FindAccount implements ports.Accounts.
func (s *Store) FindAccount(ctx context.Context, idOrEmail string) (access.Account, error) {
	var row accountRow
	email := mailAddress(idOrEmail)
	err := s.run(ctx, "find account", func(ctx context.Context, db bun.IDB) error {
		return oneAccount(operatorColumns(db.NewSelect().Model(&row)).
			Where("a.account_id = ? OR a.account_id IN (SELECT account_id FROM members WHERE email = ?) "+
				"OR a.email = ? AND c.closed_at IS NOT NULL", ident.Lookup(idOrEmail), email, email).
			OrderExpr("c.closed_at IS NOT NULL, c.closed_at DESC").Limit(1).Scan(ctx))
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}

func oneAccount(err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return noAccount()
	}
	return err
}

func noAccount() error {
	return fault.AccountNotFound.With("there is no account with this id or e-mail address")
}

// mailAddress is the form in which members are told apart.
func mailAddress(raw string) string { return text(strings.ToLower(strings.TrimSpace(raw))) }
