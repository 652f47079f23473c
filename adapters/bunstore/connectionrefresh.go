// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
)

// batch is how many rows of a refresh go in one statement.
const batch = 500

// refreshTries is how often a refresh is stored anew that sessions elsewhere
// keep coming before. Each of them takes one mailbox, so they come to an end.
const refreshTries = 10

// SaveRefresh implements ports.Connections.
func (s *Store) SaveRefresh(ctx context.Context, owner access.AccountID, i integration.Integration, began time.Time, connections []integration.Connection) (int, error) {
	i.AccountID = owner
	row := newIntegrationRow(i)
	seen := newConnectionRows(row, connections)
	for range refreshTries {
		stored, err := s.saveRefresh(ctx, row, seen, micro(began))
		if !errors.Is(err, errDuplicate) {
			return stored, err
		}
	}
	return 0, fault.ServiceUnavailable.RetryIn(awayRetry, "others are connecting the same mailboxes right now")
}

func (s *Store) saveRefresh(ctx context.Context, row integrationRow, seen []connectionRow, began time.Time) (stored int, err error) {
	err = s.atomically(ctx, "save refresh", func(ctx context.Context, tx bun.IDB) error {
		stored = 0
		if err := saveRefreshed(ctx, tx, row, began); err != nil {
			return err
		}
		rows, err := storable(ctx, tx, row, seen)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(rows, batch) {
			n, err := saveBatch(ctx, tx, part, began)
			if err != nil {
				return err
			}
			stored += int(n)
		}
		return s.complete(ctx, tx)
	})
	if err != nil {
		return 0, err
	}
	return stored, nil
}

// newConnectionRows are the rows in the order of their mailboxes: two refreshes
// at once that took them in different orders would wait for each other. Of
// several for one mailbox the last counts.
func newConnectionRows(of integrationRow, connections []integration.Connection) []connectionRow {
	last := make(map[string]connectionRow, len(connections))
	for _, c := range connections {
		c.IntegrationID = of.ID
		row := newConnectionRow(of.AccountID, c)
		last[row.MailboxID] = row
	}
	rows := make([]connectionRow, 0, len(last))
	for _, row := range last {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b connectionRow) int { return strings.Compare(a.MailboxID, b.MailboxID) })
	return rows
}

// saveRefreshed stores the integration, and that its last refresh began then.
func saveRefreshed(ctx context.Context, tx bun.IDB, row integrationRow, began time.Time) error {
	res, err := tx.NewUpdate().Model(&row).Column("status", "has_error", "workspace_id", "workspace_name",
		"last_tested_at", "refreshed_at", "updated_at").
		Set("began_at = CASE WHEN began_at < ? THEN ? ELSE began_at END", began, began).
		Where("ig.account_id = ?", row.AccountID).Where("ig.id = ?", row.ID).Exec(ctx)
	return changed(res, err, noIntegration())
}

// storable leaves out what would fail the others: mailboxes that went, and
// those that another integration holds. One that goes or is taken at this very
// moment fails the transaction, which then runs again.
func storable(ctx context.Context, tx bun.IDB, of integrationRow, rows []connectionRow) ([]connectionRow, error) {
	var there []string
	err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", of.AccountID).
		Where("m.provisioned").Scan(ctx, &there)
	if err != nil {
		return nil, err
	}
	var connections []connectionRow
	if err := standing(tx, &connections, of.AccountID, of.ID).Where("mc.integration_id <> ?", of.ID).Scan(ctx); err != nil {
		return nil, err
	}
	open := make(map[string]bool, len(there))
	for _, id := range there {
		open[id] = true
	}
	for _, c := range connections {
		delete(open, c.MailboxID)
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row connectionRow) bool { return !open[row.MailboxID] }), nil
}

// saveBatch stores rows that have not changed since the listing began.
func saveBatch(ctx context.Context, tx bun.IDB, rows []connectionRow, began time.Time) (int64, error) {
	res, err := tx.NewInsert().Model(&rows).On("CONFLICT (account_id, integration_id, mailbox_id) DO UPDATE").
		Set("status = EXCLUDED.status").Set("platform_account = EXCLUDED.platform_account").
		Set("platform_address = EXCLUDED.platform_address").
		Set("platform_name = EXCLUDED.platform_name").
		Set("has_error = EXCLUDED.has_error").Set("reason = EXCLUDED.reason").
		Set("connected_at = EXCLUDED.connected_at").Set("updated_at = EXCLUDED.updated_at").
		Where("mc.updated_at <= ?", began).Exec(ctx)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
