// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type enforcementRow struct {
	bun.BaseModel `bun:"table:enforcement_events,alias:ev"`

	AccountID      string `bun:",pk"`
	ID             string `bun:",pk"`
	TenantGUID     string `bun:"tenant_guid"`
	MailboxAddress string
	Action         string
	SentCount      int
	LimitValue     int
	CreatedAt      time.Time
}

func newEnforcementRow(owner string, e sendlimit.Event) enforcementRow {
	return enforcementRow{AccountID: owner, ID: ident.ParseOrZero(e.ID), TenantGUID: ident.ParseOrZero(string(e.Tenant)), MailboxAddress: storedText(e.Address),
		Action: string(e.Action), SentCount: e.Sent, LimitValue: e.Limit, CreatedAt: storedTime(e.At)}
}

func (r enforcementRow) event() sendlimit.Event {
	return sendlimit.Event{ID: r.ID, Tenant: tenant.GUID(r.TenantGUID), Address: r.MailboxAddress, Action: sendlimit.Action(r.Action),
		Sent: r.SentCount, Limit: r.LimitValue, At: r.CreatedAt.UTC()}
}

// hour and day are the spans in which events are counted, in seconds. The events of one hour are
// few enough to scan. A log has few enough days to read the counts of all days.
const (
	hour = 60 * 60
	day  = 24 * hour
)

// eventCountRow is the number of events of one tenant and action in a span. ident.Zero as the
// tenant means all tenants of the account.
type eventCountRow struct {
	bun.BaseModel `bun:"table:enforcement_counts,alias:ec"`

	AccountID  string `bun:",pk"`
	TenantGUID string `bun:"tenant_guid,pk"`
	Action     string `bun:",pk"`
	Span       int    `bun:",pk"` // hour or day
	Starts     int64  `bun:",pk"` // Unix time in seconds
	Events     int
}

// countsOfEvent returns the counts in which an event is included. The time in the event's id
// determines the spans, because pages are ordered by id.
func countsOfEvent(e enforcementRow) (counts []eventCountRow) {
	at := ident.Time(e.ID).Unix()
	for _, guid := range []string{ident.Zero, e.TenantGUID} {
		for _, span := range []int64{day, hour} {
			counts = append(counts, eventCountRow{AccountID: e.AccountID, TenantGUID: guid, Action: e.Action,
				Span: int(span), Starts: at - at%span, Events: 1})
		}
	}
	return counts
}

// firstID returns the smallest id of an event at or after a time.
func firstID(unixSeconds int64) string {
	return ident.New(time.Unix(unixSeconds, 0), [ident.EntropyBytes]byte{})
}

// recordEvents inserts new events, and adds them to the counts. Concurrent transactions of an
// account update the same counts and wait for each other. All of them write counts after the events
// and in the same order, so that they do not deadlock.
func recordEvents(ctx context.Context, tx bun.IDB, owner string, events []sendlimit.Event) error {
	counts := map[eventCountRow]int{}
	for chunk := range slices.Chunk(events, batchSize) {
		rows := make([]enforcementRow, 0, len(chunk))
		for _, e := range chunk {
			row := newEnforcementRow(owner, e)
			rows = append(rows, row)
			for _, c := range countsOfEvent(row) {
				counts[c]++
			}
		}
		if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
			return err
		}
	}
	return addCounts(ctx, tx, counts)
}

func addCounts(ctx context.Context, tx bun.IDB, counts map[eventCountRow]int) error {
	if len(counts) == 0 {
		return nil
	}
	rows := make([]eventCountRow, 0, len(counts))
	for row, n := range counts {
		row.Events = n
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b eventCountRow) int {
		return cmp.Or(cmp.Compare(b.TenantGUID, a.TenantGUID), cmp.Compare(b.Action, a.Action), cmp.Compare(a.Span, b.Span), cmp.Compare(a.Starts, b.Starts))
	})
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (account_id, tenant_guid, action, span, starts) DO UPDATE").
		Set("events = ec.events + EXCLUDED.events").Exec(ctx)
	return err
}

// Events implements ports.EnforcementEvents.
func (s *Store) Events(ctx context.Context, owner access.AccountID, wanted ports.EventQuery) (ports.EventPage, error) {
	var page ports.EventPage
	err := s.db.Snapshot(ctx, "list enforcement events", func(ctx context.Context, tx bun.IDB) error {
		page = ports.EventPage{Events: []sendlimit.Event{}}
		if wanted.Tenant != "" {
			exists, err := tx.NewSelect().Model((*tenantRow)(nil)).Where("t.account_id = ?", accountKey(owner)).
				Where("t.guid = ?", ident.ParseOrZero(string(wanted.Tenant))).Exists(ctx)
			if err != nil || !exists {
				return cmp.Or(err, tenantNotFound())
			}
		}
		days, err := eventCounts(ctx, tx, owner, wanted, day, 0, maxUnixTime)
		if err != nil {
			return err
		}
		for _, d := range days {
			page.Total += d.Events
		}
		if wanted.Offset >= page.Total {
			return nil
		}
		page.Events, err = eventPage(ctx, tx, owner, wanted, days)
		return err
	})
	return page, err
}

// maxUnixTime is later than the time of any event.
const maxUnixTime = 1 << 48 / 1000

// eventPage returns the events of a page. It skips whole days by their counts, then whole hours of
// the day in which the page begins. The query therefore skips the rows of at most one hour.
func eventPage(ctx context.Context, tx bun.IDB, owner access.AccountID, wanted ports.EventQuery, days []eventCountRow) ([]sendlimit.Event, error) {
	span, skip := skipToOffset(days, wanted.Offset)
	hours, err := eventCounts(ctx, tx, owner, wanted, hour, span.Starts, span.Starts+day)
	if err != nil {
		return nil, err
	}
	span, skip = skipToOffset(hours, skip)
	var rows []enforcementRow
	query := tx.NewSelect().Model(&rows).Where("ev.account_id = ?", accountKey(owner)).Where("ev.id < ?", firstID(span.Starts+hour))
	if wanted.Tenant != "" {
		query = query.Where("ev.tenant_guid = ?", ident.ParseOrZero(string(wanted.Tenant)))
	}
	query = onlyVisible(ctx, query, "ev.tenant_guid")
	if wanted.Action != "" {
		query = query.Where("ev.action = ?", string(wanted.Action))
	}
	err = query.OrderExpr("ev.id DESC").Limit(int64(wanted.Limit)).Offset(int64(skip)).Scan(ctx)
	return convertAll(rows, enforcementRow.event), err
}

// skipToOffset returns the span that contains the event at offset, and the number of events to skip
// in this span.
func skipToOffset(spans []eventCountRow, offset int) (span eventCountRow, offsetInSpan int) {
	for _, span = range spans {
		if offset < span.Events {
			break
		}
		offset -= span.Events
	}
	return span, offset
}

// eventCounts returns an account's counts, newest first. Each count is the sum over the tenants and
// the actions that match q.
func eventCounts(ctx context.Context, tx bun.IDB, owner access.AccountID, q ports.EventQuery, span int, from, to int64) ([]eventCountRow, error) {
	var rows []eventCountRow
	guids := []string{ident.Zero}
	if tenants, limited := ports.VisibleTenants(ctx); limited {
		guids = storedGUIDs(tenants)
	}
	if q.Tenant != "" {
		guids = []string{ident.ParseOrZero(string(q.Tenant))}
	}
	actions := []sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked}
	if q.Action != "" {
		actions = []sendlimit.Action{q.Action}
	}
	err := tx.NewSelect().Model(&rows).Column("starts").ColumnExpr("CAST(SUM(ec.events) AS bigint) AS events").
		Where("ec.account_id = ?", accountKey(owner)).Where("ec.tenant_guid IN (?)", bun.List(guids)).Where("ec.action IN (?)", bun.List(actions)).
		Where("ec.span = ?", span).Where("ec.starts >= ?", from).Where("ec.starts < ?", to).
		GroupExpr("ec.starts").OrderExpr("ec.starts DESC").Scan(ctx)
	return rows, err
}

// dropBatch is the maximum number of events that one transaction deletes.
const dropBatch = 5000

// DeleteEvents implements ports.EnforcementEvents.
func (s *Store) DeleteEvents(ctx context.Context, before time.Time) (int, error) {
	var days []eventCountRow
	err := s.db.RunRead(ctx, "list days of enforcement events", func(ctx context.Context, db bun.IDB) error {
		days = nil
		return eventDaysBefore(db, before).Scan(ctx, &days)
	})
	if err != nil {
		return 0, err
	}
	return s.dropDays(ctx, days)
}

func (s *Store) dropEnforcementEvents(ctx context.Context, owner string) error {
	var days []eventCountRow
	err := s.db.RunRead(ctx, "list an account's days of enforcement events", func(ctx context.Context, db bun.IDB) error {
		days = nil
		return db.NewSelect().Model(&days).Distinct().Column("account_id", "starts").Where("ec.account_id = ?", owner).
			Where("ec.tenant_guid = ?", ident.Zero).Where("ec.span = ?", day).Order("ec.starts").Scan(ctx)
	})
	if err == nil {
		_, err = s.dropDays(ctx, days)
	}
	return err
}

func (s *Store) dropDays(ctx context.Context, days []eventCountRow) (dropped int, err error) {
	for _, d := range days {
		for n := dropBatch; err == nil && n == dropBatch; dropped += n {
			n, err = s.dropEventBatch(ctx, d, dropBatch)
		}
	}
	return dropped, err
}

// eventDaysBefore selects the days that ended at or before the time end and that have events, for
// all accounts.
func eventDaysBefore(db bun.IDB, end time.Time) *bun.SelectQuery {
	return db.NewSelect().Model((*eventCountRow)(nil)).Distinct().Column("account_id", "starts").Where("ec.tenant_guid = ?", ident.Zero).
		Where("ec.span = ?", day).Where("ec.starts <= ?", end.Unix()-day).Order("ec.starts", "ec.account_id")
}

// dropEventBatch deletes the earliest events of a day, at most limit, and subtracts them from the
// counts. It does both in one transaction, so that the counts are always correct.
func (s *Store) dropEventBatch(ctx context.Context, d eventCountRow, limit int) (n int, err error) {
	err = s.inTransaction(ctx, "drop enforcement events", func(ctx context.Context, tx bun.IDB) error {
		oldestIDs := tx.NewSelect().Model((*enforcementRow)(nil)).Column("id").Where("ev.account_id = ?", d.AccountID).
			Where("ev.id >= ?", firstID(d.Starts)).Where("ev.id < ?", firstID(d.Starts+day)).Order("ev.id").Limit(int64(limit))
		var deleted []enforcementRow
		if err := tx.NewDelete().Model(&deleted).Where("ev.account_id = ?", d.AccountID).Where("ev.id IN (?)", oldestIDs).
			Returning("account_id, id, tenant_guid, action").Scan(ctx); err != nil {
			return err
		}
		n = len(deleted)
		return subtractCounts(ctx, tx, d, deleted)
	})
	return n, err
}

func subtractCounts(ctx context.Context, tx bun.IDB, d eventCountRow, deleted []enforcementRow) error {
	decrements, tenants := map[eventCountRow]int{}, map[string]bool{}
	for _, row := range deleted {
		for _, c := range countsOfEvent(row) {
			decrements[c]--
			tenants[c.TenantGUID] = true
		}
	}
	if err := addCounts(ctx, tx, decrements); err != nil || len(decrements) == 0 {
		return err
	}
	guids := slices.Sorted(maps.Keys(tenants))
	_, err := tx.NewDelete().Model((*eventCountRow)(nil)).Where("ec.account_id = ?", d.AccountID).Where("ec.tenant_guid IN (?)", bun.List(guids)).
		Where("ec.action IN (?)", bun.List([]sendlimit.Action{sendlimit.Blocked, sendlimit.Unblocked})).Where("ec.span IN (?)", bun.List([]int{hour, day})).
		Where("ec.starts >= ?", d.Starts).Where("ec.starts < ?", d.Starts+day).Where("ec.events <= 0").Exec(ctx)
	return err
}

// eventTime returns the time for a tenant's next events. It is later than the times of all stored
// events of the tenant, even if the clock was set back. Otherwise a new event could come before an
// event that a caller has already read. eventTime must run in the transaction that inserts the
// events.
func eventTime(ctx context.Context, tx bun.IDB, owner string, id tenant.GUID, now time.Time) (time.Time, error) {
	var newest enforcementRow
	err := tx.NewSelect().Model(&newest).Where("ev.account_id = ?", owner).Where("ev.tenant_guid = ?", ident.ParseOrZero(string(id))).
		OrderExpr("ev.id DESC").Limit(1).Scan(ctx)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return now, err
	}
	if next := newest.CreatedAt.Add(time.Millisecond); next.After(now) {
		return next, nil
	}
	return now, nil
}

// withIDAt returns the event with the time at, and with a new id that contains this time.
func withIDAt(e sendlimit.Event, at time.Time) sendlimit.Event {
	var random [ident.EntropyBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	e.ID, e.At = ident.New(at, random), at
	return e
}
