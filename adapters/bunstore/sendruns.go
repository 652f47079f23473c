// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// How rows of one account belong together: each condition is in one place, as
// statements across accounts would not notice that it is gone.
const (
	standingOfTenant = "LEFT JOIN send_tenants AS st ON st.account_id = t.account_id AND st.tenant_id = t.id"
	policyOfTenant   = "sp.account_id = t.account_id AND sp.tenant_id = t.id"
	boxOfTenant      = "m.account_id = t.account_id AND m.tenant_id = t.id"
	boxOfBlock       = "JOIN mailboxes AS m ON m.account_id = mb.account_id AND m.id = mb.mailbox_id"
	tenantOfBox      = "tenants AS t ON t.account_id = m.account_id AND t.id = m.tenant_id"
)

// dueSince is when a tenant became due: one without a row never had a run.
const dueSince = "COALESCE(st.due_at, t.consented_at)"

// dueSlack is how much clocks of replicas may differ.
const dueSlack = 5 * time.Minute

// isDue reports whether a tenant is due at a moment that is given by dueTimes:
// its time has come, or is further ahead than any look sets it, which a clock
// did that was ahead.
func isDue(since string) string { return "(" + since + " <= ? OR " + since + " > ?)" }

func dueTimes(now time.Time) []any {
	return []any{micro(now), micro(now.Add(sendlimit.Latest + dueSlack))}
}

// enforceable are the tenants that can be asked what they send, those of
// suspended accounts too: a mailbox that is blocked has to be let go.
func enforceable(q *bun.SelectQuery) *bun.SelectQuery {
	return q.TableExpr("tenants AS t").
		Where("t.consent = ?", string(tenant.ConsentGranted)).Where("t.bootstrap = ?", string(tenant.BootstrapReady))
}

// DueTenants implements ports.SendRuns. A tenant's turn is as DueJobs has it.
func (s *Store) DueTenants(ctx context.Context, now time.Time, most int) ([]ports.DueTenant, error) {
	var rows []struct {
		AccountID string
		GUID      string `bun:"guid"`
		Since     time.Time
	}
	err := s.run(ctx, "list due tenants", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		busy := db.NewSelect().TableExpr("send_tenants AS st").ColumnExpr("st.account_id, count(*) AS runs").
			Where("st.leased_until > ?", s.clock()).GroupExpr("st.account_id")
		due := enforceable(db.NewSelect()).ColumnExpr("t.account_id, t.guid, "+dueSince+" AS since").
			ColumnExpr("row_number() OVER (PARTITION BY t.account_id ORDER BY "+dueSince+", t.id) AS place").
			Join(standingOfTenant).
			Where(isDue(dueSince), dueTimes(now)...).Where("COALESCE(st.leased_until, 0) <= ?", s.clock())
		return db.NewSelect().With("busy", busy).With("due", due).TableExpr("due").Join("LEFT JOIN busy ON busy.account_id = due.account_id").
			ColumnExpr("due.account_id, due.guid, due.since").
			OrderExpr("due.place + COALESCE(busy.runs, 0), due.since, due.guid").Limit(int64(most)).Scan(ctx, &rows)
	})
	all := make([]ports.DueTenant, 0, len(rows))
	for _, r := range rows {
		all = append(all, ports.DueTenant{Account: access.AccountID(r.AccountID), Tenant: tenant.GUID(r.GUID), At: r.Since.UTC()})
	}
	return all, err
}

// ClaimTenant implements ports.SendRuns.
func (s *Store) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.SendRun, bool, error) {
	guid := ident.Lookup(string(id))
	var row sendTenantRow
	err := s.atomically(ctx, "claim tenant", func(ctx context.Context, tx bun.IDB) error {
		var id string
		var since time.Time
		err := enforceable(tx.NewSelect()).ColumnExpr("t.id, "+dueSince).
			Join(standingOfTenant).
			Where("t.account_id = ?", account(owner)).Where("t.guid = ?", guid).Where(isDue(dueSince), dueTimes(now)...).Scan(ctx, &id, &since)
		if err != nil {
			return err
		}
		row = sendTenantRow{AccountID: account(owner), TenantID: id, Place: sendlimit.UsualPlace, DueAt: micro(since), Epoch: 1}
		return tx.NewInsert().Model(&row).Value("leased_until", "? + ?", s.clock(), lease.Microseconds()).
			On("CONFLICT (account_id, tenant_id) DO UPDATE").Set("epoch = st.epoch + 1").Set("leased_until = EXCLUDED.leased_until").
			Where(isDue("st.due_at"), dueTimes(now)...).Where("st.leased_until <= ?", s.clock()).Returning("*").Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return ports.SendRun{}, false, nil
	}
	if err != nil {
		return ports.SendRun{}, false, err
	}
	return row.run(guid), true, nil
}

// HoldTenant implements ports.SendRuns.
func (s *Store) HoldTenant(ctx context.Context, r ports.SendRun, lease time.Duration) (bool, error) {
	return s.decides(ctx, "hold tenant", func(db bun.IDB) (sql.Result, error) {
		return ofRun(db, r).Where("st.leased_until > 0").Set("leased_until = ? + ?", s.clock(), lease.Microseconds()).Exec(ctx)
	})
}

// ReleaseTenant implements ports.SendRuns.
func (s *Store) ReleaseTenant(ctx context.Context, r ports.SendRun, due time.Time) (bool, error) {
	return s.decides(ctx, "release tenant", func(db bun.IDB) (sql.Result, error) {
		return ofRun(db, r).Set("due_at = CASE WHEN st.due_at < ? THEN st.due_at ELSE ? END", micro(r.Due), micro(due)).
			Set("leased_until = 0").Exec(ctx)
	})
}

// tenantOfRun finds a run's tenant by its GUID.
const tenantOfRun = "(SELECT t.id FROM tenants AS t WHERE t.account_id = ? AND t.guid = ?)"

// ofRun is a change of a tenant's counting only as long as its epoch is that
// one.
func ofRun(db bun.IDB, r ports.SendRun) *bun.UpdateQuery {
	owner := account(r.Account)
	return db.NewUpdate().Model((*sendTenantRow)(nil)).Where("st.account_id = ?", owner).
		Where("st.tenant_id = "+tenantOfRun, owner, ident.Lookup(string(r.Tenant))).Where("st.epoch = ?", r.Epoch)
}

// asRun runs w in one transaction if the tenant is still the run's, which it
// then stays until the transaction ends.
func (s *Store) asRun(ctx context.Context, doing string, r ports.SendRun, w ownWork) (held bool, err error) {
	return s.inRun(ctx, doing, func(ctx context.Context, tx bun.IDB, own *sendTenantRow) error { return s.lockRun(ctx, tx, r, own) }, w)
}

func (s *Store) lockRun(ctx context.Context, tx bun.IDB, r ports.SendRun, own *sendTenantRow) error {
	owner := account(r.Account)
	return s.locked(tx.NewSelect().Model(own).Where("st.account_id = ?", owner).
		Where("st.tenant_id = "+tenantOfRun, owner, ident.Lookup(string(r.Tenant))).Where("st.epoch = ?", r.Epoch), "st").Scan(ctx)
}

// ownWork is what a run does about its tenant in a transaction.
type ownWork func(ctx context.Context, tx bun.IDB, own sendTenantRow) error

// inRun is asRun with another way to the row of the tenant, which has to lock it
// and to end as sql.ErrNoRows if it is not the run's.
func (s *Store) inRun(ctx context.Context, doing string, lock func(context.Context, bun.IDB, *sendTenantRow) error, w ownWork) (held bool, err error) {
	err = s.atomically(ctx, doing, func(ctx context.Context, tx bun.IDB) error {
		var own sendTenantRow
		err := lock(ctx, tx, &own)
		if held = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return w(ctx, tx, own)
	})
	return held && err == nil, err
}
