// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
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
func (s *Store) FanOut(ctx context.Context, owner access.AccountID, limit int, now time.Time) ([]string, bool, error) {
	var receiving []string
	var more bool
	err := s.inTransaction(ctx, "fan out events", func(ctx context.Context, tx bun.IDB) error {
		receiving, more = nil, false
		var hooks []webhookRow
		err := s.db.LockRows(tx.NewSelect().Model(&hooks).Where("w.account_id = ?", accountKey(owner)).
			Where("w.status = ?", string(webhook.Enabled)).Order("w.id"), "w").Scan(ctx)
		if err != nil || len(hooks) == 0 {
			return err
		}
		log, err := logOf(ctx, tx, accountKey(owner))
		if err != nil {
			return err
		}
		events, err := eventsOf(ctx, tx, log, lowestPosition(hooks), limit)
		if err != nil {
			return err
		}
		reached := log.LastSequence
		if more = len(events) == limit && events[len(events)-1].Sequence < reached; more {
			reached = events[len(events)-1].Sequence
		}
		var deliveries []deliveryRow
		for _, hook := range hooks {
			if hook.Position >= reached {
				continue
			}
			before := len(deliveries)
			for _, e := range events {
				if w := hook.webhook(); e.Sequence > hook.Position && w.Wants(event.Type(e.Type), e.event().Tenant) {
					deliveries = append(deliveries, newDeliveryRow(hook.AccountID, hook.ID, e.ID, event.Type(e.Type), e.Sequence, now))
				}
			}
			if len(deliveries) > before {
				receiving = append(receiving, hook.ID)
			}
			if _, err := updateWebhook(tx, hook.AccountID, hook.ID).Model((*webhookRow)(nil)).Set("position = ?", reached).Exec(ctx); err != nil {
				return err
			}
		}
		if len(deliveries) == 0 {
			return nil
		}
		_, err = tx.NewInsert().Model(&deliveries).Exec(ctx)
		return err
	})
	return receiving, more, err
}

func lowestPosition(hooks []webhookRow) int64 {
	lowest := hooks[0].Position
	for _, hook := range hooks {
		lowest = min(lowest, hook.Position)
	}
	return lowest
}

// eventsOf returns the events of a log after a position, up to the end of the log as it was read.
func eventsOf(ctx context.Context, tx bun.IDB, log eventLogRow, after int64, limit int) ([]eventRow, error) {
	var events []eventRow
	err := tx.NewSelect().Model(&events).Column("account_id", "sequence", "id", "type", "tenant_guid").Where("e.account_id = ?", log.AccountID).
		Where("e.sequence > ?", after).Where("e.sequence <= ?", log.LastSequence).Order("e.sequence").Limit(int64(limit)).Scan(ctx)
	return events, err
}

// DueDeliveries implements ports.Deliveries.
func (s *Store) DueDeliveries(ctx context.Context, owner access.AccountID, webhookID string, now time.Time) (ports.Due, error) {
	var rows []struct {
		NextAttemptAt time.Time
		FailingSince  time.Time `bun:",nullzero"`
	}
	err := s.db.Run(ctx, "find due deliveries", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("webhook_deliveries AS wd").ColumnExpr("wd.next_attempt_at, w.failing_since").
			Join("JOIN webhooks AS w ON w.account_id = wd.account_id AND w.id = wd.webhook_id AND w.status = ?", string(webhook.Enabled)).
			Where("wd.account_id = ?", accountKey(owner)).Where("wd.webhook_id = ?", ident.Lookup(webhookID)).
			Where("wd.status = ?", string(webhook.Pending)).Where("wd.leased_until <= ?", s.clock()).
			OrderExpr("wd.next_attempt_at").Limit(webhook.MaxConcurrent+1).Scan(ctx, &rows)
	})
	var due ports.Due
	for _, r := range rows {
		due.Failing = !r.FailingSince.IsZero()
		switch {
		case !r.NextAttemptAt.After(now):
			due.Count = min(due.Count+1, webhook.MaxConcurrent)
		case due.Next.IsZero():
			due.Next = r.NextAttemptAt.UTC()
		}
	}
	return due, err
}

// ClaimDeliveries implements ports.Deliveries.
func (s *Store) ClaimDeliveries(ctx context.Context, owner access.AccountID, webhookID string, limit int, lease time.Duration, now time.Time) (webhook.Webhook, []ports.ClaimedDelivery, error) {
	var w webhook.Webhook
	var claimed []ports.ClaimedDelivery
	err := s.inTransaction(ctx, "claim deliveries", func(ctx context.Context, tx bun.IDB) error {
		claimed = nil
		row, err := findWebhook(ctx, s.db.LockRows(tx.NewSelect().Where("w.status = ?", string(webhook.Enabled)).Where(ofActiveAccount("w")), "w"),
			accountKey(owner), webhookID)
		if errors.Is(err, fault.WebhookNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		w = row.webhook()
		busy, err := s.claimedDeliveries(ctx, tx, row)
		free := min(limit, w.Concurrent()-busy)
		if err != nil || free <= 0 {
			return err
		}
		due := tx.NewSelect().Model((*deliveryRow)(nil)).Column("id").Where("wd.account_id = ?", row.AccountID).Where("wd.webhook_id = ?", row.ID).
			Where("wd.status = ?", string(webhook.Pending)).Where("wd.next_attempt_at <= ?", storedTime(now)).Where("wd.leased_until <= ?", s.clock()).
			Order("wd.next_attempt_at", "wd.id").Limit(int64(free))
		var rows []deliveryRow
		if err := tx.NewUpdate().Model(&rows).Set("epoch = epoch + 1").Set("leased_until = ? + ?", s.clock(), lease.Microseconds()).
			Where("wd.account_id = ?", row.AccountID).Where("wd.id IN (?)", due).Returning("*").Scan(ctx); err != nil {
			return err
		}
		claimed, err = withEvents(ctx, tx, row.AccountID, rows)
		return err
	})
	return w, claimed, err
}

// claimedDeliveries counts the deliveries of a webhook that a claim has.
func (s *Store) claimedDeliveries(ctx context.Context, tx bun.IDB, of webhookRow) (int, error) {
	n, err := tx.NewSelect().Model((*deliveryRow)(nil)).Where("wd.account_id = ?", of.AccountID).Where("wd.webhook_id = ?", of.ID).
		Where("wd.status = ?", string(webhook.Pending)).Where("wd.leased_until > ?", s.clock()).Count(ctx)
	return int(n), err
}

// withEvents adds the events of claimed deliveries.
func withEvents(ctx context.Context, tx bun.IDB, owner string, rows []deliveryRow) ([]ports.ClaimedDelivery, error) {
	var sequences []int64
	for _, r := range rows {
		if r.Sequence > 0 {
			sequences = append(sequences, r.Sequence)
		}
	}
	events := map[int64]event.Event{}
	if len(sequences) > 0 {
		var found []eventRow
		err := tx.NewSelect().Model(&found).Where("e.account_id = ?", owner).Where("e.sequence IN (?)", bun.List(sequences)).Scan(ctx)
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			events[e.Sequence] = e.event()
		}
	}
	return each(rows, func(r deliveryRow) ports.ClaimedDelivery {
		claimed := ports.ClaimedDelivery{Delivery: r.delivery()}
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
func (s *Store) ClaimTest(ctx context.Context, owner access.AccountID, webhookID string, lease time.Duration, now time.Time) (webhook.Webhook, ports.ClaimedDelivery, bool, error) {
	var w webhook.Webhook
	var claimed []ports.ClaimedDelivery
	err := s.inTransaction(ctx, "claim test delivery", func(ctx context.Context, tx bun.IDB) error {
		claimed = nil
		row, err := s.lockWebhook(ctx, tx, accountKey(owner), webhookID)
		if err != nil {
			return err
		}
		w = row.webhook()
		busy, err := s.claimedDeliveries(ctx, tx, row)
		if err != nil || busy >= webhook.MaxConcurrent {
			return err
		}
		d := newDeliveryRow(row.AccountID, row.ID, newID(), webhook.TestType, 0, now)
		d.Epoch = 1
		if _, err := tx.NewInsert().Model(&d).Value("leased_until", "? + ?", s.clock(), lease.Microseconds()).Exec(ctx); err != nil {
			return err
		}
		claimed, err = withEvents(ctx, tx, row.AccountID, []deliveryRow{d})
		return err
	})
	if err != nil || len(claimed) == 0 {
		return w, ports.ClaimedDelivery{}, false, err
	}
	return w, claimed[0], true, nil
}

// SaveDelivery implements ports.Deliveries. It changes the webhook before the delivery, in the order
// in which disabling a webhook locks them. Pending deliveries end last, so that this one keeps the
// try that disabled the webhook.
func (s *Store) SaveDelivery(ctx context.Context, owner access.AccountID, d webhook.Delivery, gone bool) (bool, error) {
	var saved bool
	err := s.inTransaction(ctx, "save delivery", func(ctx context.Context, tx bun.IDB) error {
		id, reason := ident.Lookup(d.WebhookID), webhook.ReasonFailing
		held, err := isClaimed(ctx, tx, owner, d)
		if err != nil || !held {
			return err
		}
		disabled, err := noteResult(ctx, tx, accountKey(owner), d)
		if err != nil {
			return err
		}
		row := deliveryRow{Status: string(d.Status), Tries: d.Tries, Attempts: d.Attempts, NextAttemptAt: storedTime(d.NextAttemptAt)}
		res, err := claimedBy(tx.NewUpdate().Model(&row).Column("status", "tries", "attempts", "next_attempt_at").Set("leased_until = 0"), owner, d).Exec(ctx)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		saved = n > 0
		if gone && saved && !disabled && err == nil {
			reason = webhook.ReasonGone
			disabled, err = disableWebhook(ctx, updateWebhook(tx, accountKey(owner), id))
		}
		if err != nil || !disabled {
			return err
		}
		return failPending(ctx, tx, accountKey(owner), id, reason)
	})
	return saved && err == nil, err
}

// isClaimed reports whether the delivery is still claimed with this epoch.
func isClaimed(ctx context.Context, tx bun.IDB, owner access.AccountID, d webhook.Delivery) (bool, error) {
	return tx.NewSelect().Model((*deliveryRow)(nil)).Where("wd.account_id = ?", accountKey(owner)).Where("wd.id = ?", ident.Lookup(d.ID)).
		Where("wd.epoch = ?", d.Epoch).Where("wd.status = ?", string(webhook.Pending)).Exists(ctx)
}

// claimedBy restricts an update to a delivery that is claimed with this epoch.
func claimedBy(q *bun.UpdateQuery, owner access.AccountID, d webhook.Delivery) *bun.UpdateQuery {
	return q.Where("account_id = ?", accountKey(owner)).Where("id = ?", ident.Lookup(d.ID)).
		Where("epoch = ?", d.Epoch).Where("status = ?", string(webhook.Pending))
}

// ReleaseDelivery implements ports.Deliveries.
func (s *Store) ReleaseDelivery(ctx context.Context, owner access.AccountID, d webhook.Delivery) error {
	return s.db.RunWrite(ctx, "release delivery", func(ctx context.Context, db bun.IDB) error {
		_, err := claimedBy(db.NewUpdate().Model((*deliveryRow)(nil)).Set("leased_until = 0"), owner, d).Exec(ctx)
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
