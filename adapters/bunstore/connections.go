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
)

// held is the condition of the index that lets one integration have a mailbox.
const held = "status IN ('pending', 'connected', 'disconnecting', 'other')"

func heldElsewhere() error {
	return fault.ConnectedElsewhere.With("another integration holds the mailbox")
}

// eligibleBelow reads an integration and, joined to it, its account's mailboxes
// that on lets through: no row means no integration, an empty one no mailbox.
// Connections are read apart: right after a first refresh PostgreSQL does not
// know yet how many there are, and joins them in a second and more.
func eligibleBelow(db bun.IDB, owner, integrationID, on string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("integrations AS ig").ColumnExpr("m.*").
		ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name, d.id AS domain_id").
		Join("LEFT JOIN mailboxes AS m ON m.account_id = ig.account_id AND m.provisioned AND m.stage IN (?)"+on,
			append([]any{listedStages}, args...)...).
		Join("LEFT JOIN tenants AS t ON t.account_id = m.account_id AND t.id = m.tenant_id").
		Join("LEFT JOIN domains AS d ON d.account_id = m.account_id AND d.tenant_id = m.tenant_id AND d.name = m.domain_name").
		Where("ig.account_id = ?", owner).Where("ig.id = ?", integrationID)
}

// standing reads an account's connections to an integration, and those by which
// others hold a mailbox.
func standing(db bun.IDB, rows *[]connectionRow, owner, integrationID string) *bun.SelectQuery {
	return db.NewSelect().Model(rows).Where("mc.account_id = ?", owner).
		Where("(mc.integration_id = ? OR mc."+held+")", integrationID)
}

// eligibleOf joins the two.
func eligibleOf(mailboxes []mailboxRow, connections []connectionRow, integrationID string) []integration.Eligible {
	all := make([]integration.Eligible, 0, len(mailboxes))
	at := make(map[string]*integration.Eligible, len(mailboxes))
	for _, m := range mailboxes {
		all = append(all, integration.Eligible{Mailbox: m.mailbox()})
		at[m.ID] = &all[len(all)-1]
	}
	for _, c := range connections {
		e, eligible := at[c.MailboxID]
		switch {
		case eligible && c.IntegrationID == integrationID:
			e.Connection = c.connection()
		case eligible:
			e.Elsewhere = true
		}
	}
	return all
}

// Eligible implements ports.Connections.
func (s *Store) Eligible(ctx context.Context, owner access.AccountID, integrationID string) ([]integration.Eligible, error) {
	of := ident.Lookup(integrationID)
	var mailboxes []mailboxRow
	var connections []connectionRow
	err := s.run(ctx, "list eligible mailboxes", func(ctx context.Context, db bun.IDB) error {
		mailboxes = nil
		return eligibleBelow(db, account(owner), of, "").Order("m.address", "m.id").Scan(ctx, &mailboxes)
	})
	if err != nil {
		return nil, err
	}
	err = s.run(ctx, "list connections", func(ctx context.Context, db bun.IDB) error {
		connections = nil
		return standing(db, &connections, account(owner), of).Scan(ctx)
	})
	switch {
	case err != nil:
		return nil, err
	case len(mailboxes) == 0:
		return nil, noIntegration()
	case mailboxes[0].ID == "":
		return []integration.Eligible{}, nil
	}
	return eligibleOf(mailboxes, connections, of), nil
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
	var row mailboxRow
	err := eligibleBelow(db, owner, integrationID, " AND m.id = ?", mailboxID).Scan(ctx, &row)
	unknown := errors.Is(err, sql.ErrNoRows)
	if err != nil && !unknown {
		return integration.Eligible{}, err
	}
	// What is unknown takes the same queries.
	var connections []connectionRow
	err = standing(db, &connections, owner, integrationID).Where("mc.mailbox_id = ?", mailboxID).Scan(ctx)
	switch {
	case err != nil:
		return integration.Eligible{}, err
	case unknown:
		return integration.Eligible{}, noIntegration()
	case row.ID == "":
		return integration.Eligible{}, fault.MailboxNotFound.With("this service made no such mailbox in a tenant of the account")
	}
	return eligibleOf([]mailboxRow{row}, connections, integrationID)[0], nil
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
