// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type eventRow struct {
	bun.BaseModel `bun:"table:events,alias:e"`

	AccountID   string `bun:",pk"`
	Sequence    int64  `bun:",pk"`
	ID          string
	Type        string
	TenantGUID  string `bun:"tenant_guid"` // ident.Zero if the subject belongs to no tenant
	SubjectType string
	SubjectID   string
	Version     int64
	Data        json.RawMessage // see storedJSON
	CreatedAt   time.Time
}

func (r eventRow) event() event.Event {
	e := event.Event{
		ID: r.ID, Sequence: r.Sequence, Type: event.Type(r.Type), At: r.CreatedAt.UTC(), Account: access.AccountID(r.AccountID),
		Subject: event.Subject{Type: event.SubjectType(r.SubjectType), ID: r.SubjectID}, Version: r.Version, Data: r.Data,
	}
	if r.TenantGUID != ident.Zero {
		e.Tenant = tenant.GUID(r.TenantGUID)
	}
	return e
}

// eventLogRow holds the sequence numbers of the last event and of the last dropped event of an
// account's log. Transactions that add events lock this row, so they commit one after another.
type eventLogRow struct {
	bun.BaseModel `bun:"table:event_logs,alias:el"`

	AccountID       string `bun:",pk"`
	LastSequence    int64
	DroppedSequence int64
}

type eventVersionRow struct {
	bun.BaseModel `bun:"table:event_versions,alias:v"`

	AccountID   string `bun:",pk"`
	SubjectType string `bun:",pk"`
	SubjectID   string `bun:",pk"`
	Version     int64
}

// pendingEvents are the events that a transaction has emitted but not stored yet.
type pendingEvents struct {
	events []event.Event
	// tenants are the tenants whose readiness may have changed, see registerForReadiness.
	tenants map[tenantKey]bool
}

type pendingEventsKey struct{}

// emit adds events to the pending events of a transaction. inTransaction stores them in its last
// steps. ctx must be the context that inTransaction passes to its function.
func emit(ctx context.Context, owner string, events ...event.Event) {
	pending := ctx.Value(pendingEventsKey{}).(*pendingEvents)
	for _, e := range events {
		e.Account = access.AccountID(owner)
		pending.events = append(pending.events, e)
	}
}

// storeEvents appends the pending events to the logs of their accounts. It locks the eventLogRows
// of these accounts until the commit, in the order of the account ids, so that transactions do not
// deadlock. Only pendingEntries.store may follow storeEvents in the transaction. A transaction that
// holds these locks therefore never waits for the rows of objects.
func (s *Store) storeEvents(ctx context.Context, tx bun.IDB, p *pendingEvents) error {
	if err := s.emitReadiness(ctx, tx, p); err != nil {
		return err
	}
	byOwner := map[string][]event.Event{}
	for _, e := range p.events {
		byOwner[string(e.Account)] = append(byOwner[string(e.Account)], e)
	}
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		if err := appendEvents(ctx, tx, owner, byOwner[owner], s.now()); err != nil {
			return err
		}
	}
	return nil
}

func appendEvents(ctx context.Context, tx bun.IDB, owner string, events []event.Event, now time.Time) error {
	log := eventLogRow{AccountID: owner, LastSequence: int64(len(events))}
	_, err := tx.NewInsert().Model(&log).On("CONFLICT (account_id) DO UPDATE").
		Set("last_sequence = el.last_sequence + EXCLUDED.last_sequence").Returning("last_sequence").Exec(ctx)
	if err != nil {
		return err
	}
	nextVersions, err := raiseVersions(ctx, tx, owner, events)
	if err != nil {
		return err
	}
	rows := make([]eventRow, 0, len(events))
	for i, e := range events {
		data, err := storedJSON(e.Data)
		if err != nil {
			return err
		}
		rows = append(rows, eventRow{
			AccountID: owner, Sequence: log.LastSequence - int64(len(events)) + int64(i) + 1, ID: newID(), Type: string(e.Type),
			TenantGUID: ident.ParseOrZero(string(e.Tenant)), SubjectType: string(e.Subject.Type), SubjectID: storedText(e.Subject.ID),
			Version: nextVersions[e.Subject], Data: data, CreatedAt: storedTime(now),
		})
		nextVersions[e.Subject]++
	}
	for chunk := range slices.Chunk(rows, batchSize) {
		if _, err := tx.NewInsert().Model(&chunk).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// raiseVersions raises the version of each subject by the number of its events. It returns, for
// each subject, the version of the first of these events.
func raiseVersions(ctx context.Context, tx bun.IDB, owner string, events []event.Event) (map[event.Subject]int64, error) {
	eventCounts := map[event.Subject]int64{}
	for _, e := range events {
		eventCounts[e.Subject]++
	}
	rows := make([]eventVersionRow, 0, len(eventCounts))
	for subject, n := range eventCounts {
		rows = append(rows, eventVersionRow{AccountID: owner, SubjectType: string(subject.Type), SubjectID: storedText(subject.ID), Version: n})
	}
	slices.SortFunc(rows, func(a, b eventVersionRow) int {
		return cmp.Or(cmp.Compare(a.SubjectType, b.SubjectType), cmp.Compare(a.SubjectID, b.SubjectID))
	})
	firstVersions := make(map[event.Subject]int64, len(rows))
	for chunk := range slices.Chunk(rows, batchSize) {
		var raised []eventVersionRow
		if err := tx.NewInsert().Model(&chunk).On("CONFLICT (account_id, subject_type, subject_id) DO UPDATE").
			Set("version = v.version + EXCLUDED.version").Returning("*").Scan(ctx, &raised); err != nil {
			return nil, err
		}
		for _, r := range raised {
			subject := event.Subject{Type: event.SubjectType(r.SubjectType), ID: r.SubjectID}
			firstVersions[subject] = r.Version - eventCounts[subject] + 1
		}
	}
	return firstVersions, nil
}

// EventsLogged returns a channel that receives a value after this process has committed events. A
// value can stand for several commits. The store has one channel, so it can have only one reader.
func (s *Store) EventsLogged() <-chan struct{} { return s.eventsLogged }

func (s *Store) signalEvents() {
	select {
	case s.eventsLogged <- struct{}{}:
	default: // the reader has not received the last value yet
	}
}

// logOf returns the eventLogRow of an account. The row is zero if the account never had an event.
func logOf(ctx context.Context, tx bun.IDB, owner string) (eventLogRow, error) {
	var log eventLogRow
	err := tx.NewSelect().Model(&log).Where("el.account_id = ?", owner).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return eventLogRow{}, nil
	}
	return log, err
}

func endOfLog(ctx context.Context, tx bun.IDB, owner string) (int64, error) {
	log, err := logOf(ctx, tx, owner)
	return log.LastSequence, err
}

// maxDisorder is the assumed limit for the disorder of the log: the time of an event is at most
// this much later than the time of an event that follows it. Times are out of order because the
// clocks of processes differ, and because a process reads its clock before it waits for the lock of
// the log.
const maxDisorder = 10 * time.Minute

// positionAt returns the sequence number just before the first event at or after a time, or the end
// of the log. The log can have millions of events, so a binary search first skips events that are
// certainly earlier.
func positionAt(ctx context.Context, tx bun.IDB, log eventLogRow, at time.Time) (int64, error) {
	at = storedTime(at)
	earlier, end := log.DroppedSequence, log.LastSequence
	for earlier < end {
		middle := earlier + (end-earlier)/2
		var next []eventRow
		err := tx.NewSelect().Model(&next).Column("sequence", "created_at").Where("e.account_id = ?", log.AccountID).
			Where("e.sequence > ?", middle).Order("e.sequence").Limit(1).Scan(ctx)
		switch {
		case err != nil:
			return 0, err
		case len(next) == 0, !next[0].CreatedAt.Before(at.Add(-maxDisorder)):
			end = middle
		default:
			earlier = next[0].Sequence
		}
	}
	var first []int64
	err := tx.NewSelect().Model((*eventRow)(nil)).Column("sequence").Where("e.account_id = ?", log.AccountID).
		Where("e.sequence > ?", earlier).Where("e.created_at >= ?", at).Order("e.sequence").Limit(1).Scan(ctx, &first)
	if err != nil || len(first) == 0 {
		return log.LastSequence, err
	}
	return first[0] - 1, nil
}

// cursorAfterEnd returns the error for a cursor that is after the end of a list. list names the
// list, for example "the log". Such a cursor can come from a different account, or from before the
// database was restored from a backup. A reader of the log with such a cursor would miss all events
// up to the cursor.
func cursorAfterEnd(list string) error {
	problem := "the cursor is after the end of " + list + " of this account; begin without a cursor"
	return fault.InvalidRequest.At(problem, fault.Field{Name: "after", Message: problem})
}

// LoggedEvents implements ports.EventLogs.
func (s *Store) LoggedEvents(ctx context.Context, owner access.AccountID, q ports.LogQuery) (ports.LogPage, error) {
	var page ports.LogPage
	err := s.db.Snapshot(ctx, "list events", func(ctx context.Context, tx bun.IDB) error {
		page = ports.LogPage{}
		log, err := logOf(ctx, tx, accountKey(owner))
		if err != nil {
			return err
		}
		after := q.After
		switch {
		case after == ports.FromOldest:
			after = log.DroppedSequence
		case after < log.DroppedSequence:
			return fault.CursorExpired.With("events after this cursor are no longer stored; begin without a cursor")
		case after > log.LastSequence:
			return cursorAfterEnd("the log")
		}
		rows, err := s.eventsAfter(ctx, tx, log, after, q)
		if err != nil {
			return err
		}
		page.More = len(rows) > q.Limit
		if page.More {
			rows = rows[:q.Limit]
			page.Next = rows[len(rows)-1].Sequence
		} else {
			page.Next = max(after, log.LastSequence) // no matching event follows before the end of the log
		}
		for _, r := range rows {
			page.Events = append(page.Events, r.event())
		}
		return nil
	})
	return page, err
}

const (
	// maxMergedRanges is the maximum number of combinations of a tenant and a type whose ranges
	// (see logRange) eventsAfter merges without reading other events first.
	maxMergedRanges = 32
	// For a filter with more combinations, eventsAfter first reads eventsPerMatch times as many
	// events as the page can have, and filters them by their type.
	eventsPerMatch = 4
)

// eventsAfter returns the events of a page, and one more event if the log has more. Each
// combination of a tenant and a type is a range of an index. The time to merge ranges does not
// depend on the position in the log. For more than maxMergedRanges combinations, eventsAfter first
// reads the next events of the tenants, of all types, and filters them. If they do not fill the
// page, it merges only those ranges that can contain an event of the page.
func (s *Store) eventsAfter(ctx context.Context, tx bun.IDB, log eventLogRow, after int64, q ports.LogQuery) (rows []eventRow, err error) {
	limit := q.Limit + 1
	types := convertAll(q.Types, func(t event.Type) string { return string(t) })
	var tenants []string
	for _, id := range q.Tenants {
		// ident.Zero is the tenant of events without a tenant, so it must not match.
		if guid := ident.ParseOrZero(string(id)); guid != ident.Zero {
			tenants = append(tenants, guid)
		}
	}
	if len(q.Tenants) > 0 && len(tenants) == 0 || after >= log.LastSequence {
		return nil, nil
	}
	if len(tenants)+len(types) == 0 {
		err = logAfter(tx, log, after, limit).Scan(ctx, &rows)
		return rows, err
	}
	if len(tenants)*len(types) <= maxMergedRanges { // also if the filter has only tenants or only types
		return s.mergedEvents(ctx, tx, log, after, limit, rangesOf(tenants, types))
	}
	tenantNumbers := s.firstNumbers(tx, log, after, eventsPerMatch*limit, rangesOf(tenants, nil))
	rows, err = s.numberedEvents(ctx, tx, log, limit, tenantNumbers, types)
	if err != nil || len(rows) == limit {
		return rows, err
	}
	ranges, err := firstRanges(ctx, tx, log, after, limit, tenants, types)
	if err != nil || len(ranges) == 0 {
		return nil, err
	}
	return s.mergedEvents(ctx, tx, log, after, limit, ranges)
}

func logAfter(tx bun.IDB, log eventLogRow, after int64, limit int) *bun.SelectQuery {
	return tx.NewSelect().Model((*eventRow)(nil)).Where("e.account_id = ?", log.AccountID).Where("e.sequence > ?", after).
		Order("e.sequence").Limit(int64(limit))
}

// logRange stands for the events of a tenant and a type. ident.Zero stands for all tenants, and an
// empty type for all types.
type logRange struct {
	TenantGUID string `bun:"tenant_guid,type:uuid"`
	Type       string `bun:"type:text"`
}

// rangesOf returns the combinations of tenants and types. An empty list stands for all tenants or
// all types.
func rangesOf(tenants, types []string) (ranges []logRange) {
	if len(tenants) == 0 {
		tenants = []string{ident.Zero}
	}
	if len(types) == 0 {
		types = []string{""}
	}
	for _, id := range tenants {
		for _, t := range types {
			ranges = append(ranges, logRange{id, t})
		}
	}
	return ranges
}

// firstRanges returns the combinations of tenants and types that can contain one of the next events
// of the page, at most limit. These are the combinations whose first event comes earliest.
func firstRanges(ctx context.Context, tx bun.IDB, log eventLogRow, after int64, limit int, tenants, types []string) ([]logRange, error) {
	nextEvent := func() *bun.SelectQuery { return logAfter(tx, log, after, 1).Column("e.sequence") }
	// withLaterEvent selects the tenants or types that have an event after the cursor. LIMIT makes
	// the planner run this query before the join.
	withLaterEvent := func(list []logRange, column string) *bun.SelectQuery {
		return tx.NewSelect().With("v", tx.NewValues(&list)).TableExpr("v").Column("v."+column).
			Where("EXISTS (?)", nextEvent().Where("? = ?", bun.Ident("e."+column), bun.Ident("v."+column))).Limit(int64(len(list)))
	}
	var found []struct {
		logRange `bun:",extend"`
		First    int64 `bun:",nullzero"` // 0 if the range has no later event
	}
	err := tx.NewSelect().Column("t.tenant_guid", "k.type").TableExpr("(?) AS t", withLaterEvent(rangesOf(tenants, nil), "tenant_guid")).
		Join("CROSS JOIN (?) AS k", withLaterEvent(rangesOf(nil, types), "type")).
		ColumnExpr("(?) AS first", nextEvent().Where("e.tenant_guid = t.tenant_guid").Where("e.type = k.type")).
		OrderExpr("first NULLS LAST").Limit(int64(limit)).Scan(ctx, &found)
	var ranges []logRange
	for _, candidate := range found {
		if candidate.First > 0 {
			ranges = append(ranges, candidate.logRange)
		}
	}
	return ranges, err
}

// mergedEvents returns the first events in the given ranges, at most limit. It reads the sequence
// numbers from the index, and then the rows of one page.
func (s *Store) mergedEvents(ctx context.Context, tx bun.IDB, log eventLogRow, after int64, limit int, ranges []logRange) ([]eventRow, error) {
	return s.numberedEvents(ctx, tx, log, limit, s.firstNumbers(tx, log, after, limit, ranges), nil)
}

// numberedEvents returns the first events, at most limit, that have a sequence number in numbers
// and a type in types. If types is empty, all types match. numbers is a query that selects sequence
// numbers in order. The database reads events in this order, and stops at the last event of the
// page. SQLite does so if the query is in an IN condition, PostgreSQL only if it is joined.
func (s *Store) numberedEvents(ctx context.Context, tx bun.IDB, log eventLogRow, limit int, numbers *bun.SelectQuery, types []string) (rows []eventRow, err error) {
	q := tx.NewSelect().Model(&rows).Where("e.account_id = ?", log.AccountID)
	if database.IsPostgres(s.db) {
		q = q.ModelTableExpr("events AS e, (?) AS n", numbers).Where("e.sequence = n.sequence")
	} else {
		q = q.Where("e.sequence IN (?)", numbers)
	}
	err = whereIn(q, "e.type", types).Order("e.sequence").Limit(int64(limit)).Scan(ctx)
	return rows, err
}

// firstNumbers returns a query for the lowest sequence numbers after the cursor in the given
// ranges, in order and at most limit.
//
// If there is more than one range, the query first reads a few numbers of each range and sorts
// them. If these are at least as many as limit, the number at the position limit is an upper bound
// for the numbers of the query.
func (s *Store) firstNumbers(tx bun.IDB, log eventLogRow, after int64, limit int, ranges []logRange) *bun.SelectQuery {
	rangeQuery := logAfter(tx, log, after, limit)
	if len(ranges) > 1 {
		numbersPerRange := (2*limit + len(ranges) - 1) / len(ranges)
		sample := s.joinedRanges(tx, logAfter(tx, log, after, numbersPerRange), ranges).Order("sequence").Limit(int64(limit))
		bound := tx.NewSelect().TableExpr("(?) AS p", sample).
			ColumnExpr("CASE COUNT(*) WHEN ? THEN MAX(p.sequence) ELSE ? END", limit, log.LastSequence)
		rangeQuery = rangeQuery.Where("e.sequence <= (?)", bound)
	}
	return s.joinedRanges(tx, rangeQuery, ranges).With("v", tx.NewValues(&ranges)).Order("sequence").Limit(int64(limit))
}

// joinedRanges selects the sequence numbers of ranges, and runs rangeQuery for each range. The
// caller adds the ranges to the statement as the table v. joinedRanges uses a join, because the
// databases take longer to plan a union of many ranges than to read them.
func (s *Store) joinedRanges(tx bun.IDB, rangeQuery *bun.SelectQuery, ranges []logRange) *bun.SelectQuery {
	numbers := rangeQuery.Column("sequence")
	if ranges[0].TenantGUID != ident.Zero {
		numbers = numbers.Where("e.tenant_guid = v.tenant_guid")
	}
	if ranges[0].Type != "" {
		numbers = numbers.Where("e.type = v.type")
	}
	joined := tx.NewSelect().TableExpr("v")
	if database.IsPostgres(s.db) {
		return joined.Column("r.sequence").TableExpr("LATERAL (?) AS r", numbers)
	}
	// SQLite has no LATERAL. There, only the arguments of a function can refer to v.
	return joined.ColumnExpr("r.value AS sequence").
		TableExpr("json_each((SELECT json_group_array(n.sequence) FROM (?) AS n)) AS r", numbers)
}

// LastEvents implements ports.EventLogs.
func (s *Store) LastEvents(ctx context.Context, owners ...access.AccountID) (map[access.AccountID]int64, error) {
	lastSequences := make(map[access.AccountID]int64, len(owners))
	for _, owner := range owners {
		lastSequences[owner] = 0
	}
	var rows []eventLogRow
	err := s.db.RunRead(ctx, "last events", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("el.account_id IN (?)", bun.List(convertAll(owners, accountKey))).Scan(ctx)
	})
	for _, r := range rows {
		lastSequences[access.AccountID(r.AccountID)] = r.LastSequence
	}
	return lastSequences, err
}

// DropEvents implements ports.EventLogs.
func (s *Store) DropEvents(ctx context.Context, before time.Time) (dropped int, err error) {
	cutoff := before.UTC().Truncate(24 * time.Hour)
	var owners []string
	err = s.db.RunRead(ctx, "list logs with old events", func(ctx context.Context, db bun.IDB) error {
		owners = nil
		return db.NewSelect().Model((*eventRow)(nil)).Distinct().Column("account_id").
			Where("e.created_at < ?", storedTime(cutoff)).Order("e.account_id").Scan(ctx, &owners)
	})
	for _, owner := range owners {
		if err != nil {
			break
		}
		var n int
		n, err = s.dropLog(ctx, owner, cutoff)
		dropped += n
	}
	return dropped, err
}

// afterAllEvents is later than the time of any event.
var afterAllEvents = time.Unix(maxUnixTime, 0)

// dropLog deletes the events at the beginning of a log that are older than the cutoff. With the
// cutoff afterAllEvents it deletes all events.
func (s *Store) dropLog(ctx context.Context, owner string, cutoff time.Time) (dropped int, err error) {
	for n := dropBatch; err == nil && n == dropBatch; dropped += n {
		n, err = s.dropLogBatch(ctx, owner, cutoff)
	}
	return dropped, err
}

// dropLogBatch deletes at most dropBatch events, and stores the sequence number of the last deleted
// event. It stops at the first event that is not older than the cutoff. Older events can follow
// that event (see maxDisorder). dropLogBatch does not delete them.
func (s *Store) dropLogBatch(ctx context.Context, owner string, cutoff time.Time) (n int, err error) {
	err = s.inTransaction(ctx, "drop events", func(ctx context.Context, tx bun.IDB) error {
		var oldest []eventRow
		if err := tx.NewSelect().Model(&oldest).Column("sequence", "created_at").Where("e.account_id = ?", owner).
			Order("e.sequence").Limit(dropBatch).Scan(ctx); err != nil {
			return err
		}
		n = len(oldest)
		if first := slices.IndexFunc(oldest, func(r eventRow) bool { return !r.CreatedAt.Before(cutoff) }); first >= 0 {
			n = first
		}
		if n == 0 {
			return nil
		}
		lastSequence := oldest[n-1].Sequence
		if _, err := tx.NewDelete().Model((*eventRow)(nil)).Where("e.account_id = ?", owner).Where("e.sequence <= ?", lastSequence).Exec(ctx); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model((*eventLogRow)(nil)).Set("dropped_sequence = ?", lastSequence).Where("el.account_id = ?", owner).
			Where("el.dropped_sequence < ?", lastSequence).Exec(ctx) // a concurrent call may have deleted later events
		return err
	})
	return n, err
}
