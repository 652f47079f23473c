// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
)

// held is the condition of the index that lets one integration have a mailbox.
const held = "status IN ('pending', 'connected', 'disconnecting', 'other')"

func heldElsewhere() error {
	return fault.ConnectedElsewhere.With("another integration holds the mailbox")
}

// eligibleRow is a mailbox and its connection to one integration.
type eligibleRow struct {
	mailboxRow `bun:",extend"`

	Connection connectionRow `bun:"embed:mc_"`
	Elsewhere  bool
}

func (r eligibleRow) eligible() integration.Eligible {
	e := integration.Eligible{Mailbox: r.mailbox(), Elsewhere: r.Elsewhere}
	if r.Connection.ID != "" {
		e.Connection = r.Connection.connection()
	}
	return e
}

// eligibleBelow reads an integration and, joined to it, its account's mailboxes
// that on lets through: no row means no integration, an empty one no mailbox.
func eligibleBelow(db bun.IDB, owner, integrationID, on string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("integrations AS ig").ColumnExpr("m.*").
		ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name, d.id AS domain_id").
		ColumnExpr("mc.id AS mc_id, mc.integration_id AS mc_integration_id, mc.mailbox_id AS mc_mailbox_id, mc.status AS mc_status").
		ColumnExpr("mc.platform_account AS mc_platform_account, mc.platform_address AS mc_platform_address").
		ColumnExpr("mc.platform_name AS mc_platform_name, mc.has_error AS mc_has_error, mc.reason AS mc_reason").
		ColumnExpr("mc.connected_at AS mc_connected_at, mc.updated_at AS mc_updated_at, h.id IS NOT NULL AS elsewhere").
		Join("LEFT JOIN mailboxes AS m ON m.account_id = ig.account_id AND m.provisioned AND m.stage IN (?)"+on,
			append([]any{bun.List([]mailbox.Stage{mailbox.Created, mailbox.Ready})}, args...)...).
		Join("LEFT JOIN tenants AS t ON t.account_id = m.account_id AND t.id = m.tenant_id").
		Join("LEFT JOIN domains AS d ON d.account_id = m.account_id AND d.tenant_id = m.tenant_id AND d.name = m.domain_name").
		Join("LEFT JOIN mailbox_connections AS mc ON mc.account_id = m.account_id AND mc.integration_id = ig.id AND mc.mailbox_id = m.id").
		Join("LEFT JOIN mailbox_connections AS h ON h.account_id = m.account_id AND h.mailbox_id = m.id AND h.integration_id <> ig.id AND h."+held).
		Where("ig.account_id = ?", owner).Where("ig.id = ?", integrationID)
}

// Eligible implements ports.Connections.
func (s *Store) Eligible(ctx context.Context, owner access.AccountID, integrationID string) ([]integration.Eligible, error) {
	var rows []eligibleRow
	err := s.run(ctx, "list eligible mailboxes", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return eligibleBelow(db, account(owner), ident.Lookup(integrationID), "").Order("m.address", "m.id").Scan(ctx, &rows)
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, noIntegration()
	}
	all := make([]integration.Eligible, 0, len(rows))
	for _, r := range rows {
		if r.ID != "" {
			all = append(all, r.eligible())
		}
	}
	return all, nil
}

// EligibleMailbox implements ports.Connections.
func (s *Store) EligibleMailbox(ctx context.Context, owner access.AccountID, integrationID, mailboxID string) (integration.Eligible, error) {
	var found integration.Eligible
	err := s.run(ctx, "find eligible mailbox", func(ctx context.Context, db bun.IDB) (err error) {
		found, err = eligibleOne(ctx, db, account(owner), ident.Lookup(integrationID), ident.Lookup(mailboxID))
		return err
	})
	return found, err
}

func eligibleOne(ctx context.Context, db bun.IDB, owner, integrationID, mailboxID string) (integration.Eligible, error) {
	var row eligibleRow
	err := eligibleBelow(db, owner, integrationID, " AND m.id = ?", mailboxID).Scan(ctx, &row)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return integration.Eligible{}, noIntegration()
	case err == nil && row.ID == "":
		return integration.Eligible{}, fault.MailboxNotFound.With("this service made no such mailbox in a tenant of the account")
	case err != nil:
		return integration.Eligible{}, err
	}
	return row.eligible(), nil
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
