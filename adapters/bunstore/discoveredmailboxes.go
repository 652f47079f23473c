// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"strings"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

func (s *Store) mergeMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, f ports.Found) error {
	enforced, err := s.lockSending(ctx, tx, t.AccountID, rowOf(tx, t))
	if err != nil {
		return err
	}
	var stored []mailboxRow
	err = tx.NewSelect().Model(&stored).Where("account_id = ?", t.AccountID).Where("tenant_id = ?", t.ID).Scan(ctx)
	if err != nil {
		return err
	}
	found := make(map[string]mailbox.Platform, len(f.Mailboxes))
	for _, p := range f.Mailboxes {
		found[text(strings.ToLower(p.Address))] = p
	}
	var gone []mailboxRow
	for _, row := range stored {
		p, listed := found[row.Address]
		delete(found, row.Address)
		switch {
		case !listed && vanished(f.Began, row.StoredAt, row.Stage.Listed()):
			gone = append(gone, row)
		case listed && !row.StoredAt.After(f.Began):
			if _, err := saveMailbox(ctx, tx, seen(row, p)); err != nil {
				return err
			}
		}
	}
	ids, released, err := letGo(ctx, tx, t, enforced, gone, f)
	if err != nil {
		return err
	}
	if err := deleteRows(ctx, tx, (*mailboxRow)(nil), t.AccountID, ids); err != nil {
		return err
	}
	if err := insertMailboxes(ctx, tx, t, found, f); err != nil {
		return err
	}
	return recordEvents(ctx, tx, t.AccountID, released)
}

// seen is a stored row with the platform's state.
func seen(row mailboxRow, p mailbox.Platform) mailboxRow {
	now := newMailboxRow(row.AccountID, row.mailbox().Seen(p))
	row.Stage, row.Provisioned, row.ObjectID = now.Stage, now.Provisioned, now.ObjectID
	row.DisplayName, row.PrincipalName, row.Alias, row.AccountEnabled = now.DisplayName, now.PrincipalName, now.Alias, now.AccountEnabled
	return row
}

func insertMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, found map[string]mailbox.Platform, f ports.Found) error {
	rows := make([]mailboxRow, 0, len(found))
	for address, p := range found {
		row := seen(mailboxRow{AccountID: t.AccountID, ID: newID(), TenantID: t.ID, Address: address,
			DomainName: domainOf(address), Stage: mailbox.Reserved, CreatedAt: micro(p.CreatedAt), StoredAt: f.Began}, p)
		if p.CreatedAt.IsZero() {
			row.CreatedAt = f.Began
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}
