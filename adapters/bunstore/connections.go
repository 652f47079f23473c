// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
)

// held is the condition of the index that lets one integration have a mailbox.
const held = "status IN ('pending', 'connected', 'disconnecting', 'other')"

func heldElsewhere() error {
	return fault.ConnectedElsewhere.With("another integration holds the mailbox")
}

// ConnectionCounts implements ports.Connections.
func (s *Store) ConnectionCounts(ctx context.Context, owner access.AccountID, integrationID string) (integration.Counts, error) {
	var rows []struct {
		Status          string
		Mailboxes, Errs int
	}
	err := s.run(ctx, "count connections", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().TableExpr("mailbox_connections AS mc").ColumnExpr("mc.status, COUNT(*) AS mailboxes").
			ColumnExpr("COUNT(*) FILTER (WHERE mc.has_error) AS errs").Where("mc.account_id = ?", account(owner)).
			Where("mc.integration_id = ?", ident.Lookup(integrationID)).GroupExpr("mc.status").Scan(ctx, &rows)
	})
	var n integration.Counts
	for _, r := range rows {
		n.Total += r.Mailboxes
		n.HasErrors = n.HasErrors || r.Errs > 0
		switch integration.ConnectionStatus(r.Status) {
		case integration.ConnectionConnected:
			n.Connected += r.Mailboxes
		case integration.ConnectionPending:
			n.Pending += r.Mailboxes
		case integration.ConnectionFailed:
			n.Failed += r.Mailboxes
		case integration.ConnectionDisconnected:
			n.Disconnected += r.Mailboxes
		default:
			n.Other += r.Mailboxes
		}
	}
	return n, err
}

// SaveConnection implements ports.Connections.
func (s *Store) SaveConnection(ctx context.Context, owner access.AccountID, c integration.Connection, before time.Time) (bool, error) {
	row := newConnectionRow(account(owner), c)
	var saved bool
	err := s.atomically(ctx, "save connection", func(ctx context.Context, tx bun.IDB) error {
		saved = false
		if err := free(ctx, tx, row); err != nil {
			return err
		}
		var res sql.Result
		var err error
		if before.IsZero() {
			res, err = insertConnection(ctx, tx, row)
		} else {
			res, err = updateConnection(tx, row).Where("mc.updated_at = ?", micro(before)).Exec(ctx)
		}
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		saved = true
		if c.Status == integration.ConnectionDisconnected {
			if err := endDisconnected(ctx, tx, row); err != nil {
				return err
			}
		}
		return s.complete(ctx, tx)
	})
	return saved && err == nil, err
}

func insertConnection(ctx context.Context, tx bun.IDB, row connectionRow) (sql.Result, error) {
	if _, err := eligibleOne(ctx, tx, row.AccountID, row.IntegrationID, row.MailboxID); err != nil {
		return nil, err
	}
	return tx.NewInsert().Model(&row).On("CONFLICT (account_id, integration_id, mailbox_id) DO NOTHING").Exec(ctx)
}

// updateConnection is a change of the row that is there, whatever its id.
func updateConnection(tx bun.IDB, row connectionRow) *bun.UpdateQuery {
	return tx.NewUpdate().Model(&row).Column("status", "platform_account", "platform_address", "platform_name",
		"has_error", "reason", "connected_at", "updated_at").Where("mc.account_id = ?", row.AccountID).
		Where("mc.integration_id = ?", row.IntegrationID).Where("mc.mailbox_id = ?", row.MailboxID)
}

// free refuses a connection that would hold a mailbox which another integration
// holds. It only finds the words: of two who come here at once the index lets
// one through, and the other looks again.
func free(ctx context.Context, tx bun.IDB, row connectionRow) error {
	if !integration.ConnectionStatus(row.Status).Held() {
		return nil
	}
	taken, err := tx.NewSelect().TableExpr("mailbox_connections AS mc").Where("mc.account_id = ?", row.AccountID).
		Where("mc.mailbox_id = ?", row.MailboxID).Where("mc.integration_id <> ?", row.IntegrationID).Where("mc." + held).Exists(ctx)
	if err == nil && taken {
		return heldElsewhere()
	}
	return err
}
