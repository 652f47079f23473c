// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

type webhookRow struct {
	bun.BaseModel `bun:"table:webhooks,alias:w"`

	AccountID      string   `bun:",pk"`
	ID             string   `bun:",pk"`
	URL            string   `bun:"url"`
	Types          []string `bun:"type:jsonb"`
	Tenants        []string `bun:"type:jsonb"`
	Description    string
	Status         string
	Secret         []byte    // encrypted
	PreviousSecret []byte    `bun:",nullzero"` // encrypted
	PreviousUntil  time.Time `bun:",nullzero"`
	Position       int64     // events up to this sequence number have been fanned out or skipped
	FailingSince   time.Time `bun:",nullzero"`
	CreatedAt      time.Time
}

func newWebhookRow(owner string, w webhook.Webhook) webhookRow {
	return webhookRow{
		AccountID: owner, ID: ident.ParseOrZero(w.ID), URL: storedText(w.URL),
		Types:       convertAll(w.Types, func(t event.Type) string { return storedText(string(t)) }),
		Tenants:     convertAll(w.Tenants, func(id tenant.GUID) string { return ident.ParseOrZero(string(id)) }),
		Description: storedText(w.Description), Status: string(w.Status),
		Secret: w.Secrets.Current, PreviousSecret: w.Secrets.Previous, PreviousUntil: storedTime(w.Secrets.PreviousUntil),
		FailingSince: storedTime(w.FailingSince), CreatedAt: storedTime(w.CreatedAt),
	}
}

func (r webhookRow) key() webhookKey { return webhookKey{r.AccountID, r.ID} }

func (r webhookRow) webhook() webhook.Webhook {
	return webhook.Webhook{
		ID: r.ID, Account: access.AccountID(r.AccountID), URL: r.URL,
		Types:       convertAll(r.Types, func(t string) event.Type { return event.Type(t) }),
		Tenants:     convertAll(r.Tenants, func(id string) tenant.GUID { return tenant.GUID(id) }),
		Description: r.Description, Status: webhook.Status(r.Status),
		Secrets:      webhook.Secrets{Current: r.Secret, Previous: r.PreviousSecret, PreviousUntil: r.PreviousUntil.UTC()},
		FailingSince: r.FailingSince.UTC(), CreatedAt: r.CreatedAt.UTC(),
	}
}

// isVisible reports whether the webhook sends events of visible tenants only. A key that is limited
// to some tenants does not see webhooks that send events of other tenants.
func (r webhookRow) isVisible(ctx context.Context) bool {
	tenants, limited := ports.VisibleTenants(ctx)
	return !limited || len(r.Tenants) > 0 && !slices.ContainsFunc(r.webhook().Tenants, func(id tenant.GUID) bool { return !slices.Contains(tenants, id) })
}

func webhookNotFound() error {
	return fault.FromStore(fault.WebhookNotFound.With("the account has no such webhook"))
}

// AddWebhook implements ports.Webhooks.
func (s *Store) AddWebhook(ctx context.Context, w webhook.Webhook, storedAnswer *ports.StoredAnswer) error {
	row := newWebhookRow(accountKey(w.Account), w)
	return s.inTransaction(ctx, "add webhook", func(ctx context.Context, tx bun.IDB) error {
		if _, err := s.lockOpenAccount(ctx, tx, row.AccountID); err != nil {
			return err
		}
		count, err := tx.NewSelect().Model((*webhookRow)(nil)).Where("w.account_id = ?", row.AccountID).Count(ctx)
		if err != nil {
			return err
		}
		if count >= webhook.MaxPerAccount {
			return fault.WebhookLimitReached.With("the account has %d webhooks", count)
		}
		if row.Position, err = endOfLog(ctx, tx, row.AccountID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// Webhooks implements ports.Webhooks.
func (s *Store) Webhooks(ctx context.Context, owner access.AccountID, before string, limit int) ([]webhook.Webhook, error) {
	var rows []webhookRow
	err := s.db.RunRead(ctx, "list webhooks", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		q := db.NewSelect().Model(&rows).Where("w.account_id = ?", accountKey(owner)).Order("w.id DESC")
		if before != "" {
			q = q.Where("w.id < ?", ident.ParseOrZero(before))
		}
		return q.Scan(ctx)
	})
	rows = slices.DeleteFunc(rows, func(r webhookRow) bool { return !r.isVisible(ctx) })
	return convertAll(rows[:min(limit, len(rows))], webhookRow.webhook), err
}

// Webhook implements ports.Webhooks.
func (s *Store) Webhook(ctx context.Context, owner access.AccountID, id string) (webhook.Webhook, error) {
	var row webhookRow
	err := s.db.RunRead(ctx, "find webhook", func(ctx context.Context, db bun.IDB) (err error) {
		row, err = findWebhook(ctx, db.NewSelect(), accountKey(owner), id)
		return err
	})
	if err != nil {
		return webhook.Webhook{}, err
	}
	return row.webhook(), nil
}

func findWebhook(ctx context.Context, q *bun.SelectQuery, owner, id string) (webhookRow, error) {
	var row webhookRow
	err := q.Model(&row).Where("w.account_id = ?", owner).Where("w.id = ?", ident.ParseOrZero(id)).Scan(ctx)
	if err == nil && !row.isVisible(ctx) {
		err = sql.ErrNoRows
	}
	return row, orNotFound(err, webhookNotFound())
}

// lockWebhook returns a webhook and locks its row. A transaction that locks a webhook and its
// deliveries locks the webhook first.
func (s *Store) lockWebhook(ctx context.Context, tx bun.IDB, owner, id string) (webhookRow, error) {
	return findWebhook(ctx, s.db.LockRows(tx.NewSelect(), "w"), owner, id)
}

// lockWebhooks returns the existing webhooks that query names. It locks their rows in the order of
// their keys, so that two transactions do not deadlock. query must define the common table
// expression k with the columns account_id and webhook_id.
func (s *Store) lockWebhooks(ctx context.Context, query *bun.SelectQuery) ([]webhookRow, error) {
	var hooks []webhookRow
	err := s.db.LockRows(selectByKeys(query, &hooks), "w").Scan(ctx)
	return hooks, err
}

// selectByKeys makes query select the webhooks whose keys are in its common table expression k,
// sorted by account and id.
func selectByKeys(query *bun.SelectQuery, hooks *[]webhookRow) *bun.SelectQuery {
	return query.Model(hooks).Join("JOIN k ON w.account_id = k.account_id AND w.id = k.webhook_id").Order("w.account_id", "w.id")
}

// ChangeWebhook implements ports.Webhooks.
func (s *Store) ChangeWebhook(ctx context.Context, owner access.AccountID, id string, reason webhook.Reason, storedAnswer *ports.StoredAnswer,
	change func(*webhook.Webhook)) (webhook.Webhook, error) {
	var changed webhook.Webhook
	err := s.inTransaction(ctx, "change webhook", func(ctx context.Context, tx bun.IDB) error {
		row, err := s.lockWebhook(ctx, tx, accountKey(owner), id)
		if err != nil {
			return err
		}
		changed = row.webhook()
		change(&changed)
		stored := newWebhookRow(row.AccountID, changed)
		stored.Position = row.Position
		switch {
		case row.Status != stored.Status && changed.Status == webhook.Disabled:
			err = failPendingDeliveries(ctx, tx, row.AccountID, row.ID, reason)
		case row.Status != stored.Status:
			stored.FailingSince = time.Time{}
			stored.Position, err = endOfLog(ctx, tx, row.AccountID)
		}
		if err != nil {
			return err
		}
		if row.URL != stored.URL {
			stored.FailingSince = time.Time{} // the failures were failures of the old endpoint
			if err := dropClaims(ctx, tx, row.AccountID, row.ID); err != nil {
				return err
			}
		}
		if _, err := updateWebhook(tx, row.AccountID, row.ID).Model(&stored).Column("url", "types", "description", "status", "secret",
			"previous_secret", "previous_until", "position", "failing_since").Exec(ctx); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
	return changed, err
}

// updateWebhook returns an update of one webhook. The caller must set its model.
func updateWebhook(tx bun.IDB, owner, id string) *bun.UpdateQuery {
	return tx.NewUpdate().Where("account_id = ?", owner).Where("id = ?", id)
}

// dropClaims ends the claims of a webhook's deliveries. The results of tries in progress are then
// not saved, and the deliveries are tried again.
func dropClaims(ctx context.Context, tx bun.IDB, owner, id string) error {
	_, err := tx.NewUpdate().Model((*deliveryRow)(nil)).Set("epoch = epoch + 1").Set("leased_until = 0").
		Where("account_id = ?", owner).Where("webhook_id = ?", id).Where("status = ?", string(webhook.Pending)).Exec(ctx)
	return err
}

// failPendingDeliveries marks the pending deliveries of a webhook that is being disabled as failed,
// and emits the event that the webhook is disabled.
func failPendingDeliveries(ctx context.Context, tx bun.IDB, owner, id string, reason webhook.Reason) error {
	emit(ctx, owner, webhook.DisabledEvent(id, reason))
	_, err := tx.NewUpdate().Model((*deliveryRow)(nil)).Set("status = ?", string(webhook.Failed)).Set("epoch = epoch + 1").Set("leased_until = 0").
		Where("account_id = ?", owner).Where("webhook_id = ?", id).Where("status = ?", string(webhook.Pending)).Exec(ctx)
	return err
}

// RemoveWebhook implements ports.Webhooks.
func (s *Store) RemoveWebhook(ctx context.Context, owner access.AccountID, id string, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "remove webhook", func(ctx context.Context, tx bun.IDB) error {
		row, err := s.lockWebhook(ctx, tx, accountKey(owner), id)
		if err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model((*webhookRow)(nil)).Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx); err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

func dropWebhooks(ctx context.Context, tx bun.IDB, owner string) error {
	_, err := tx.NewDelete().Model((*webhookRow)(nil)).Where("account_id = ?", owner).Exec(ctx)
	return err
}

// Replay implements ports.Webhooks.
func (s *Store) Replay(ctx context.Context, owner access.AccountID, id string, from ports.ReplayFrom) error {
	return s.inTransaction(ctx, "replay events", func(ctx context.Context, tx bun.IDB) error {
		row, err := s.lockWebhook(ctx, tx, accountKey(owner), id)
		if err != nil {
			return err
		}
		log, err := logOf(ctx, tx, row.AccountID)
		if err != nil {
			return err
		}
		position := from.Sequence
		if !from.At.IsZero() {
			if position, err = positionAt(ctx, tx, log, from.At); err != nil {
				return err
			}
		}
		if position > log.LastSequence {
			return cursorAfterEnd("the log")
		}
		if position < log.DroppedSequence {
			return fault.CursorExpired.With("events after this cursor are no longer stored")
		}
		_, err = updateWebhook(tx, row.AccountID, row.ID).Model((*webhookRow)(nil)).
			Set("position = CASE WHEN position < ? THEN position ELSE ? END", position, position).Exec(ctx)
		return err
	})
}

// DisableFailing implements ports.Webhooks.
func (s *Store) DisableFailing(ctx context.Context, since time.Time, limit int) (int, error) {
	var disabled int
	err := s.inTransaction(ctx, "disable failing webhooks", func(ctx context.Context, tx bun.IDB) error {
		var rows []webhookRow
		pending := tx.NewSelect().Model((*deliveryRow)(nil)).ColumnExpr("1").Where("wd.account_id = w.account_id").Where("wd.webhook_id = w.id").
			Where("wd.status = ?", string(webhook.Pending))
		err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("w.status = ?", string(webhook.Enabled)).
			Where("w.failing_since <= ?", storedTime(since)).Where("NOT EXISTS (?)", pending).Where(ofActiveAccount("w")).Order("w.account_id", "w.id").Limit(int64(limit)), "w").Scan(ctx)
		if err != nil {
			return err
		}
		disabled = len(rows)
		for _, r := range rows {
			if _, err := updateWebhook(tx, r.AccountID, r.ID).Model((*webhookRow)(nil)).Set("status = ?", string(webhook.Disabled)).Exec(ctx); err != nil {
				return err
			}
			if err := failPendingDeliveries(ctx, tx, r.AccountID, r.ID, webhook.ReasonFailing); err != nil {
				return err
			}
		}
		return nil
	})
	return disabled, err
}

// WebhookHealth implements ports.WebhookHealthReader.
func (s *Store) WebhookHealth(ctx context.Context, now time.Time) (ports.WebhookHealth, error) {
	var counts struct {
		Enabled, Disabled, Failing, Pending int
		Oldest                              time.Time `bun:",nullzero"`
	}
	err := s.db.Snapshot(ctx, "count webhooks", func(ctx context.Context, tx bun.IDB) error {
		counts.Oldest = time.Time{}
		err := tx.NewSelect().TableExpr("webhooks AS w").ColumnExpr("count(CASE WHEN w.status = 'enabled' THEN 1 END) AS enabled").
			ColumnExpr("count(CASE WHEN w.status = 'disabled' THEN 1 END) AS disabled").
			ColumnExpr("count(CASE WHEN w.status = 'enabled' AND w.failing_since IS NOT NULL THEN 1 END) AS failing").Scan(ctx, &counts.Enabled, &counts.Disabled, &counts.Failing)
		if err != nil {
			return err
		}
		return tx.NewSelect().TableExpr("webhook_deliveries AS wd").ColumnExpr("count(*) AS pending").
			ColumnExpr("min(CASE WHEN wd.next_attempt_at <= ? AND w.failing_since IS NULL THEN wd.next_attempt_at END) AS oldest", storedTime(now)).
			Join("JOIN webhooks AS w ON w.account_id = wd.account_id AND w.id = wd.webhook_id AND w.status = 'enabled'").
			Where("wd.status = 'pending'").Where(ofActiveAccount("wd")).Scan(ctx, &counts)
	})
	return ports.WebhookHealth{Enabled: counts.Enabled, Disabled: counts.Disabled, Failing: counts.Failing, Pending: counts.Pending,
		OldestDue: counts.Oldest.UTC()}, err
}
