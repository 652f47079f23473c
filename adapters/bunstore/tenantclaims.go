// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// sendTenantRow is the enforcement state of a tenant. An enforcement pass counts the messages of a
// tenant and blocks mailboxes. Before that, the pass claims the tenant: it increments Epoch, and
// takes a lease until LeasedUntil. The claim is valid while Epoch is unchanged.
type sendTenantRow struct {
	bun.BaseModel `bun:"table:send_tenants,alias:st"`

	AccountID   string    `bun:",pk"`
	TenantID    string    `bun:",pk"`
	TimeZone    string    `bun:"place"`
	Mark        time.Time `bun:",nullzero"` // the time up to which the counts are final
	DueAt       time.Time
	Epoch       int64
	LeasedUntil int64 // microseconds, see Store.databaseNowSQL
}

func (r sendTenantRow) claim(guid string) ports.TenantClaim {
	return ports.TenantClaim{Account: access.AccountID(r.AccountID), Tenant: tenant.GUID(guid), Epoch: r.Epoch, TimeZone: r.TimeZone, Mark: r.Mark.UTC(), Due: r.DueAt.UTC()}
}

// These constants join rows of one account. Each of them compares the account ids. Without this
// comparison a join could return rows of other accounts.
const (
	sendStateOfTenant = "LEFT JOIN send_tenants AS st ON st.account_id = t.account_id AND st.tenant_id = t.id"
	policyOfTenant    = "sp.account_id = t.account_id AND sp.tenant_id = t.id"
	mailboxOfTenant   = "m.account_id = t.account_id AND m.tenant_id = t.id"
	mailboxOfBlock    = "JOIN mailboxes AS m ON m.account_id = mb.account_id AND m.id = mb.mailbox_id"
	tenantOfMailbox   = "tenants AS t ON t.account_id = m.account_id AND t.id = m.tenant_id"
)

// dueSince is the SQL expression for the time when a tenant became due. A tenant without a row in
// send_tenants was never claimed. It is due since its consent.
const dueSince = "COALESCE(st.due_at, t.consented_at)"

// maxClockSkew is the largest expected clock skew between replicas.
const maxClockSkew = 5 * time.Minute

// isDue returns the SQL condition that a tenant is due. since is the SQL expression for the
// tenant's due time. isDueArgs returns the arguments of the condition. If a due time is later than
// now plus sendlimit.MaxInterval plus maxClockSkew, the clock that set it was wrong. The tenant
// then counts as due.
func isDue(since string) string { return "(" + since + " <= ? OR " + since + " > ?)" }

func isDueArgs(now time.Time) []any {
	return []any{storedTime(now), storedTime(now.Add(sendlimit.MaxInterval + maxClockSkew))}
}

// enforceable makes a query select the tenants whose sent messages can be read. It does not exclude
// tenants of suspended accounts, because their blocked mailboxes must still be unblocked.
func enforceable(q *bun.SelectQuery) *bun.SelectQuery {
	return consented(q).Where("t.bootstrap = ?", string(tenant.BootstrapReady))
}

func consented(q *bun.SelectQuery) *bun.SelectQuery {
	return q.TableExpr("tenants AS t").Where("t.consent = ?", string(tenant.ConsentGranted))
}

type dueTenantRow struct {
	AccountID string
	GUID      string    `bun:"guid"`
	Since     time.Time // when the tenant became due
}

func (r dueTenantRow) dueTenant() ports.DueTenant {
	return ports.DueTenant{Account: access.AccountID(r.AccountID), Tenant: tenant.GUID(r.GUID), At: r.Since.UTC()}
}

// dueTenants makes a query select a dueTenantRow for each due tenant, even if the tenant is leased.
func dueTenants(q *bun.SelectQuery, now time.Time) *bun.SelectQuery {
	return enforceable(q).ColumnExpr("t.account_id, t.guid, "+dueSince+" AS since").Join(sendStateOfTenant).
		Where(isDue(dueSince), isDueArgs(now)...)
}

// TenantsDueBy implements ports.TenantClaims.
func (s *Store) TenantsDueBy(ctx context.Context, at time.Time) ([]ports.DueTenant, error) {
	var rows []dueTenantRow
	err := s.db.RunRead(ctx, "list due and leased tenants", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return dueTenants(db.NewSelect(), at).OrderExpr("since, t.guid").Scan(ctx, &rows)
	})
	return convertAll(rows, dueTenantRow.dueTenant), err
}

// DueTenants implements ports.TenantClaims. Like DueJobs, it serves accounts in fair shares.
func (s *Store) DueTenants(ctx context.Context, now time.Time, limit int) ([]ports.DueTenant, error) {
	var rows []dueTenantRow
	err := s.db.RunRead(ctx, "list due tenants", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		busy := db.NewSelect().TableExpr("send_tenants AS st").ColumnExpr("st.account_id, count(*) AS runs").
			Where("st.leased_until > ?", s.databaseNowSQL()).GroupExpr("st.account_id")
		dueQuery := dueTenants(db.NewSelect(), now).
			ColumnExpr("row_number() OVER (PARTITION BY t.account_id ORDER BY "+dueSince+", t.id) AS nth").
			Where("COALESCE(st.leased_until, 0) <= ?", s.databaseNowSQL())
		return db.NewSelect().With("busy", busy).With("due", dueQuery).TableExpr("due").Join("LEFT JOIN busy ON busy.account_id = due.account_id").
			ColumnExpr("due.account_id, due.guid, due.since").
			OrderExpr("due.nth + COALESCE(busy.runs, 0), due.since, due.guid").Limit(int64(limit)).Scan(ctx, &rows)
	})
	return convertAll(rows, dueTenantRow.dueTenant), err
}

// ClaimTenant implements ports.TenantClaims.
func (s *Store) ClaimTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration, now time.Time) (ports.TenantClaim, bool, error) {
	return s.claimTenant(ctx, "claim tenant", owner, id, lease, claimConditions{dueAt: &now})
}

// ClaimUnleasedTenant implements ports.TenantClaims.
func (s *Store) ClaimUnleasedTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (ports.TenantClaim, bool, error) {
	return s.claimTenant(ctx, "claim unleased tenant", owner, id, lease, claimConditions{})
}

// SeizeTenant implements ports.TenantClaims.
func (s *Store) SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (ports.TenantClaim, bool, error) {
	return s.claimTenant(ctx, "seize tenant", owner, id, lease, claimConditions{revoke: true})
}

// claimConditions are the conditions under which claimTenant claims a tenant.
type claimConditions struct {
	// If dueAt is not nil, the tenant must be due at this time, and enforceable must select it.
	dueAt *time.Time
	// If revoke is true, claimTenant revokes a valid lease. Otherwise the tenant must have none.
	revoke bool
}

// claimTenant claims a tenant if its consent is granted and it meets the conditions.
func (s *Store) claimTenant(ctx context.Context, operation string, owner access.AccountID, id tenant.GUID, lease time.Duration, conditions claimConditions) (ports.TenantClaim, bool, error) {
	guid := ident.ParseOrZero(string(id))
	var row sendTenantRow
	err := s.inTransaction(ctx, operation, func(ctx context.Context, tx bun.IDB) error {
		query := consented(tx.NewSelect())
		if dueAt := conditions.dueAt; dueAt != nil {
			query = enforceable(tx.NewSelect()).Where(isDue(dueSince), isDueArgs(*dueAt)...)
		}
		query = query.ColumnExpr("t.id, "+dueSince).Join(sendStateOfTenant).
			Where("t.account_id = ?", accountKey(owner)).Where("t.guid = ?", guid)
		var tenantID string
		var since time.Time
		if err := query.Scan(ctx, &tenantID, &since); err != nil {
			return err
		}
		row = sendTenantRow{AccountID: accountKey(owner), TenantID: tenantID, TimeZone: sendlimit.DefaultTimeZone, DueAt: storedTime(since), Epoch: 1}
		insert := tx.NewInsert().Model(&row).Value("leased_until", "? + ?", s.databaseNowSQL(), lease.Microseconds()).
			On("CONFLICT (account_id, tenant_id) DO UPDATE").Set("epoch = st.epoch + 1").Set("leased_until = EXCLUDED.leased_until").Returning("*")
		if dueAt := conditions.dueAt; dueAt != nil {
			insert = insert.Where(isDue("st.due_at"), isDueArgs(*dueAt)...)
		}
		if !conditions.revoke {
			insert = insert.Where("st.leased_until <= ?", s.databaseNowSQL())
		}
		return insert.Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return ports.TenantClaim{}, false, nil
	}
	if err != nil {
		return ports.TenantClaim{}, false, err
	}
	return row.claim(guid), true, nil
}

// RenewTenantLease implements ports.TenantClaims.
func (s *Store) RenewTenantLease(ctx context.Context, claim ports.TenantClaim, lease time.Duration) (bool, error) {
	return s.execChanged(ctx, "hold tenant", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return updateClaimedTenant(db, claim).Where("st.leased_until > 0").Set("leased_until = ? + ?", s.databaseNowSQL(), lease.Microseconds()).Exec(ctx)
	})
}

// ReleaseTenant implements ports.TenantClaims.
func (s *Store) ReleaseTenant(ctx context.Context, claim ports.TenantClaim, due time.Time) (bool, error) {
	return s.execChanged(ctx, "release tenant", func(ctx context.Context, db bun.IDB) (sql.Result, error) {
		return updateClaimedTenant(db, claim).Set("due_at = CASE WHEN st.due_at < ? THEN st.due_at ELSE ? END", storedTime(claim.Due), storedTime(due)).
			Set("leased_until = 0").Exec(ctx)
	})
}

// tenantByGUID selects the id of a tenant by its account and its GUID.
const tenantByGUID = "(SELECT t.id FROM tenants AS t WHERE t.account_id = ? AND t.guid = ?)"

func updateClaimedTenant(db bun.IDB, claim ports.TenantClaim) *bun.UpdateQuery {
	owner := accountKey(claim.Account)
	return db.NewUpdate().Model((*sendTenantRow)(nil)).Where("st.account_id = ?", owner).
		Where("st.tenant_id = "+tenantByGUID, owner, ident.ParseOrZero(string(claim.Tenant))).Where("st.epoch = ?", claim.Epoch)
}

// inTenantClaim runs work in one transaction if the claim is still valid (see sendTenantRow). It
// locks the sendTenantRow, so that the tenant is not claimed again before the transaction ends.
// claimValid is false if the claim is invalid or an error occurred.
func (s *Store) inTenantClaim(ctx context.Context, operation string, claim ports.TenantClaim, work tenantClaimFunc) (claimValid bool, err error) {
	return s.inTenantClaimLocking(ctx, operation, func(ctx context.Context, tx bun.IDB, state *sendTenantRow) error {
		return s.lockTenantClaim(ctx, tx, claim, state)
	}, work)
}

func (s *Store) lockTenantClaim(ctx context.Context, tx bun.IDB, claim ports.TenantClaim, state *sendTenantRow) error {
	owner := accountKey(claim.Account)
	return s.db.LockRows(tx.NewSelect().Model(state).Where("st.account_id = ?", owner).
		Where("st.tenant_id = "+tenantByGUID, owner, ident.ParseOrZero(string(claim.Tenant))).Where("st.epoch = ?", claim.Epoch), "st").Scan(ctx)
}

// tenantClaimFunc is the work of a transaction of inTenantClaim. state is the locked sendTenantRow.
type tenantClaimFunc func(ctx context.Context, tx bun.IDB, state sendTenantRow) error

// inTenantClaimLocking works like inTenantClaim, but calls lock to lock the sendTenantRow. lock
// must return sql.ErrNoRows if the claim is invalid.
func (s *Store) inTenantClaimLocking(ctx context.Context, operation string, lock func(context.Context, bun.IDB, *sendTenantRow) error, work tenantClaimFunc) (claimValid bool, err error) {
	err = s.inTransaction(ctx, operation, func(ctx context.Context, tx bun.IDB) error {
		var state sendTenantRow
		err := lock(ctx, tx, &state)
		if claimValid = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return work(ctx, tx, state)
	})
	return claimValid && err == nil, err
}

// lockSendState locks and returns the enforcement state of a tenant, or the zero value for a tenant
// without a sendTenantRow. The query tenantID selects the tenant's id. A transaction that also
// locks mailboxes or policies of the tenant must call lockSendState first. Enforcement passes use
// this order, so the transactions do not deadlock.
func (s *Store) lockSendState(ctx context.Context, tx bun.IDB, owner string, tenantID *bun.SelectQuery) (state sendTenantRow, err error) {
	err = s.db.LockRows(tx.NewSelect().Model(&state).Where("st.account_id = ?", owner).Where("st.tenant_id = (?)", tenantID), "st").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return sendTenantRow{}, nil
	}
	return state, err
}

// makeDue makes a tenant due at now, if its due time is later. A pass in progress may have read the
// data before the caller's change. If the tenant has a lease, makeDue therefore sets a due time
// that is earlier than the due time in the claim of the pass. ReleaseTenant keeps this earlier
// time, so the tenant is evaluated again. A tenant without a sendTenantRow is due since its consent
// (see dueSince), so makeDue does nothing.
func makeDue(ctx context.Context, tx bun.IDB, state sendTenantRow, now time.Time) error {
	dueAt := storedTime(now)
	if dueAt.After(state.DueAt) {
		dueAt = state.DueAt
	}
	if state.LeasedUntil > 0 {
		dueAt = dueAt.Add(-time.Microsecond)
	}
	if state.TenantID == "" || dueAt.Equal(state.DueAt) {
		return nil
	}
	_, err := tx.NewUpdate().Model((*sendTenantRow)(nil)).Set("due_at = ?", storedTime(dueAt)).
		Where("st.account_id = ?", state.AccountID).Where("st.tenant_id = ?", state.TenantID).Exec(ctx)
	return err
}

// tenantWithZoneRow is a tenant with its time zone, as stored for the account that holds the
// tenant.
type tenantWithZoneRow struct {
	tenantRow `bun:",extend"`

	TimeZone string `bun:",scanonly"`
}

// tenantWithZone selects the tenant with a GUID, which at most one account holds.
func tenantWithZone(db bun.IDB, row *tenantWithZoneRow, id tenant.GUID) *bun.SelectQuery {
	return db.NewSelect().Model(row).ColumnExpr("?TableColumns").ColumnExpr("COALESCE(st.place, '') AS time_zone").
		Join("JOIN tenant_holders AS h ON h.account_id = t.account_id AND h.guid = t.guid").
		Join(sendStateOfTenant).
		Where("h.guid = ?", ident.ParseOrZero(string(id)))
}

func heldByNoAccount() error { return fault.TenantNotFound.With("no account holds this tenant") }

// TimeZone implements ports.TenantTimeZones.
func (s *Store) TimeZone(ctx context.Context, id tenant.GUID) (string, access.AccountID, error) {
	var row tenantWithZoneRow
	err := s.db.RunRead(ctx, "find a tenant's time zone", func(ctx context.Context, db bun.IDB) error {
		return orNotFound(tenantWithZone(db, &row, id).Scan(ctx), heldByNoAccount())
	})
	return cmp.Or(row.TimeZone, sendlimit.DefaultTimeZone), access.AccountID(row.AccountID), err
}

// SetTimeZone implements ports.TenantTimeZones.
func (s *Store) SetTimeZone(ctx context.Context, id tenant.GUID, timeZone string) (access.AccountID, error) {
	var stored tenantWithZoneRow
	err := s.inTransaction(ctx, "set a tenant's time zone", func(ctx context.Context, tx bun.IDB) error {
		stored = tenantWithZoneRow{}
		if err := s.db.LockRows(tenantWithZone(tx, &stored, id), "t").Scan(ctx); err != nil {
			return orNotFound(err, heldByNoAccount())
		}
		if cmp.Or(stored.TimeZone, sendlimit.DefaultTimeZone) == timeZone {
			return nil
		}
		row := sendTenantRow{AccountID: stored.AccountID, TenantID: stored.ID, TimeZone: storedText(timeZone), DueAt: storedTime(time.Unix(0, 0))}
		if _, err := tx.NewInsert().Model(&row).On("CONFLICT (account_id, tenant_id) DO UPDATE").Set("place = EXCLUDED.place").
			Set("mark = NULL").Set("due_at = EXCLUDED.due_at").Set("epoch = st.epoch + 1").Set("leased_until = 0").Exec(ctx); err != nil {
			return err
		}
		if err := deleteDayCounts(ctx, tx, stored.AccountID, stored.ID, afterAllDays); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, audit.SetTenantDay, stored.AccountID, map[string]string{"tenant_id": stored.GUID, "time_zone": timeZone})
	})
	return access.AccountID(stored.AccountID), err
}

// afterAllDays is later than the start of any counted day.
var afterAllDays = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// deleteDayCounts deletes the counts of a tenant's mailboxes for days that began before a time.
func deleteDayCounts(ctx context.Context, tx bun.IDB, owner, tenantID string, before time.Time) error {
	_, err := tx.NewDelete().Model((*dayCountRow)(nil)).Where("ms.account_id = ?", owner).Where("ms.day_start < ?", storedTime(before)).
		Where("ms.mailbox_id IN (SELECT m.id FROM mailboxes AS m WHERE m.account_id = ? AND m.tenant_id = ?)", owner, tenantID).Exec(ctx)
	return err
}
