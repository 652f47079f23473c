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

// AccountsWithNewEvents implements ports.Deliveries. The order is random. If the accounts were in
// the order of their ids, the last accounts would wait as long as the first accounts have new
// events. Also, all processes would lock the webhooks of the same accounts.
func (s *Store) AccountsWithNewEvents(ctx context.Context, limit int) ([]access.AccountID, error) {
	var ids []string
	err := s.db.RunRead(ctx, "list accounts with undelivered events", func(ctx context.Context, db bun.IDB) error {
		ids = nil
		return db.NewSelect().TableExpr("webhooks AS w").Column("w.account_id").
			Join("JOIN event_logs AS el ON el.account_id = w.account_id AND el.last_sequence > w.position").
			Where("w.status = ?", string(webhook.Enabled)).Where(ofActiveAccount("w")).Group("w.account_id").OrderExpr("random()").Limit(int64(limit)).Scan(ctx, &ids)
	})
	return convertAll(ids, func(id string) access.AccountID { return access.AccountID(id) }), err
}

// FanOut implements ports.Deliveries. It locks the webhooks, so concurrent calls for an account
// wait for each other. A later call then finds higher positions.
func (s *Store) FanOut(ctx context.Context, owners []access.AccountID, limit int, slots ports.Slots, lease time.Duration, now time.Time) (ports.FanOutResult, error) {
	var result ports.FanOutResult
	err := s.inTransaction(ctx, "fan out events", func(ctx context.Context, tx bun.IDB) error {
		result = ports.FanOutResult{}
		accounts := bun.List(convertAll(owners, accountKey))
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
		keys := convertAll(positions, func(p webhookPosition) webhookKey { return p.webhookKey })
		claimed, err := s.countClaimed(ctx, tx, keys)
		if err != nil {
			return err
		}
		added := addedDeliveries{slots: slots, claimed: claimed, now: now}
		for _, p := range positions {
			added.add(p, events[p.AccountID])
		}
		result = ports.FanOutResult{Claimed: added.claims, Waiting: added.waiting,
			More: slices.ContainsFunc(positions, func(p webhookPosition) bool { return p.hasMore })}
		if err := s.insertDeliveries(ctx, tx, added.rows, lease); err != nil {
			return err
		}
		_, err = tx.NewUpdate().With("p", tx.NewValues(&positions)).Model((*webhookRow)(nil)).TableExpr("p").Set("position = p.reached").
			Where("w.account_id = p.account_id").Where("w.id = p.webhook_id").Exec(ctx)
		return err
	})
	if err != nil {
		return ports.FanOutResult{}, err
	}
	return result, nil
}

// webhookPosition is a webhook, and the sequence number up to which the fan-out reads its events.
type webhookPosition struct {
	webhookKey `bun:",extend"`
	Reached    int64

	hook    webhookRow
	hasMore bool // more events follow
}

// logSpan is a part of a log: the events after the sequence number After, up to and including
// Through.
type logSpan struct {
	AccountID string `bun:"type:uuid"`
	After     int64  `bun:"low"`
	Through   int64  `bun:"high"`
}

// spansOf returns the spans of events that the webhooks get next, and the webhooks' new positions.
// limit is the maximum number of events in a span. The first span of an account begins at the
// lowest position of the account's webhooks, but not before the last dropped event. A webhook whose
// position is at or after the end of the current span begins the next span. A webhook that lags far
// behind therefore does not delay the account's other webhooks.
func spansOf(hooks []webhookRow, logs []eventLogRow, limit int) (spans []logSpan, positions []webhookPosition) {
	logByAccount := map[string]eventLogRow{}
	for _, log := range logs {
		logByAccount[log.AccountID] = log
	}
	slices.SortStableFunc(hooks, func(a, b webhookRow) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.Position, b.Position))
	})
	var last logSpan
	for _, hook := range hooks {
		log := logByAccount[hook.AccountID]
		if hook.Position >= log.LastSequence {
			continue
		}
		if hook.AccountID != last.AccountID || hook.Position >= last.Through {
			after := max(hook.Position, log.DroppedSequence)
			last = logSpan{hook.AccountID, after, min(after+int64(limit), log.LastSequence)}
			spans = append(spans, last)
		}
		positions = append(positions, webhookPosition{webhookKey: webhookKey{hook.AccountID, hook.ID}, Reached: last.Through,
			hook: hook, hasMore: last.Through < log.LastSequence})
	}
	return spans, positions
}

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
	slots   ports.Slots    // how many more deliveries the caller can send at once
	claimed map[string]int // number of deliveries with an unexpired lease, keyed by webhook id
	now     time.Time

	rows    []deliveryRow
	claims  []ports.ClaimedDelivery
	waiting []ports.DueWebhook
}

// add adds the deliveries of one webhook, and claims as many of them as the endpoint may get at
// once and the slots allow. add adds the webhook to waiting if only slots are lacking. Deliveries
// beyond the endpoint's maximum are claimed when another delivery to the endpoint ends. A delivery
// that was claimed before this transaction can end before the new deliveries are committed. Its end
// then claims none of them. If there is such a delivery, add therefore also adds the webhook to
// waiting.
func (a *addedDeliveries) add(p webhookPosition, events []event.Event) {
	w := p.hook.webhook()
	standing, waits := a.slots.Standing(w), false
	free := standing.MaxParallel() - a.claimed[w.ID]
	for _, e := range events {
		if e.Sequence <= p.hook.Position || e.Sequence > p.Reached || !w.Wants(e.Type, e.Tenant) {
			continue
		}
		row := newDeliveryRow(p.AccountID, p.WebhookID, e.ID, e.Type, e.Sequence, a.now)
		switch {
		case free <= 0:
			waits = waits || a.claimed[w.ID] > 0
		case a.slots.Take(standing):
			free--
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

// insertDeliveries inserts new deliveries. Rows with an epoch are claimed, so they get a lease.
func (s *Store) insertDeliveries(ctx context.Context, tx bun.IDB, rows []deliveryRow, lease time.Duration) error {
	slices.SortStableFunc(rows, func(a, b deliveryRow) int { return cmp.Compare(b.Epoch, a.Epoch) })
	firstUnclaimed := slices.IndexFunc(rows, func(r deliveryRow) bool { return r.Epoch == 0 })
	if firstUnclaimed < 0 {
		firstUnclaimed = len(rows)
	}
	for chunk := range slices.Chunk(rows[:firstUnclaimed], batchSize) {
		if _, err := tx.NewInsert().Model(&chunk).Value("leased_until", "? + ?", s.databaseNowSQL(), lease.Microseconds()).Exec(ctx); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(rows[firstUnclaimed:], batchSize) {
		if _, err := tx.NewInsert().Model(&chunk).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ClaimDeliveries implements ports.Deliveries. It does not wait for a fan-out, which locks webhooks
// while it inserts their deliveries. If ClaimDeliveries waited, it would hold slots without using
// them.
func (s *Store) ClaimDeliveries(ctx context.Context, webhooks []ports.DueWebhook, slots ports.Slots, lease time.Duration, now time.Time) (ports.ClaimResult, error) {
	var claimed ports.ClaimResult
	err := s.inTransaction(ctx, "claim deliveries", func(ctx context.Context, tx bun.IDB) error {
		claimed = ports.ClaimResult{Next: map[ports.DueWebhook]time.Time{}}
		keys := sortedWebhookKeys(convertAll(webhooks, func(d ports.DueWebhook) webhookKey { return webhookKey{accountKey(d.Account), ident.ParseOrZero(d.ID)} }))
		hooks, locked, err := s.lockAvailableWebhooks(ctx, tx, keys)
		claimed.Waiting = locked
		if err != nil || len(hooks) == 0 {
			return err
		}
		keys = convertAll(hooks, webhookRow.key)
		claimedCounts, err := s.countClaimed(ctx, tx, keys)
		if err != nil {
			return err
		}
		unclaimed, err := s.unclaimedDeliveries(ctx, tx, keys, now)
		if err != nil {
			return err
		}
		standings, slots := map[string]webhook.Standing{}, slots // a copy: each attempt of the transaction begins with all slots
		var picked []deliveryKey
		for _, hook := range hooks {
			w, pending := hook.webhook(), unclaimed[hook.ID]
			standing := slots.Standing(w)
			dueIDs := strings.Fields(pending.Due)
			// Due deliveries beyond the maximum are claimed when a try in progress has finished.
			for _, id := range dueIDs[:max(0, min(len(dueIDs), standing.MaxParallel()-claimedCounts[hook.ID]))] {
				if !slots.Take(standing) {
					claimed.Waiting = append(claimed.Waiting, ports.DueWebhook{Account: w.Account, ID: w.ID})
					break
				}
				picked = append(picked, deliveryKey{hook.AccountID, id})
			}
			standings[hook.ID] = standing
			if !pending.Next.IsZero() {
				claimed.Next[ports.DueWebhook{Account: w.Account, ID: w.ID}] = pending.Next.UTC()
			}
		}
		claimed.Deliveries, err = s.claimPicked(ctx, tx, hooks, picked, lease)
		for i, d := range claimed.Deliveries {
			claimed.Deliveries[i].Standing = standings[d.WebhookID]
		}
		return err
	})
	if err != nil {
		return ports.ClaimResult{}, err
	}
	return claimed, nil
}

// lockAvailableWebhooks locks the webhooks with these keys, without waiting. It omits webhooks that
// are not enabled or whose account is not active. It also returns the webhooks that another
// transaction has locked.
func (s *Store) lockAvailableWebhooks(ctx context.Context, tx bun.IDB, keys []webhookKey) (free []webhookRow, locked []ports.DueWebhook, err error) {
	enabled := func(hooks *[]webhookRow) *bun.SelectQuery {
		return selectByKeys(tx.NewSelect().With("k", tx.NewValues(&keys)).Where("w.status = ?", string(webhook.Enabled)).Where(ofActiveAccount("w")), hooks)
	}
	if err := s.db.LockFreeRows(enabled(&free), "w").Scan(ctx); err != nil || len(free) == len(keys) {
		return free, nil, err
	}
	var enabledHooks []webhookRow
	err = enabled(&enabledHooks).Scan(ctx)
	isFree := setOf(convertAll(free, func(r webhookRow) string { return r.ID }))
	for _, r := range enabledHooks {
		if !isFree[r.ID] {
			locked = append(locked, ports.DueWebhook{Account: access.AccountID(r.AccountID), ID: r.ID})
		}
	}
	return free, locked, err
}

// deliveryKey is the key of a delivery, as a row of a list of SQL values.
type deliveryKey struct {
	AccountID string `bun:"type:uuid"`
	ID        string `bun:"type:uuid"`
}

// unclaimedRow holds the first due deliveries of a webhook that have no unexpired lease. It also
// holds the time of the earliest try that is not due yet.
type unclaimedRow struct {
	WebhookID string
	Due       string    `bun:",nullzero"` // ids, with a space between them
	Next      time.Time `bun:",nullzero"`
}

// unclaimedDeliveries returns the unclaimedRows of webhooks, keyed by webhook id. For each webhook
// it reads only the first entries of two ranges of an index, so a long backlog does not make it
// slower.
func (s *Store) unclaimedDeliveries(ctx context.Context, tx bun.IDB, keys []webhookKey, now time.Time) (map[string]unclaimedRow, error) {
	pending := func(limit int64) *bun.SelectQuery {
		return tx.NewSelect().TableExpr("webhook_deliveries AS wd").Where("wd.account_id = k.account_id").Where("wd.webhook_id = k.webhook_id").
			Where("wd.status = ?", string(webhook.Pending)).Where("wd.leased_until <= ?", s.databaseNowSQL()).Order("wd.next_attempt_at", "wd.id").Limit(limit)
	}
	dueQuery := tx.NewSelect().TableExpr("(?) AS d", pending(webhook.MaxConcurrent).Column("wd.id", "wd.next_attempt_at").Where("wd.next_attempt_at <= ?", storedTime(now))).
		ColumnExpr("string_agg(CAST(d.id AS text), ' ' ORDER BY d.next_attempt_at, d.id)")
	nextQuery := pending(1).Column("wd.next_attempt_at").Where("wd.next_attempt_at > ?", storedTime(now))
	var rows []unclaimedRow
	err := tx.NewSelect().With("k", tx.NewValues(&keys)).TableExpr("k").Column("k.webhook_id").ColumnExpr("(?) AS due", dueQuery).ColumnExpr("(?) AS next", nextQuery).Scan(ctx, &rows)
	unclaimed := make(map[string]unclaimedRow, len(rows))
	for _, r := range rows {
		unclaimed[r.WebhookID] = r
	}
	return unclaimed, err
}

// claimPicked claims the picked deliveries and returns them, the earliest due first.
func (s *Store) claimPicked(ctx context.Context, tx bun.IDB, hooks []webhookRow, picked []deliveryKey, lease time.Duration) ([]ports.ClaimedDelivery, error) {
	if len(picked) == 0 {
		return nil, nil
	}
	var rows []deliveryRow
	if err := tx.NewUpdate().With("k", tx.NewValues(&picked)).Model(&rows).TableExpr("k").Set("epoch = epoch + 1").
		Set("leased_until = ? + ?", s.databaseNowSQL(), lease.Microseconds()).Where("wd.account_id = k.account_id").Where("wd.id = k.id").
		Returning("*").Scan(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b deliveryRow) int {
		return cmp.Or(a.NextAttemptAt.Compare(b.NextAttemptAt), cmp.Compare(a.ID, b.ID))
	})
	return withEvents(ctx, tx, hooks, rows)
}

func withEvents(ctx context.Context, tx bun.IDB, hooks []webhookRow, rows []deliveryRow) ([]ports.ClaimedDelivery, error) {
	var spans []logSpan
	for _, r := range rows {
		if r.Sequence > 0 {
			spans = append(spans, logSpan{r.AccountID, r.Sequence - 1, r.Sequence})
		}
	}
	events := map[logSpan]event.Event{}
	if len(spans) > 0 {
		byOwner, err := eventsIn(ctx, tx, spans)
		if err != nil {
			return nil, err
		}
		for owner, ownEvents := range byOwner {
			for _, e := range ownEvents {
				events[logSpan{owner, e.Sequence - 1, e.Sequence}] = e
			}
		}
	}
	byID := make(map[string]webhook.Webhook, len(hooks))
	for _, hook := range hooks {
		byID[hook.ID] = hook.webhook()
	}
	return convertAll(rows, func(r deliveryRow) ports.ClaimedDelivery {
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
