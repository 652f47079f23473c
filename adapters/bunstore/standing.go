// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/ident"
)

// ChangePlan implements ports.Accounts.
func (s *Store) ChangePlan(ctx context.Context, id access.AccountID, plan string, slots int) (access.Account, error) {
	return s.change(ctx, "change plan", id, func(ctx context.Context, tx bun.IDB, was access.Account) error {
		plan := cmp.Or(plan, was.Plan.Name)
		if err := knownPlan(ctx, tx, plan); err != nil {
			return err
		}
		row := accountRow{AccountID: string(was.ID), Plan: text(plan), TenantSlots: slots}
		_, err := tx.NewUpdate().Model(&row).Column("plan", "tenant_slots").Where("account_id = ?", row.AccountID).Exec(ctx)
		if err != nil {
			return err
		}
		now, err := operatorAccount(ctx, tx, row.AccountID)
		if err != nil {
			return err
		}
		return s.record(ctx, tx, audit.ChangePlan, row.AccountID, map[string]string{
			"plan": now.Plan.Name, "tenant_slots": strconv.Itoa(now.Plan.TenantSlots),
			"plan_before": was.Plan.Name, "tenant_slots_before": strconv.Itoa(was.Plan.TenantSlots),
		})
	})
}

// SetActive implements ports.Accounts.
func (s *Store) SetActive(ctx context.Context, id access.AccountID, active bool) (access.Account, error) {
	return s.change(ctx, "suspend or resume account", id, func(ctx context.Context, tx bun.IDB, was access.Account) error {
		if was.Active == active {
			return nil
		}
		_, err := tx.NewUpdate().Model((*accountRow)(nil)).Set("active = ?", active).
			Where("account_id = ?", string(was.ID)).Exec(ctx)
		if err != nil {
			return err
		}
		action := audit.SuspendAccount
		if active {
			action = audit.ResumeAccount
		}
		return s.record(ctx, tx, action, string(was.ID), map[string]string{"email": was.Email})
	})
}

// change runs a change of an account that is not closed and returns the
// account as it is afterwards.
func (s *Store) change(ctx context.Context, doing string, id access.AccountID,
	do func(ctx context.Context, tx bun.IDB, was access.Account) error,
) (access.Account, error) {
	var changed access.Account
	err := s.atomically(ctx, doing, func(ctx context.Context, tx bun.IDB) error {
		was, err := s.lockOpen(ctx, tx, account(id))
		if err != nil {
			return err
		}
		if err := do(ctx, tx, was); err != nil {
			return err
		}
		changed, err = operatorAccount(ctx, tx, string(was.ID))
		return err
	})
	if err != nil {
		return access.Account{}, err
	}
	return changed, nil
}

// lockOpen takes the account's lock and refuses one that is closed. It looks
// in a second statement: the first may have waited for the closing, and would
// not see it.
func (s *Store) lockOpen(ctx context.Context, tx bun.IDB, owner string) (access.Account, error) {
	if err := s.lockAccount(ctx, tx, owner); err != nil {
		return access.Account{}, err
	}
	acc, err := operatorAccount(ctx, tx, owner)
	if err != nil {
		return access.Account{}, err
	}
	return acc, acc.Open()
}

// lockAccount makes what changes an account's keys, tenants and plan wait for
// each other.
func (s *Store) lockAccount(ctx context.Context, tx bun.IDB, owner string) error {
	var id string
	err := s.locked(tx.NewSelect().Model((*accountRow)(nil)).Column("account_id").
		Where("account_id = ?", owner), "a").Scan(ctx, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return noAccount()
	}
	return err
}

// operatorAccount reads one account as operators see it.
func operatorAccount(ctx context.Context, tx bun.IDB, owner string) (access.Account, error) {
	var row accountRow
	err := oneAccount(operatorColumns(tx.NewSelect().Model(&row)).Where("a.account_id = ?", ident.Lookup(owner)).Scan(ctx))
	return row.account(), err
}

func knownPlan(ctx context.Context, tx bun.IDB, plan string) error {
	known, err := tx.NewSelect().TableExpr("plans").Where("name = ?", text(plan)).Exists(ctx)
	if err == nil && !known {
		return access.NoSuchPlan()
	}
	return err
}
