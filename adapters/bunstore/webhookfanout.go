// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

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
	standing, waits := a.slots.Standing(w), false
	room := standing.Concurrent() - a.claimed[w.ID]
	for _, e := range events {
		if e.Sequence <= p.hook.Position || e.Sequence > p.Reached || !w.Wants(e.Type, e.Tenant) {
			continue
		}
		row := newDeliveryRow(p.AccountID, p.WebhookID, e.ID, e.Type, e.Sequence, a.now)
		switch {
		case room <= 0:
		case a.slots.Take(standing):
			room--
			row.Epoch = 1
			a.claims = append(a.claims, ports.ClaimedDelivery{Delivery: row.delivery(), Webhook: w, Standing: standing, Event: &e})
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

// ClaimDeliveries implements ports.Deliveries. It does not wait for a fan-out, which locks webhooks
// for as long as it inserts their deliveries: a waiting claim would hold slots that it does not use.
func (s *Store) ClaimDeliveries(ctx context.Context, webhooks []ports.DueWebhook, slots ports.Slots, lease time.Duration, now time.Time) (ports.Claimed, error) {
	var claimed ports.Claimed
	err := s.inTransaction(ctx, "claim deliveries", func(ctx context.Context, tx bun.IDB) error {
		claimed = ports.Claimed{Next: map[ports.DueWebhook]time.Time{}}
		keys := hookKeys(each(webhooks, func(d ports.DueWebhook) hookKey { return hookKey{accountKey(d.Account), ident.Lookup(d.ID)} }))
		hooks, locked, err := s.lockFreeWebhooks(ctx, tx, keys)
		claimed.Waiting = locked
		if err != nil || len(hooks) == 0 {
			return err
		}
		keys = each(hooks, webhookRow.key)
		busy, err := s.countClaimed(ctx, tx, keys)
		if err != nil {
			return err
		}
		open, err := s.openDeliveries(ctx, tx, keys, now)
		if err != nil {
			return err
		}
		standings, slots := map[string]webhook.Standing{}, slots
		var picked []deliveryKey
		for _, hook := range hooks {
			w, o := hook.webhook(), open[hook.ID]
			standing := slots.Standing(w)
			due := strings.Fields(o.Due)
			for _, id := range due[:max(0, min(len(due), standing.Concurrent()-busy[hook.ID]))] { // a try in progress looks for the others when it ends
				if !slots.Take(standing) {
					claimed.Waiting = append(claimed.Waiting, ports.DueWebhook{Account: w.Account, ID: w.ID})
					break
				}
				picked = append(picked, deliveryKey{hook.AccountID, id})
			}
			standings[hook.ID] = standing
			if !o.Next.IsZero() {
				claimed.Next[ports.DueWebhook{Account: w.Account, ID: w.ID}] = o.Next.UTC()
			}
		}
		claimed.Deliveries, err = s.claimPicked(ctx, tx, hooks, picked, lease)
		for i, d := range claimed.Deliveries {
			claimed.Deliveries[i].Standing = standings[d.WebhookID]
		}
		return err
	})
	if err != nil {
		return ports.Claimed{}, err
	}
	return claimed, nil
}

// lockFreeWebhooks locks the enabled webhooks of active accounts that no other transaction has
// locked. It also returns those that another transaction has locked.
func (s *Store) lockFreeWebhooks(ctx context.Context, tx bun.IDB, keys []hookKey) (free []webhookRow, locked []ports.DueWebhook, err error) {
	enabled := func(hooks *[]webhookRow) *bun.SelectQuery {
		return withKeys(tx.NewSelect().With("k", tx.NewValues(&keys)).Where("w.status = ?", string(webhook.Enabled)).Where(ofActiveAccount("w")), hooks)
	}
	if err := s.db.LockFreeRows(enabled(&free), "w").Scan(ctx); err != nil || len(free) == len(keys) {
		return free, nil, err
	}
	var all []webhookRow
	err = enabled(&all).Scan(ctx)
	has := setOf(each(free, func(r webhookRow) string { return r.ID }))
	for _, r := range all {
		if !has[r.ID] {
			locked = append(locked, ports.DueWebhook{Account: access.AccountID(r.AccountID), ID: r.ID})
		}
	}
	return free, locked, err
}

// deliveryKey names a delivery in a list of values.
type deliveryKey struct {
	AccountID string `bun:"type:uuid"`
	ID        string `bun:"type:uuid"`
}

// openRow has the first due deliveries of a webhook that no claim has, and the time of the next try
// that is not due yet.
type openRow struct {
	WebhookID string
	Due       string    `bun:",nullzero"` // ids, with a space between them
	Next      time.Time `bun:",nullzero"`
}

// openDeliveries finds the pending deliveries of webhooks that no claim has. It reads the beginning
// of an index for each webhook, so that long backlogs do not matter.
func (s *Store) openDeliveries(ctx context.Context, tx bun.IDB, keys []hookKey, now time.Time) (map[string]openRow, error) {
	pending := func(limit int64) *bun.SelectQuery {
		return tx.NewSelect().TableExpr("webhook_deliveries AS wd").Where("wd.account_id = k.account_id").Where("wd.webhook_id = k.webhook_id").
			Where("wd.status = ?", string(webhook.Pending)).Where("wd.leased_until <= ?", s.clock()).Order("wd.next_attempt_at", "wd.id").Limit(limit)
	}
	due := tx.NewSelect().TableExpr("(?) AS d", pending(webhook.MaxConcurrent).Column("wd.id", "wd.next_attempt_at").Where("wd.next_attempt_at <= ?", storedTime(now))).
		ColumnExpr("string_agg(CAST(d.id AS text), ' ' ORDER BY d.next_attempt_at, d.id)")
	next := pending(1).Column("wd.next_attempt_at").Where("wd.next_attempt_at > ?", storedTime(now))
	var rows []openRow
	err := tx.NewSelect().With("k", tx.NewValues(&keys)).TableExpr("k").Column("k.webhook_id").ColumnExpr("(?) AS due", due).ColumnExpr("(?) AS next", next).Scan(ctx, &rows)
	open := make(map[string]openRow, len(rows))
	for _, r := range rows {
		open[r.WebhookID] = r
	}
	return open, err
}

// claimPicked claims deliveries of webhooks, those that are due longest first.
func (s *Store) claimPicked(ctx context.Context, tx bun.IDB, hooks []webhookRow, picked []deliveryKey, lease time.Duration) ([]ports.ClaimedDelivery, error) {
	if len(picked) == 0 {
		return nil, nil
	}
	var rows []deliveryRow
	if err := tx.NewUpdate().With("k", tx.NewValues(&picked)).Model(&rows).TableExpr("k").Set("epoch = epoch + 1").
		Set("leased_until = ? + ?", s.clock(), lease.Microseconds()).Where("wd.account_id = k.account_id").Where("wd.id = k.id").
		Returning("*").Scan(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b deliveryRow) int {
		return cmp.Or(a.NextAttemptAt.Compare(b.NextAttemptAt), cmp.Compare(a.ID, b.ID))
	})
	return withEvents(ctx, tx, hooks, rows)
}

// withEvents adds the webhooks and the events of claimed deliveries.
func withEvents(ctx context.Context, tx bun.IDB, hooks []webhookRow, rows []deliveryRow) ([]ports.ClaimedDelivery, error) {
	var spans []logSpan
	for _, r := range rows {
		if r.Sequence > 0 {
			spans = append(spans, logSpan{r.AccountID, r.Sequence - 1, r.Sequence})
		}
	}
	events := map[logSpan]event.Event{}
	if len(spans) > 0 {
		found, err := eventsIn(ctx, tx, spans)
		if err != nil {
			return nil, err
		}
		for owner, list := range found {
			for _, e := range list {
				events[logSpan{owner, e.Sequence - 1, e.Sequence}] = e
			}
		}
	}
	byID := make(map[string]webhook.Webhook, len(hooks))
	for _, hook := range hooks {
		byID[hook.ID] = hook.webhook()
	}
	return each(rows, func(r deliveryRow) ports.ClaimedDelivery {
		claimed := ports.ClaimedDelivery{Delivery: r.delivery(), Webhook: byID[r.WebhookID]}
		e, found := events[logSpan{r.AccountID, r.Sequence - 1, r.Sequence}]
		if claimed.EventType == webhook.TestType {
			e, found = webhook.TestEvent(claimed.Delivery), true
		}
		if found {
			claimed.Event = &e
		}
		return claimed
	}), nil
}
