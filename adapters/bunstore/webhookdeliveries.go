// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"maps"
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

// deliveryRow is the delivery of one event to one webhook. Before a process sends the event, it
// claims the delivery: it increments Epoch, and takes a lease until LeasedUntil.
type deliveryRow struct {
	bun.BaseModel `bun:"table:webhook_deliveries,alias:wd"`

	AccountID     string `bun:",pk"`
	ID            string `bun:",pk"`
	WebhookID     string
	EventID       string
	EventType     string
	Sequence      int64
	Status        string
	Tries         int            // since the delivery was created or redelivered
	Attempts      storedAttempts `bun:"type:jsonb"`
	NextAttemptAt time.Time
	Epoch         int64
	LeasedUntil   int64 // microseconds, see Store.databaseNowSQL
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
		Status: string(webhook.Pending), Attempts: storedAttempts{}, NextAttemptAt: storedTime(now), CreatedAt: storedTime(now),
	}
}

// webhookKey is the key of a webhook, as a row of a list of SQL values.
type webhookKey struct {
	AccountID string `bun:"type:uuid"`
	WebhookID string `bun:"type:uuid"`
}

// sortedWebhookKeys returns each key once, in the order in which webhooks are locked.
func sortedWebhookKeys(keys []webhookKey) []webhookKey {
	return slices.Compact(slices.SortedFunc(slices.Values(keys), func(a, b webhookKey) int {
		return cmp.Or(cmp.Compare(a.AccountID, b.AccountID), cmp.Compare(a.WebhookID, b.WebhookID))
	}))
}

// countClaimed counts the pending deliveries with an unexpired lease. The result is keyed by
// webhook id.
func (s *Store) countClaimed(ctx context.Context, tx bun.IDB, keys []webhookKey) (map[string]int, error) {
	var counted []struct {
		WebhookID string
		Claimed   int
	}
	err := tx.NewSelect().With("k", tx.NewValues(&keys)).TableExpr("webhook_deliveries AS wd").ColumnExpr("wd.webhook_id, count(*) AS claimed").
		Join("JOIN k ON wd.account_id = k.account_id AND wd.webhook_id = k.webhook_id").Where("wd.status = ?", string(webhook.Pending)).
		Where("wd.leased_until > 0").Where("wd.leased_until > ?", s.databaseNowSQL()).Group("wd.webhook_id").Scan(ctx, &counted)
	claimed := map[string]int{}
	for _, c := range counted {
		claimed[c.WebhookID] = c.Claimed
	}
	return claimed, err
}

// ClaimTest implements ports.Deliveries.
func (s *Store) ClaimTest(ctx context.Context, owner access.AccountID, webhookID string, lease time.Duration, now time.Time) (ports.ClaimedDelivery, bool, error) {
	var claimed []ports.ClaimedDelivery
	err := s.inTransaction(ctx, "claim test delivery", func(ctx context.Context, tx bun.IDB) error {
		claimed = nil
		hook, err := s.lockWebhook(ctx, tx, accountKey(owner), webhookID)
		if err != nil {
			return err
		}
		claimedCounts, err := s.countClaimed(ctx, tx, []webhookKey{{hook.AccountID, hook.ID}})
		if err != nil || claimedCounts[hook.ID] >= webhook.MaxConcurrent {
			return err
		}
		d := newDeliveryRow(hook.AccountID, hook.ID, newID(), webhook.TestType, 0, now)
		d.Epoch = 1
		if err := s.insertDeliveries(ctx, tx, []deliveryRow{d}, lease); err != nil {
			return err
		}
		claimed, err = withEvents(ctx, tx, []webhookRow{hook}, []deliveryRow{d})
		return err
	})
	if err != nil || len(claimed) == 0 {
		return ports.ClaimedDelivery{}, false, err
	}
	return claimed[0], true, nil
}

// resultRow is the result of a try, in a list of SQL values. Except for account_id, its columns
// must not have names of columns of deliveries. Otherwise an unqualified name in saveResults, such
// as id after RETURNING, would be ambiguous.
type resultRow struct {
	AccountID   string `bun:"type:uuid"`
	DeliveryID  string `bun:"type:uuid"`
	ClaimEpoch  int64  `bun:"claim"`
	NewStatus   string `bun:"result"`
	TriesMade   int
	AllAttempts storedAttempts `bun:"type:jsonb"`
	NextAt      time.Time
}

func newResultRow(d ports.TriedDelivery) resultRow {
	return resultRow{AccountID: accountKey(d.Account), DeliveryID: ident.ParseOrZero(d.ID), ClaimEpoch: d.Epoch, NewStatus: string(d.Status), TriesMade: d.Tries,
		AllAttempts: d.Attempts, NextAt: storedTime(d.NextAttemptAt)}
}

// SaveDeliveries implements ports.Deliveries. It first locks the webhooks that the results may
// change, and then the deliveries. Transactions that disable a webhook use the same order. If a
// result disables a webhook, SaveDeliveries stores the result before it marks the pending
// deliveries of the webhook as failed. Marking them increments their epochs, and saveResults
// requires the old epoch.
func (s *Store) SaveDeliveries(ctx context.Context, tried []ports.TriedDelivery, now time.Time) ([]ports.SavedDelivery, error) {
	var results []ports.SavedDelivery
	err := s.inTransaction(ctx, "save deliveries", func(ctx context.Context, tx bun.IDB) error {
		byWebhook := webhookResults(tried)
		// Most results change no webhook. A success changes only a webhook that was failing. A
		// failure changes a webhook if the endpoint is gone, if the webhook was not failing, or if
		// it has been failing for DisableAfter. A failed test changes a webhook only if the
		// endpoint is gone.
		hooks, err := s.lockWebhooks(ctx, tx.NewSelect().With("k", tx.NewValues(&byWebhook)).
			Where("k.gone OR k.succeeded AND w.failing_since IS NOT NULL OR k.failed AND (w.failing_since IS NULL OR w.failing_since <= ?)",
				storedTime(now.Add(-webhook.DisableAfter))))
		if err != nil {
			return err
		}
		saved, err := saveResults(ctx, tx, convertAll(tried, newResultRow))
		if err != nil {
			return err
		}
		triedByWebhook := map[string][]ports.TriedDelivery{}
		for _, d := range tried {
			if id := ident.ParseOrZero(d.WebhookID); saved[ident.ParseOrZero(d.ID)] {
				triedByWebhook[id] = append(triedByWebhook[id], d)
			}
		}
		for _, hook := range hooks {
			if err := updateWebhookStatus(ctx, tx, hook, triedByWebhook[hook.ID]); err != nil {
				return err
			}
		}
		withDue, err := s.webhooksWithDueDeliveries(ctx, tx, convertAll(byWebhook, func(r webhookResult) webhookKey { return r.webhookKey }), now)
		results = convertAll(tried, func(d ports.TriedDelivery) ports.SavedDelivery {
			return ports.SavedDelivery{Saved: saved[ident.ParseOrZero(d.ID)], HasDue: withDue[ident.ParseOrZero(d.WebhookID)]}
		})
		return err
	})
	return results, err
}

type webhookResult struct {
	webhookKey `bun:",extend"`

	Succeeded, Failed, Gone bool
}

// webhookResults returns the results of each webhook, in the order in which webhooks are locked.
func webhookResults(tried []ports.TriedDelivery) []webhookResult {
	byHook := map[webhookKey]webhookResult{}
	for _, d := range tried {
		key := webhookKey{accountKey(d.Account), ident.ParseOrZero(d.WebhookID)}
		r, succeeded := byHook[key], d.Status == webhook.Delivered
		byHook[key] = webhookResult{key, r.Succeeded || succeeded, r.Failed || !succeeded && !d.NotSent, r.Gone || d.Gone}
	}
	return convertAll(sortedWebhookKeys(slices.Collect(maps.Keys(byHook))), func(k webhookKey) webhookResult { return byHook[k] })
}

// saveResults stores the results of deliveries that still have the epoch and the lease of their
// claim, and returns the ids of these deliveries. Storing a result ends the lease, so a repeated
// call does not count the try twice.
//
// If a delivery was redelivered during the try, its tries were set to 0 then. Such a delivery stays
// pending and due, unless the try succeeded or was its first try.
func saveResults(ctx context.Context, tx bun.IDB, results []resultRow) (map[string]bool, error) {
	var ids []string
	err := tx.NewUpdate().With("r", tx.NewValues(&results)).Model((*deliveryRow)(nil)).TableExpr("r").
		Set("status = CASE WHEN r.result = ? OR wd.tries + 1 = r.tries_made THEN r.result ELSE wd.status END", string(webhook.Delivered)).
		Set("next_attempt_at = CASE WHEN wd.tries + 1 = r.tries_made THEN r.next_at ELSE wd.next_attempt_at END").
		Set("tries = wd.tries + 1").Set("attempts = r.all_attempts").Set("leased_until = 0").
		Where("wd.account_id = r.account_id").Where("wd.id = r.delivery_id").Where("wd.epoch = r.claim").
		Where("wd.leased_until > 0").Where("wd.status = ?", string(webhook.Pending)).Returning("id").Scan(ctx, &ids)
	return setOf(ids), err
}

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

func updateWebhookStatus(ctx context.Context, tx bun.IDB, hook webhookRow, tried []ports.TriedDelivery) error {
	before := hook.webhook()
	w, reason := before, webhook.Reason("")
	for _, d := range tried {
		if reason == "" && !d.NotSent {
			w, reason = w.AfterTry(d.Delivery, d.Gone)
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
	return failPendingDeliveries(ctx, tx, hook.AccountID, hook.ID, reason)
}

// webhooksWithDueDeliveries returns the ids of the webhooks that have due deliveries without an
// unexpired lease.
func (s *Store) webhooksWithDueDeliveries(ctx context.Context, tx bun.IDB, keys []webhookKey, now time.Time) (map[string]bool, error) {
	dueQuery := tx.NewSelect().TableExpr("webhook_deliveries AS wd").ColumnExpr("1").Where("wd.account_id = k.account_id").
		Where("wd.webhook_id = k.webhook_id").Where("wd.status = ?", string(webhook.Pending)).
		Where("wd.next_attempt_at <= ?", storedTime(now)).Where("wd.leased_until <= ?", s.databaseNowSQL())
	var ids []string
	err := tx.NewSelect().With("k", tx.NewValues(&keys)).TableExpr("k").Column("k.webhook_id").Where("EXISTS (?)", dueQuery).Scan(ctx, &ids)
	return setOf(ids), err
}

// ReleaseDelivery implements ports.Deliveries.
func (s *Store) ReleaseDelivery(ctx context.Context, owner access.AccountID, d webhook.Delivery) error {
	return s.db.RunWrite(ctx, "release delivery", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewUpdate().Model((*deliveryRow)(nil)).Set("leased_until = 0").Where("account_id = ?", accountKey(owner)).
			Where("id = ?", ident.ParseOrZero(d.ID)).Where("epoch = ?", d.Epoch).Where("status = ?", string(webhook.Pending)).Exec(ctx)
		return err
	})
}

// ListDeliveries implements ports.Deliveries.
func (s *Store) ListDeliveries(ctx context.Context, owner access.AccountID, webhookID string, wanted ports.DeliveryQuery) ([]webhook.Delivery, error) {
	var rows []deliveryRow
	err := s.db.Snapshot(ctx, "list deliveries", func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		hook, err := findWebhook(ctx, tx.NewSelect(), accountKey(owner), webhookID)
		if err != nil {
			return err
		}
		query := tx.NewSelect().Model(&rows).Where("wd.account_id = ?", hook.AccountID).Where("wd.webhook_id = ?", hook.ID).
			Order("wd.id DESC").Limit(int64(wanted.Limit))
		if wanted.Status != "" {
			query = query.Where("wd.status = ?", string(wanted.Status))
		}
		if wanted.Before != "" {
			if err := checkDeliveryCursor(ctx, tx, hook, wanted.Before); err != nil {
				return err
			}
			query = query.Where("wd.id < ?", ident.ParseOrZero(wanted.Before))
		}
		return query.Scan(ctx)
	})
	return convertAll(rows, deliveryRow.delivery), err
}

// checkDeliveryCursor fails with cursor_expired if the account has no delivery with this id.
// DropDeliveries deletes the oldest deliveries first, so all deliveries that are older than a
// dropped one are gone too. checkDeliveryCursor fails with invalid_request if the delivery belongs
// to a different webhook.
func checkDeliveryCursor(ctx context.Context, tx bun.IDB, hook webhookRow, id string) error {
	var webhooks []string
	err := tx.NewSelect().Model((*deliveryRow)(nil)).Column("webhook_id").Where("wd.account_id = ?", hook.AccountID).
		Where("wd.id = ?", ident.ParseOrZero(id)).Scan(ctx, &webhooks)
	switch {
	case err != nil:
		return err
	case len(webhooks) == 0:
		return fault.CursorExpired.With("the deliveries after this cursor are no longer stored")
	case webhooks[0] != hook.ID:
		const problem = "the cursor belongs to a different webhook"
		return fault.InvalidRequest.At(problem, fault.Field{Name: "after", Message: problem})
	}
	return nil
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
			Where("wd.account_id = ?", hook.AccountID).Where("wd.webhook_id = ?", hook.ID).Where("wd.id = ?", ident.ParseOrZero(id)).
			Returning("*").Scan(ctx)
		return orNotFound(err, fault.DeliveryNotFound.With("the webhook has no such delivery"))
	})
	if err != nil {
		return webhook.Delivery{}, err
	}
	return row.delivery(), nil
}

// DueWebhooks implements ports.Deliveries. The order is random. If the list were sorted by due
// time, webhooks whose endpoints hang could fill each list.
func (s *Store) DueWebhooks(ctx context.Context, now time.Time, limit int) ([]ports.DueWebhook, error) {
	var rows []webhookRow
	err := s.db.RunRead(ctx, "list due webhooks", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("webhook_deliveries AS wd").ColumnExpr("wd.account_id, wd.webhook_id AS id").
			Join("JOIN webhooks AS w ON w.account_id = wd.account_id AND w.id = wd.webhook_id AND w.status = ?", string(webhook.Enabled)).
			Where("wd.status = ?", string(webhook.Pending)).Where("wd.next_attempt_at <= ?", storedTime(now)).Where("wd.leased_until <= ?", s.databaseNowSQL()).
			Where(ofActiveAccount("wd")).GroupExpr("wd.account_id, wd.webhook_id").
			OrderExpr("random()").Limit(int64(limit)).Scan(ctx, &rows)
	})
	return convertAll(rows, func(r webhookRow) ports.DueWebhook {
		return ports.DueWebhook{Account: access.AccountID(r.AccountID), ID: r.ID}
	}), err
}

// DropDeliveries implements ports.Deliveries.
func (s *Store) DropDeliveries(ctx context.Context, before time.Time, limit int) (int, error) {
	var dropped int64
	err := s.db.RunWrite(ctx, "drop deliveries", func(ctx context.Context, db bun.IDB) error {
		oldDeliveries := db.NewSelect().Model((*deliveryRow)(nil)).Column("account_id", "id").Where("wd.created_at < ?", storedTime(before)).
			Order("wd.created_at").Limit(int64(limit))
		res, err := db.NewDelete().Model((*deliveryRow)(nil)).Where("(account_id, id) IN (?)", oldDeliveries).Exec(ctx)
		if err == nil {
			dropped, err = res.RowsAffected()
		}
		return err
	})
	return int(dropped), err
}
