// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// dayCountRow is the number of messages that a mailbox sent on a day. Final counts the messages
// before the tenant's mark (see earlierMark), and Recent the later messages.
type dayCountRow struct {
	bun.BaseModel `bun:"table:mailbox_sends,alias:ms"`

	AccountID string `bun:",pk"`
	MailboxID string `bun:",pk"`
	DayStart  time.Time
	Final     int `bun:"settled"`
	Recent    int
	// CountedAt is the time of the reading that last changed or completed the count. For a partial
	// count it is the start of the day.
	CountedAt time.Time
}

func (r dayCountRow) count() sendlimit.Count {
	return sendlimit.Count{Day: r.DayStart.UTC(), Final: r.Final, Recent: r.Recent, Partial: !r.CountedAt.After(r.DayStart)}
}

// countRetention is how long counts are kept. A count is deleted when its day began more than
// countRetention before the mark that earlierMark returns.
const countRetention = 48 * time.Hour

// countedMailbox is an SQL condition for the mailboxes whose messages enforcement counts. It needs
// the table alias m and the argument listedStages. A mailbox in a different stage is counted too if
// it has an object id or is blocked: the platform may have the mailbox, and a rule may block it.
// Such a mailbox was missed by a discovery and then reserved again, or a discovery found it while a
// request was creating it.
const countedMailbox = "(m.stage IN (?) OR m.blocked_at IS NOT NULL OR m.object_id <> '')"

// CountedMailboxes implements ports.TenantClaims.
func (s *Store) CountedMailboxes(ctx context.Context, claim ports.TenantClaim, since time.Time) ([]ports.CountedMailbox, error) {
	var boxes []mailboxRow
	var dayCounts []dayCountRow
	var reasons map[string]blockReasonRow
	owner, guid := accountKey(claim.Account), ident.ParseOrZero(string(claim.Tenant))
	err := s.db.Snapshot(ctx, "list mailboxes with counts", func(ctx context.Context, tx bun.IDB) error {
		boxes, dayCounts = nil, nil
		if err := tx.NewSelect().Model(&boxes).Column("id", "address", "domain_name", "daily_send_limit", "blocked_at").
			Where("m.account_id = ?", owner).Where("m.tenant_id = "+tenantByGUID, owner, guid).Where(countedMailbox, listedStages).Order("m.address").Scan(ctx); err != nil {
			return err
		}
		ids := convertAll(boxes, func(m mailboxRow) string { return m.ID })
		// The query names the ids, because a join could scan the counts of other tenants.
		for chunk := range slices.Chunk(ids, batchSize) {
			var counted []dayCountRow
			if err := tx.NewSelect().Model(&counted).Where("ms.account_id = ?", owner).Where("ms.mailbox_id IN (?)", bun.List(chunk)).
				Where("ms.day_start >= ?", storedTime(since)).Order("ms.day_start").Scan(ctx); err != nil {
				return err
			}
			dayCounts = append(dayCounts, counted...)
		}
		var err error
		reasons, err = blockReasons(ctx, tx, owner, boxes)
		return err
	})
	counts := map[string][]sendlimit.Count{}
	for _, c := range dayCounts {
		counts[c.MailboxID] = append(counts[c.MailboxID], c.count())
	}
	return convertAll(boxes, func(m mailboxRow) ports.CountedMailbox {
		return ports.CountedMailbox{Counts: counts[m.ID], MailboxState: m.sendState(reasons[m.ID])}
	}), err
}

// SaveCounts implements ports.TenantClaims.
func (s *Store) SaveCounts(ctx context.Context, claim ports.TenantClaim, c ports.SendCounts) (bool, error) {
	lock := func(ctx context.Context, tx bun.IDB, state *sendTenantRow) error {
		if c.Mark.IsZero() {
			return s.lockTenantClaim(ctx, tx, claim, state)
		}
		return updateClaimedTenant(tx, claim).Set("mark = ?", storedTime(c.Mark)).Returning("*").Scan(ctx, state)
	}
	return s.inTenantClaimLocking(ctx, "save counts", lock, func(ctx context.Context, tx bun.IDB, state sendTenantRow) error {
		var mailboxIDs []string
		if err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", state.AccountID).
			Where("m.tenant_id = ?", state.TenantID).Scan(ctx, &mailboxIDs); err != nil {
			return err
		}
		if err := saveDayCounts(ctx, tx, state, mailboxIDs, c); err != nil {
			return err
		}
		mark, newDay := earlierMark(claim.Mark, c.Mark)
		if !newDay {
			return nil
		}
		return deleteDayCounts(ctx, tx, state.AccountID, state.TenantID, mark.Add(-countRetention))
	})
}

// earlierMark returns the earlier mark of two successive enforcement passes, if both have a mark
// and the marks are on different days in UTC. Otherwise newDay is false. A mark is the time up to
// which the counts of a tenant are final. The later mark may be wrong, because the clock of one
// pass may be fast. The caller deletes old counts only if newDay is true, because once a day is
// often enough.
func earlierMark(previous, current time.Time) (mark time.Time, newDay bool) {
	if previous.IsZero() || current.IsZero() || previous.UTC().Format(time.DateOnly) == current.UTC().Format(time.DateOnly) {
		return mark, false
	}
	if current.Before(previous) {
		return current, true
	}
	return previous, true
}

// saveDayCounts stores the counts of mailboxes that still exist, and updates the counts of today.
func saveDayCounts(ctx context.Context, tx bun.IDB, state sendTenantRow, mailboxIDs []string, c ports.SendCounts) error {
	var rows []dayCountRow
	var todayIDs []string
	for _, id := range mailboxIDs {
		for _, count := range c.ByMailbox[id] {
			row := dayCountRow{AccountID: state.AccountID, MailboxID: id, DayStart: storedTime(count.Day),
				Final: count.Final, Recent: count.Recent, CountedAt: storedTime(c.At)}
			if count.Partial {
				row.CountedAt = row.DayStart
			}
			rows = append(rows, row)
			if count.Day.Equal(c.Today) {
				todayIDs = append(todayIDs, id)
			}
		}
	}
	slices.SortFunc(rows, func(a, b dayCountRow) int {
		return cmp.Or(cmp.Compare(a.MailboxID, b.MailboxID), a.DayStart.Compare(b.DayStart))
	})
	for chunk := range slices.Chunk(rows, batchSize) {
		if _, err := tx.NewInsert().Model(&chunk).On("CONFLICT (account_id, mailbox_id, day_start) DO UPDATE").
			Set("settled = EXCLUDED.settled").Set("recent = EXCLUDED.recent").Set("counted_at = EXCLUDED.counted_at").
			Where("ms.settled <> EXCLUDED.settled OR ms.recent <> EXCLUDED.recent OR ms.counted_at <= ms.day_start").Exec(ctx); err != nil {
			return err
		}
	}
	return updateTodayCounts(ctx, tx, state, todayIDs, c)
}

// updateTodayCounts copies the counts of today to the rows of the mailboxes, where callers see
// them.
func updateTodayCounts(ctx context.Context, tx bun.IDB, state sendTenantRow, ids []string, c ports.SendCounts) error {
	for chunk := range slices.Chunk(ids, batchSize) {
		if _, err := tx.NewUpdate().Model((*mailboxRow)(nil)).
			Set("sends_today = (SELECT ms.settled + ms.recent FROM mailbox_sends AS ms WHERE ms.account_id = m.account_id "+
				"AND ms.mailbox_id = m.id AND ms.day_start = ?)", storedTime(c.Today)).
			Set("sends_today_at = ?", storedTime(c.At)).
			Where("m.account_id = ?", state.AccountID).Where("m.id IN (?)", bun.List(chunk)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

var _ ports.SendCapacity = (*Store)(nil)

type licensesRow struct {
	bun.BaseModel `bun:"table:tenant_licenses,alias:tl"`

	AccountID string `bun:",pk"`
	TenantID  string `bun:",pk"`
	Paid      int
	Trial     int
	ReadAt    time.Time
}

type recipientLimitRow struct {
	bun.BaseModel `bun:"table:recipient_limits,alias:rl"`

	AccountID  string `bun:",pk"`
	TenantID   string `bun:",pk"`
	Recipients int    // 0 if the platform publishes no limit
}

// SaveLicenses implements ports.SendCapacity.
func (s *Store) SaveLicenses(ctx context.Context, owner access.AccountID, id tenant.GUID, l tenant.Licenses, at time.Time) error {
	return s.inTransaction(ctx, "save licences", func(ctx context.Context, tx bun.IDB) error {
		t, err := s.lockTenant(ctx, tx, accountKey(owner), ident.ParseOrZero(string(id)))
		if err != nil {
			return err
		}
		row := licensesRow{AccountID: t.AccountID, TenantID: t.ID, Paid: l.Paid, Trial: l.Trial, ReadAt: storedTime(at)}
		saved, err := tx.NewInsert().Model(&row).On("CONFLICT (account_id, tenant_id) DO UPDATE").
			Set("paid = EXCLUDED.paid").Set("trial = EXCLUDED.trial").Set("read_at = EXCLUDED.read_at").
			Where("tl.read_at <= EXCLUDED.read_at").Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := saved.RowsAffected(); n == 0 { // a later report is stored
			return err
		}
		limit := recipientLimitRow{AccountID: t.AccountID, TenantID: t.ID, Recipients: l.RecipientLimit}
		_, err = tx.NewInsert().Model(&limit).On("CONFLICT (account_id, tenant_id) DO UPDATE").Set("recipients = EXCLUDED.recipients").Exec(ctx)
		return err
	})
}

// sendingRow is a tenant with its licences, left-joined with one of its counted mailboxes.
type sendingRow struct {
	TimeZone     string
	Paid         int
	Trial        int
	Recipients   int
	ReadAt       time.Time
	SendsToday   int
	SendsTodayAt time.Time
}

// Sending implements ports.SendCapacity.
func (s *Store) Sending(ctx context.Context, owner access.AccountID, id tenant.GUID, now time.Time) (tenant.Sending, error) {
	var rows []sendingRow
	err := s.db.RunRead(ctx, "read what a tenant sends", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("COALESCE(st.place, '') AS time_zone").
			ColumnExpr("tl.paid, tl.trial, tl.read_at, rl.recipients, m.sends_today, m.sends_today_at").
			Join(sendStateOfTenant).
			Join("LEFT JOIN tenant_licenses AS tl ON tl.account_id = t.account_id AND tl.tenant_id = t.id").
			Join("LEFT JOIN recipient_limits AS rl ON rl.account_id = t.account_id AND rl.tenant_id = t.id").
			Join("LEFT JOIN mailboxes AS m ON "+mailboxOfTenant+" AND m.sends_today_at IS NOT NULL AND "+countedMailbox,
				listedStages).
			Where("t.account_id = ?", accountKey(owner)).Where("t.guid = ?", ident.ParseOrZero(string(id))).Scan(ctx, &rows)
	})
	if err != nil {
		return tenant.Sending{}, err
	}
	if len(rows) == 0 {
		return tenant.Sending{}, tenantNotFound()
	}
	return sumSending(rows, now)
}

func sumSending(rows []sendingRow, now time.Time) (tenant.Sending, error) {
	first := rows[0]
	timeZone, err := sendlimit.TimeZone(cmp.Or(first.TimeZone, sendlimit.DefaultTimeZone))
	if err != nil {
		return tenant.Sending{}, fmt.Errorf("the tenant's time zone: %w", err)
	}
	sending := tenant.Sending{Licenses: tenant.Licenses{Paid: first.Paid, Trial: first.Trial, RecipientLimit: first.Recipients}, LicensesAt: first.ReadAt.UTC()}
	today := sendlimit.DayOf(now, timeZone)
	for _, r := range rows {
		if !today.Contains(r.SendsTodayAt) {
			continue
		}
		sending.SentToday += r.SendsToday
		if at := r.SendsTodayAt.UTC(); sending.CountedAt.IsZero() || at.Before(sending.CountedAt) {
			sending.CountedAt = at
		}
	}
	return sending, nil
}

const (
	// readySince is approximately when a tenant became ready for its first enforcement pass.
	readySince = "COALESCE(t.last_sync_at, t.consented_at)"
	// waitsSince is when a tenant began to wait for its next pass, which is when it became due.
	// Unlike dueSince, it ignores a due time before the consent. Such a due time belongs to an
	// earlier connection of the tenant, or was set to make the tenant due at once.
	waitsSince = "COALESCE(CASE WHEN st.due_at > t.consented_at THEN st.due_at END, " + readySince + ")"
	// limitedTenant is the condition that a tenant has a policy in force.
	limitedTenant = "EXISTS (SELECT 1 FROM send_policies AS sp WHERE " + policyOfTenant + " " +
		"AND sp.daily_send_limit IS NOT NULL AND " + domainOfPolicy + ")"
	// countedAt is when a tenant's mailboxes were last counted. If the time is later than now plus
	// maxClockSkew, the clock that set it was wrong. The tenant then counts as lagging.
	countedAt = "(SELECT max(m.sends_today_at) FROM mailboxes AS m WHERE " + mailboxOfTenant + ")"
	// maxMarkLag is how far the mark (see ports.TenantClaim) of a tenant may be behind its last
	// pass. It is longer than a day with a clock change. The mark is used for tenants without
	// counted mailboxes.
	maxMarkLag = 26 * time.Hour
	// enforceableTenant is the condition of the function enforceable: the consent is granted, and
	// the bootstrap is ready.
	enforceableTenant = "(t.consent = ? AND t.bootstrap = ?)"
)

// SendHealth implements ports.SendHealthReader.
func (s *Store) SendHealth(ctx context.Context, now, laggingBefore time.Time) (health ports.SendHealth, err error) {
	err = s.db.Snapshot(ctx, "count tenants of enforcement", func(ctx context.Context, tx bun.IDB) error {
		health = ports.SendHealth{}
		if err := s.setOldestDue(ctx, tx, now, &health); err != nil {
			return err
		}
		limited := enforceable(tx.NewSelect()).Join(sendStateOfTenant).
			Where(limitedTenant)
		laggingCondition := countedAt + " < ? OR " + countedAt + " > ? OR " + countedAt + " IS NULL AND (st.mark IS NULL AND " + readySince + " < ? OR st.mark < ?)"
		if err := limited.ColumnExpr("count(*)").ColumnExpr("count(CASE WHEN "+laggingCondition+" THEN 1 END)",
			storedTime(laggingBefore), storedTime(now.Add(maxClockSkew)), storedTime(laggingBefore), storedTime(laggingBefore.Add(-maxMarkLag))).
			Scan(ctx, &health.LimitedTenants, &health.LaggingTenants); err != nil {
			return err
		}
		return tx.NewSelect().TableExpr("mailbox_blocks AS mb").Join(mailboxOfBlock).
			Join("JOIN "+tenantOfMailbox).
			ColumnExpr("count(*)").ColumnExpr("count(CASE WHEN NOT "+enforceableTenant+" THEN 1 END)", string(tenant.ConsentGranted), string(tenant.BootstrapReady)).
			Scan(ctx, &health.BlockedMailboxes, &health.StrandedMailboxes)
	})
	return health, err
}

// setOldestDue sets h.OldestDue to the time when the tenant that waits longest began to wait (see
// waitsSince). Only due tenants without a valid lease wait.
func (s *Store) setOldestDue(ctx context.Context, tx bun.IDB, now time.Time, h *ports.SendHealth) error {
	var due []time.Time
	err := enforceable(tx.NewSelect()).ColumnExpr(waitsSince+" AS since").
		Join(sendStateOfTenant).
		Where("COALESCE(st.leased_until, 0) <= ?", s.databaseNowSQL()).Where(dueSince+" <= ?", storedTime(now)).
		OrderExpr("since").Limit(1).Scan(ctx, &due)
	if err == nil && len(due) > 0 {
		h.OldestDue = due[0].UTC()
	}
	return err
}

// SendStandings implements ports.SendHealthReader.
func (s *Store) SendStandings(ctx context.Context, owner access.AccountID) (map[tenant.GUID]ports.SendState, error) {
	var rows []struct {
		GUID      string    `bun:"guid"`
		CountedAt time.Time `bun:",nullzero"`
		Blocked   int
	}
	err := s.db.RunRead(ctx, "list standings of enforcement", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("tenants AS t").Join("JOIN mailboxes AS m ON "+mailboxOfTenant).
			ColumnExpr("t.guid, max(m.sends_today_at) AS counted_at, count(m.blocked_at) AS blocked").
			Where("t.account_id = ?", accountKey(owner)).GroupExpr("t.guid").Scan(ctx, &rows)
	})
	byTenant := make(map[tenant.GUID]ports.SendState, len(rows))
	for _, r := range rows {
		if !r.CountedAt.IsZero() || r.Blocked > 0 {
			byTenant[tenant.GUID(r.GUID)] = ports.SendState{CountedAt: r.CountedAt.UTC(), Blocked: r.Blocked}
		}
	}
	return byTenant, err
}
