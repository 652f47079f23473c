// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

type deliveryRow struct {
	bun.BaseModel `bun:"table:webhook_deliveries,alias:wd"`

	AccountID     string `bun:",pk"`
	ID            string `bun:",pk"`
	WebhookID     string
	EventID       string
	EventType     string
	Sequence      int64
	Status        string
	Tries         int
	Attempts      []webhook.Attempt `bun:"type:jsonb"`
	NextAttemptAt time.Time
	Epoch         int64
	LeasedUntil   int64 // microseconds of Store.clock
	CreatedAt     time.Time
}

func (r deliveryRow) delivery() webhook.Delivery {
	return webhook.Delivery{
		ID: r.ID, WebhookID: r.WebhookID, EventID: r.EventID, EventType: event.Type(r.EventType), Sequence: r.Sequence,
		Status: webhook.DeliveryStatus(r.Status), Tries: r.Tries, Attempts: r.Attempts, NextAttemptAt: r.NextAttemptAt.UTC(),
		CreatedAt: r.CreatedAt.UTC(), Epoch: r.Epoch,
	}
}

// newDeliveryRow returns a pending delivery that is due at now.
func newDeliveryRow(owner, webhookID, eventID string, t event.Type, sequence int64, now time.Time) deliveryRow {
	return deliveryRow{
		AccountID: owner, ID: newID(), WebhookID: webhookID, EventID: eventID, EventType: string(t), Sequence: sequence,
		Status: string(webhook.Pending), Attempts: []webhook.Attempt{}, NextAttemptAt: storedTime(now), CreatedAt: storedTime(now),
	}
}

// AccountsBehind implements ports.Deliveries. The order is random. In the order of the ids, the last
// accounts would wait as long as the first ones have new events, and all processes would lock the
// same accounts.
func (s *Store) AccountsBehind(ctx context.Context, limit int) ([]access.AccountID, error) {
	var ids []string
	err := s.db.Run(ctx, "list accounts with undelivered events", func(ctx context.Context, db bun.IDB) error {
		ids = nil
		return db.NewSelect().TableExpr("webhooks AS w").Column("w.account_id").
			Join("JOIN event_logs AS el ON el.account_id = w.account_id AND el.last_sequence > w.position").
			Where("w.status = ?", string(webhook.Enabled)).Where(ofActiveAccount("w")).Group("w.account_id").OrderExpr("random()").Limit(int64(limit)).Scan(ctx, &ids)
	})
	return each(ids, func(id string) access.AccountID { return access.AccountID(id) }), err
}

// FanOut implements ports.Deliveries. The lock on the webhooks lets one of several concurrent calls
// read the events. The others find the positions raised.
func (s *Store) FanOut(ctx context.Context, owners []access.AccountID, limit int, slots ports.Slots, lease time.Duration, now time.Time) (ports.FannedOut, error) {
	var fanned ports.FannedOut
	err := s.inTransaction(ctx, "fan out events", func(ctx context.Context, tx bun.IDB) error {
		fanned = ports.FannedOut{}
		accounts := bun.List(each(owners, accountKey))
		var hooks []webhookRow
		err := s.db.LockRows(tx.NewSelect().Model(&hooks).Where("w.account_id IN (?)", accounts).Where("w.status = ?", string(webhook.Enabled)).
			Where(ofActiveAccount("w")).Order("w.account_id", "w.id"), "w").Scan(ctx)
		if err != nil {
			return err
		}
		var logs []eventLogRow
		if err := tx.NewSelect().Model(&logs).Where("el.account_id IN (?)", accounts).Scan(ctx); err != nil {
			return err
		}
		spans, positions := spansOf(hooks, logs, limit)
		if len(positions) == 0 {
			return nil
		}
		events, err := eventsIn(ctx, tx, spans)
		if err != nil {
			return err
		}
		keys := each(positions, func(p hookPosition) hookKey { return p.hookKey })
		claimed, err := s.countClaimed(ctx, tx, keys)
		if err != nil {
			return err
		}
		added := addedDeliveries{slots: slots, claimed: claimed, now: now}
		for _, p := range positions {
			added.add(p, events[p.AccountID])
		}
		fanned = ports.FannedOut{Claimed: added.claims, Waiting: added.waiting,
			More: slices.ContainsFunc(positions, func(p hookPosition) bool { return p.more })}
		if err := s.insertDeliveries(ctx, tx, added.rows, lease); err != nil {
			return err
		}
		_, err = tx.NewUpdate().With("p", tx.NewValues(&positions)).Model((*webhookRow)(nil)).TableExpr("p").Set("position = p.reached").
			Where("w.account_id = p.account_id").Where("w.id = p.webhook_id").Exec(ctx)
		return err
	})
	if err != nil {
		return ports.FannedOut{}, err
	}
	return fanned, nil
}

// hookKey names a webhook in a list of values.
type hookKey struct {
	AccountID string `bun:"type:uuid"`
	WebhookID string `bun:"type:uuid"`
}

// hookPosition is a webhook with the position to which its events are read.
type hookPosition struct {
	hookKey `bun:",extend"`
	Reached int64

	hook webhookRow
	more bool // more events follow
}

// logSpan is a part of a log: the events after one sequence up to another.
type logSpan struct {
	AccountID string `bun:"type:uuid"`
	After     int64  `bun:"low"`
	Through   int64  `bun:"high"`
}

// spansOf returns which events the webhooks get next, and their new positions. A span has at most
// limit events. It begins at the lowest position of an account. A webhook whose position it does not
// reach begins the next span, so that a webhook with a long way to go delays no other.
func spansOf(hooks []webhookRow, logs []eventLogRow, limit int) (spans []logSpan, positions []hookPosition) {
	logOf := map[string]eventLogRow{}
	for _, log := range logs {
		logOf[log.AccountID] = log
	}
	slices.SortStableFunc(hooks, func(a, b webhookRow) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Position, b.Position))
	})
	var last logSpan
	for _, hook := range hooks {
		log := logOf[hook.AccountID]
		if hook.Position >= log.LastSequence {
			continue
		}
		if hook.AccountID != last.AccountID || hook.Position >= last.Through {
			after := max(hook.Position, log.DroppedSequence)
			last = logSpan{hook.AccountID, after, min(after+int64(limit), log.LastSequence)}
			spans = append(spans, last)
		}
		positions = append(positions, hookPosition{hookKey: hookKey{hook.AccountID, hook.ID}, Reached: last.Through,
			hook: hook, more: last.Through < log.LastSequence})
	}
	return spans, positions
}

// eventsIn returns the events in spans of logs, by account.
func eventsIn(ctx context.Context, tx bun.IDB, spans []logSpan) (map[string][]event.Event, error) {
	var rows []eventRow
	err := tx.NewSelect().With("s", tx.NewValues(&spans)).Model(&rows).
		Join("JOIN s ON e.account_id = s.account_id AND e.sequence > s.low AND e.sequence <= s.high").
		Order("e.account_id", "e.sequence").Scan(ctx)
	events := map[string][]event.Event{}
	for _, r := range rows {
		events[r.AccountID] = append(events[r.AccountID], r.event())
	}
	return events, err
}

// addedDeliveries collects the deliveries that a fan-out adds and claims.
type addedDeliveries struct {
	slots   ports.Slots
	claimed map[string]int // deliveries that a claim has, by webhook
	now     time.Time

	rows    []deliveryRow
	claims  []ports.ClaimedDelivery
	waiting []ports.DueWebhook
}

// add adds the deliveries of one webhook. Those that it does not claim for lack of room at the
// endpoint are claimed when a try of that endpoint ends.
func (a *addedDeliveries) add(p hookPosition, events []event.Event) {
	w := p.hook.webhook()
	room, waits := w.Concurrent()-a.claimed[w.ID], false
	for _, e := range events {
		if e.Sequence <= p.hook.Position || e.Sequence > p.Reached || !w.Wants(e.Type, e.Tenant) {
			continue
		}
		row := newDeliveryRow(p.AccountID, p.WebhookID, e.ID, e.Type, e.Sequence, a.now)
		switch {
		case room <= 0:
		case a.slots.Take(w.Failing()):
			room--
			row.Epoch = 1
			a.claims = append(a.claims, ports.ClaimedDelivery{Delivery: row.delivery(), Webhook: w, Event: &e})
		default:
			waits = true
		}
		a.rows = append(a.rows, row)
	}
	if waits {
		a.waiting = append(a.waiting, ports.DueWebhook{Account: w.Account, ID: w.ID})
	}
}

// insertBatch is how many deliveries one statement inserts.
const insertBatch = 500

// insertDeliveries inserts new deliveries. Those with an epoch are claimed.
func (s *Store) insertDeliveries(ctx context.Context, tx bun.IDB, rows []deliveryRow, lease time.Duration) error {
	slices.SortStableFunc(rows, func(a, b deliveryRow) int { return cmp.Compare(b.Epoch, a.Epoch) })
	free := slices.IndexFunc(rows, func(r deliveryRow) bool { return r.Epoch == 0 })
	if free < 0 {
		free = len(rows)
	}
	for chunk := range slices.Chunk(rows[:free], insertBatch) {
		if _, err := tx.NewInsert().Model(&chunk).Value("leased_until", "? + ?", s.clock(), lease.Microseconds()).Exec(ctx); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(rows[free:], insertBatch) {
		if _, err := tx.NewInsert().Model(&chunk).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// countClaimed counts the deliveries that a claim has, by webhook.
func (s *Store) countClaimed(ctx context.Context, tx bun.IDB, keys []hookKey) (map[string]int, error) {
	var counted []struct {
		WebhookID string
		Claimed   int
	}
	err := tx.NewSelect().With("k", tx.NewValues(&keys)).TableExpr("webhook_deliveries AS wd").ColumnExpr("wd.webhook_id, count(*) AS claimed").
		Join("JOIN k ON wd.account_id = k.account_id AND wd.webhook_id = k.webhook_id").Where("wd.status = ?", string(webhook.Pending)).
		Where("wd.leased_until > 0").Where("wd.leased_until > ?", s.clock()).Group("wd.webhook_id").Scan(ctx, &counted)
	claimed := map[string]int{}
	for _, c := range counted {
		claimed[c.WebhookID] = c.Claimed
	}
	return claimed, err
}

// ClaimDeliveries implements ports.Deliveries.
func (s *Store) ClaimDeliveries(ctx context.Context, owner access.AccountID, webhookID string, slots ports.Slots, lease time.Duration, now time.Time) (ports.Claimed, error) {
	var claimed ports.Claimed
	err := s.inTransaction(ctx, "claim deliveries", func(ctx context.Context, tx bun.IDB) error {
		claimed = ports.Claimed{}
		hook, err := findWebhook(ctx, s.db.LockRows(tx.NewSelect().Where("w.status = ?", string(webhook.Enabled)).Where(ofActiveAccount("w")), "w"),
			accountKey(owner), webhookID)
		if errors.Is(err, fault.WebhookNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		busy, err := s.countClaimed(ctx, tx, []hookKey{{hook.AccountID, hook.ID}})
		if err != nil {
			return err
		}
		var open []deliveryRow
		err = tx.NewSelect().Model(&open).Column("id", "next_attempt_at").Where("wd.account_id = ?", hook.AccountID).Where("wd.webhook_id = ?", hook.ID).
			Where("wd.status = ?", string(webhook.Pending)).Where("wd.leased_until <= ?", s.clock()).
			Order("wd.next_attempt_at", "wd.id").Limit(webhook.MaxConcurrent + 1).Scan(ctx)
		if err != nil {
			return err
		}
		w, slots := hook.webhook(), slots
		var ids []string
		for _, d := range open {
			if d.NextAttemptAt.After(now) {
				claimed.Next = d.NextAttemptAt.UTC()
				break
			}
			if len(ids) >= w.Concurrent()-busy[hook.ID] {
				continue // a try in progress looks for due deliveries when it ends
			}
			if !slots.Take(w.Failing()) {
				claimed.Waiting = true
				continue
			}
			ids = append(ids, d.ID)
		}
		if len(ids) == 0 {
			return nil
		}
		var rows []deliveryRow
		if err := tx.NewUpdate().Model(&rows).Set("epoch = epoch + 1").Set("leased_until = ? + ?", s.clock(), lease.Microseconds()).
			Where("wd.account_id = ?", hook.AccountID).Where("wd.id IN (?)", bun.List(ids)).Returning("*").Scan(ctx); err != nil {
			return err
		}
		slices.SortFunc(rows, func(a, b deliveryRow) int {
			return cmp.Or(a.NextAttemptAt.Compare(b.NextAttemptAt), cmp.Compare(a.ID, b.ID))
		})
		claimed.Deliveries, err = withEvents(ctx, tx, hook, rows)
		return err
	})
	if err != nil {
		return ports.Claimed{}, err
	}
	return claimed, nil
}

// withEvents adds the webhook and the events of claimed deliveries.
func withEvents(ctx context.Context, tx bun.IDB, hook webhookRow, rows []deliveryRow) ([]ports.ClaimedDelivery, error) {
	var sequences []int64
	for _, r := range rows {
		if r.Sequence > 0 {
			sequences = append(sequences, r.Sequence)
		}
	}
	events := map[int64]event.Event{}
	if len(sequences) > 0 {
		var found []eventRow
		err := tx.NewSelect().Model(&found).Where("e.account_id = ?", hook.AccountID).Where("e.sequence IN (?)", bun.List(sequences)).Scan(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			events[e.Sequence] = e.event()
		}
	}
	return each(rows, func(r deliveryRow) ports.ClaimedDelivery {
		claimed := ports.ClaimedDelivery{Delivery: r.delivery(), Webhook: hook.webhook()}
		e, found := events[r.Sequence]
		if claimed.EventType == webhook.TestType {
			e, found = webhook.TestEvent(claimed.Delivery), true
		}
		if found {
			claimed.Event = &e
		}
		return claimed
	}), nil
}

// ClaimTest implements ports.Deliveries.
func (s *Store) ClaimTest(ctx context.Context, owner access.AccountID, webhookID string, lease time.Duration, now time.Time) (ports.ClaimedDelivery, bool, error) {
	var claimed []ports.ClaimedDelivery
	err := s.inTransaction(ctx, "claim test delivery", func(ctx context.Context, tx bun.IDB) error {
		claimed = nil
		row, err := s.lockWebhook(ctx, tx, accountKey(owner), webhookID)
		if err != nil {
			return err
		}
		busy, err := s.countClaimed(ctx, tx, []hookKey{{row.AccountID, row.ID}})
		if err != nil || busy[row.ID] >= webhook.MaxConcurrent {
			return err
		}
		d := newDeliveryRow(row.AccountID, row.ID, newID(), webhook.TestType, 0, now)
		d.Epoch = 1
		if err := s.insertDeliveries(ctx, tx, []deliveryRow{d}, lease); err != nil {
			return err
		}
		claimed, err = withEvents(ctx, tx, row, []deliveryRow{d})
		return err
	})
	if err != nil || len(claimed) == 0 {
		return ports.ClaimedDelivery{}, false, err
	}
	return claimed[0], true, nil
}

// resultRow is the result of a try in a list of values. Its names differ from those of the rows that
// it changes.
type resultRow struct {
	AccountID  string `bun:"type:uuid"`
	DeliveryID string `bun:"type:uuid"`
	Claim      int64  // the epoch
	Result     string // the status
	TriesMade  int
	AllTries   []webhook.Attempt `bun:"type:jsonb"`
	NextAt     time.Time
}

func newResultRow(d ports.TriedDelivery) resultRow {
	return resultRow{AccountID: accountKey(d.Account), DeliveryID: ident.Lookup(d.ID), Claim: d.Epoch, Result: string(d.Status), TriesMade: d.Tries,
		AllTries: d.Attempts, NextAt: storedTime(d.NextAttemptAt)}
}

// SaveDeliveries implements ports.Deliveries. It locks the webhooks before the deliveries, in the order
// in which disabling a webhook locks them. Pending deliveries end last, so that a delivery keeps the
// try that disabled its webhook.
func (s *Store) SaveDeliveries(ctx context.Context, tried []ports.TriedDelivery, now time.Time) ([]ports.SavedDelivery, error) {
	var all []ports.SavedDelivery
	err := s.inTransaction(ctx, "save deliveries", func(ctx context.Context, tx bun.IDB) error {
		keys := slices.Compact(slices.SortedFunc(slices.Values(each(tried, func(d ports.TriedDelivery) hookKey {
			return hookKey{accountKey(d.Account), ident.Lookup(d.WebhookID)}
		})), func(a, b hookKey) int {
			return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.WebhookID, b.WebhookID))
		}))
		var hooks []webhookRow
		err := s.db.LockRows(tx.NewSelect().With("k", tx.NewValues(&keys)).Model(&hooks).
			Join("JOIN k ON w.account_id = k.account_id AND w.id = k.webhook_id").Order("w.account_id", "w.id"), "w").Scan(ctx)
		if err != nil {
			return err
		}
		saved, err := saveResults(ctx, tx, each(tried, newResultRow))
		if err != nil {
			return err
		}
		noted := map[string][]ports.TriedDelivery{}
		for _, d := range tried {
			if id := ident.Lookup(d.WebhookID); saved[ident.Lookup(d.ID)] {
				noted[id] = append(noted[id], d)
			}
		}
		for _, hook := range hooks {
			if err := noteResults(ctx, tx, hook, noted[hook.ID]); err != nil {
				return err
			}
		}
		due, err := s.dueOf(ctx, tx, keys, now)
		all = each(tried, func(d ports.TriedDelivery) ports.SavedDelivery {
			return ports.SavedDelivery{Saved: saved[ident.Lookup(d.ID)], Due: due[ident.Lookup(d.WebhookID)]}
		})
		return err
	})
	return all, err
}

// saveResults stores the results of deliveries that are still claimed with the same epoch, and returns
// the ids of these deliveries.
func saveResults(ctx context.Context, tx bun.IDB, results []resultRow) (map[string]bool, error) {
	var ids []string
	err := tx.NewUpdate().With("r", tx.NewValues(&results)).Model((*deliveryRow)(nil)).TableExpr("r").
		Set("status = r.result").Set("tries = r.tries_made").Set("attempts = r.all_tries").Set("next_attempt_at = r.next_at").Set("leased_until = 0").
		Where("wd.account_id = r.account_id").Where("wd.id = r.delivery_id").Where("wd.epoch = r.claim").
		Where("wd.status = ?", string(webhook.Pending)).Returning("id").Scan(ctx, &ids)
	return setOf(ids), err
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// noteResults changes a webhook as the results of its tries say.
func noteResults(ctx context.Context, tx bun.IDB, hook webhookRow, tried []ports.TriedDelivery) error {
	before := hook.webhook()
	w, reason := before, webhook.Reason("")
	for _, d := range tried {
		if reason == "" {
			w, reason = w.After(d.Delivery, d.Gone)
		}
	}
	if w.Status == before.Status && w.FailingSince.Equal(before.FailingSince) {
		return nil
	}
	stored := newWebhookRow(hook.AccountID, w)
	_, err := updateWebhook(tx, hook.AccountID, hook.ID).Model(&stored).Column("status", "failing_since").Exec(ctx)
	if err != nil || reason == "" {
		return err
	}
	return failPending(ctx, tx, hook.AccountID, hook.ID, reason)
}

// dueOf returns the webhooks with due deliveries that no claim has.
func (s *Store) dueOf(ctx context.Context, tx bun.IDB, keys []hookKey, now time.Time) (map[string]bool, error) {
	due := tx.NewSelect().TableExpr("webhook_deliveries AS wd").ColumnExpr("1").Where("wd.account_id = k.account_id").
		Where("wd.webhook_id = k.webhook_id").Where("wd.status = ?", string(webhook.Pending)).
		Where("wd.next_attempt_at <= ?", storedTime(now)).Where("wd.leased_until <= ?", s.clock())
	var ids []string
	err := tx.NewSelect().With("k", tx.NewValues(&keys)).TableExpr("k").Column("k.webhook_id").Where("EXISTS (?)", due).Scan(ctx, &ids)
	return setOf(ids), err
}

// ReleaseDelivery implements ports.Deliveries.
func (s *Store) ReleaseDelivery(ctx context.Context, owner access.AccountID, d webhook.Delivery) error {
	return s.db.RunWrite(ctx, "release delivery", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewUpdate().Model((*deliveryRow)(nil)).Set("leased_until = 0").Where("account_id = ?", accountKey(owner)).
			Where("id = ?", ident.Lookup(d.ID)).Where("epoch = ?", d.Epoch).Where("status = ?", string(webhook.Pending)).Exec(ctx)
		return err
	})
}

// ListDeliveries implements ports.Deliveries.
func (s *Store) ListDeliveries(ctx context.Context, owner access.AccountID, webhookID string, q ports.DeliveryQuery) ([]webhook.Delivery, error) {
	var rows []deliveryRow
	err := s.db.Snapshot(ctx, "list deliveries", func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		hook, err := findWebhook(ctx, tx.NewSelect(), accountKey(owner), webhookID)
		if err != nil {
			return err
		}
		list := tx.NewSelect().Model(&rows).Where("wd.account_id = ?", hook.AccountID).Where("wd.webhook_id = ?", hook.ID).
			Order("wd.id DESC").Limit(int64(q.Limit))
		if q.Status != "" {
			list = list.Where("wd.status = ?", string(q.Status))
		}
		if q.Before != "" {
			list = list.Where("wd.id < ?", ident.Lookup(q.Before))
		}
		return list.Scan(ctx)
	})
	return each(rows, deliveryRow.delivery), err
}

// Redeliver implements ports.Deliveries.
func (s *Store) Redeliver(ctx context.Context, owner access.AccountID, webhookID, id string, now time.Time) (webhook.Delivery, error) {
	var row deliveryRow
	err := s.inTransaction(ctx, "redeliver", func(ctx context.Context, tx bun.IDB) error {
		row = deliveryRow{}
		hook, err := s.lockWebhook(ctx, tx, accountKey(owner), webhookID)
		if err != nil {
			return err
		}
		err = tx.NewUpdate().Model(&row).Set("status = ?", string(webhook.Pending)).Set("tries = 0").Set("next_attempt_at = ?", storedTime(now)).
			Where("wd.account_id = ?", hook.AccountID).Where("wd.webhook_id = ?", hook.ID).Where("wd.id = ?", ident.Lookup(id)).
			Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.DeliveryNotFound.With("the webhook has no such delivery")
		}
		return err
	})
	if err != nil {
		return webhook.Delivery{}, err
	}
	return row.delivery(), nil
}

// DueWebhooks implements ports.Deliveries.
func (s *Store) DueWebhooks(ctx context.Context, now time.Time, limit int) ([]ports.DueWebhook, error) {
	var rows []webhookRow
	err := s.db.Run(ctx, "list due webhooks", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("webhook_deliveries AS wd").ColumnExpr("wd.account_id, wd.webhook_id AS id").
			Join("JOIN webhooks AS w ON w.account_id = wd.account_id AND w.id = wd.webhook_id AND w.status = ?", string(webhook.Enabled)).
			Where("wd.status = 'pending'").Where("wd.next_attempt_at <= ?", storedTime(now)).Where("wd.leased_until <= ?", s.clock()).
			Where(ofActiveAccount("wd")).GroupExpr("wd.account_id, wd.webhook_id").
			OrderExpr("min(wd.next_attempt_at), wd.webhook_id").Limit(int64(limit)).Scan(ctx, &rows)
	})
	return each(rows, func(r webhookRow) ports.DueWebhook {
		return ports.DueWebhook{Account: access.AccountID(r.AccountID), ID: r.ID}
	}), err
}

// DropDeliveries implements ports.Deliveries.
func (s *Store) DropDeliveries(ctx context.Context, before time.Time, limit int) (int, error) {
	var dropped int64
	err := s.db.RunWrite(ctx, "drop deliveries", func(ctx context.Context, db bun.IDB) error {
		old := db.NewSelect().Model((*deliveryRow)(nil)).Column("account_id", "id").Where("wd.created_at < ?", storedTime(before)).
			Order("wd.created_at").Limit(int64(limit))
		res, err := db.NewDelete().Model((*deliveryRow)(nil)).Where("(account_id, id) IN (?)", old).Exec(ctx)
		if err == nil {
			dropped, err = res.RowsAffected()
		}
		return err
	})
	return int(dropped), err
}
