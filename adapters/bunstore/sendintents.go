// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// SaveIntents implements ports.SendRuns.
func (s *Store) SaveIntents(ctx context.Context, r ports.SendRun, changes []sendlimit.Change) (bool, error) {
	return s.asRun(ctx, "save intents", r, func(ctx context.Context, tx bun.IDB, own sendTenantRow) error {
		if err := dropIntents(ctx, tx, own, nil); err != nil {
			return err
		}
		var there []string
		if err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", own.AccountID).
			Where("m.tenant_id = ?", own.TenantID).Scan(ctx, &there); err != nil {
			return err
		}
		known := make(map[string]bool, len(there))
		for _, id := range there {
			known[id] = true
		}
		var rows []intentRow
		for _, c := range changes {
			if row := newIntentRow(own, c); known[row.MailboxID] {
				rows = append(rows, row)
			}
		}
		slices.SortFunc(rows, func(a, b intentRow) int { return cmp.Compare(a.MailboxID, b.MailboxID) })
		for some := range slices.Chunk(rows, batch) {
			if _, err := tx.NewInsert().Model(&some).Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Intents implements ports.SendRuns.
func (s *Store) Intents(ctx context.Context, r ports.SendRun) ([]sendlimit.Change, error) {
	var rows []intentRow
	owner, guid := account(r.Account), ident.Lookup(string(r.Tenant))
	err := s.run(ctx, "list intents", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).ColumnExpr("?TableColumns").ColumnExpr("m.address AS address").
			Join("JOIN mailboxes AS m ON m.account_id = si.account_id AND m.id = si.mailbox_id").
			Where("si.account_id = ?", owner).Where("si.tenant_id = "+tenantOfRun, owner, guid).Order("m.address").Scan(ctx)
	})
	all := make([]sendlimit.Change, 0, len(rows))
	for _, row := range rows {
		all = append(all, row.change(tenant.GUID(guid)))
	}
	return all, err
}

// dropIntents forgets a tenant's intents but those for these mailboxes.
func dropIntents(ctx context.Context, tx bun.IDB, own sendTenantRow, open []string) error {
	var gone []string
	if err := tx.NewSelect().Model((*intentRow)(nil)).Column("mailbox_id").Where("si.account_id = ?", own.AccountID).
		Where("si.tenant_id = ?", own.TenantID).Order("mailbox_id").Scan(ctx, &gone); err != nil {
		return err
	}
	stays := make(map[string]bool, len(open))
	for _, id := range open {
		stays[ident.Lookup(id)] = true
	}
	gone = slices.DeleteFunc(gone, func(id string) bool { return stays[id] })
	for some := range slices.Chunk(gone, batch) {
		if _, err := tx.NewDelete().Model((*intentRow)(nil)).Where("si.account_id = ?", own.AccountID).
			Where("si.mailbox_id IN (?)", bun.List(some)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
