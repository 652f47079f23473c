// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

const (
	// readySince is about when a tenant that has had no run could have one.
	readySince = "COALESCE(t.last_sync_at, t.consented_at)"
	// waitsSince is when a tenant became due. A time before its consent is from
	// an earlier life, or the first of all times, which means at once.
	waitsSince = "COALESCE(CASE WHEN st.due_at > t.consented_at THEN st.due_at END, " + readySince + ")"
	// limitedTenant has a limit in force.
	limitedTenant = "EXISTS (SELECT 1 FROM send_policies AS sp WHERE " + policyOfTenant + " " +
		"AND sp.daily_send_limit IS NOT NULL AND " + domainOfPolicy + ")"
	// countedAt is when a tenant's mailboxes were counted, which is done of all
	// at once. A time that has not come yet is of a clock that was ahead, and as
	// good as none.
	countedAt = "(SELECT max(m.sends_today_at) FROM mailboxes AS m WHERE " + boxOfTenant + ")"
	// markBehind is how far the mark may be behind a count that is good: the
	// longest day. It tells of tenants without mailboxes.
	markBehind = 26 * time.Hour
	// letsUsIn is what enforceable tenants have in common.
	letsUsIn = "(t.consent = ? AND t.bootstrap = ?)"
)

// SendHealth implements ports.SendWatch.
func (s *Store) SendHealth(ctx context.Context, now, behind time.Time) (h ports.SendHealth, err error) {
	err = s.snapshot(ctx, "count tenants of enforcement", func(ctx context.Context, tx bun.IDB) error {
		h = ports.SendHealth{}
		if err := longestDue(ctx, s, tx, now, &h); err != nil {
			return err
		}
		limited := enforceable(tx.NewSelect()).Join(standingOfTenant).
			Where(limitedTenant)
		late := countedAt + " < ? OR " + countedAt + " > ? OR " + countedAt + " IS NULL AND (st.mark IS NULL AND " + readySince + " < ? OR st.mark < ?)"
		if err := limited.ColumnExpr("count(*)").ColumnExpr("count(CASE WHEN "+late+" THEN 1 END)",
			micro(behind), micro(now.Add(dueSlack)), micro(behind), micro(behind.Add(-markBehind))).
			Scan(ctx, &h.Limited, &h.Behind); err != nil {
			return err
		}
		return tx.NewSelect().TableExpr("mailbox_blocks AS mb").Join(boxOfBlock).
			Join("JOIN "+tenantOfBox).
			ColumnExpr("count(*)").ColumnExpr("count(CASE WHEN NOT "+letsUsIn+" THEN 1 END)", string(tenant.ConsentGranted), string(tenant.BootstrapReady)).
			Scan(ctx, &h.Blocked, &h.Stranded)
	})
	return h, err
}

// longestDue finds since when a tenant waits, at most.
func longestDue(ctx context.Context, s *Store, tx bun.IDB, now time.Time, h *ports.SendHealth) error {
	var due []time.Time
	err := enforceable(tx.NewSelect()).ColumnExpr(waitsSince+" AS since").
		Join(standingOfTenant).
		Where("COALESCE(st.leased_until, 0) <= ?", s.clock()).Where(dueSince+" <= ?", micro(now)).
		OrderExpr("since").Limit(1).Scan(ctx, &due)
	if err == nil && len(due) > 0 {
		h.Due = due[0].UTC()
	}
	return err
}

// SendStandings implements ports.SendWatch.
func (s *Store) SendStandings(ctx context.Context, owner access.AccountID) (map[tenant.GUID]ports.SendStanding, error) {
	var rows []struct {
		GUID      string    `bun:"guid"`
		CountedAt time.Time `bun:",nullzero"`
		Blocked   int
	}
	err := s.run(ctx, "list standings of enforcement", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("tenants AS t").Join("JOIN mailboxes AS m ON "+boxOfTenant).
			ColumnExpr("t.guid, max(m.sends_today_at) AS counted_at, count(m.blocked_at) AS blocked").
			Where("t.account_id = ?", account(owner)).GroupExpr("t.guid").Scan(ctx, &rows)
	})
	all := make(map[tenant.GUID]ports.SendStanding, len(rows))
	for _, r := range rows {
		if !r.CountedAt.IsZero() || r.Blocked > 0 {
			all[tenant.GUID(r.GUID)] = ports.SendStanding{CountedAt: r.CountedAt.UTC(), Blocked: r.Blocked}
		}
	}
	return all, err
}
