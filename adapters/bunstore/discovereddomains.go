// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/ports"
)

func mergeDomains(ctx context.Context, tx bun.IDB, t tenantRow, stored []domainRow, f ports.Found) error {
	found := make(map[string]domain.Domain, len(f.Domains))
	for _, d := range f.Domains {
		found[text(d.Name)] = d
	}
	var gone []string
	for _, row := range stored {
		d, listed := found[row.Name]
		delete(found, row.Name)
		switch {
		case !listed && vanished(f.Began, row.StoredAt, row.Added):
			gone = append(gone, row.ID)
		case listed && !outdated(d, row, f):
			if err := updateDomain(ctx, tx, row, d); err != nil {
				return err
			}
		}
	}
	if err := deleteRows(ctx, tx, (*domainRow)(nil), t.AccountID, gone); err != nil {
		return err
	}
	return insertDomains(ctx, tx, t, found, f)
}

// outdated is true for a domain that a verify or another operation looked at
// and saved while the discovery ran: it knows better.
func outdated(d domain.Domain, row domainRow, f ports.Found) bool {
	return row.CheckedAt.After(f.Began) && row.CheckedAt.After(micro(d.CheckedAt))
}

// updateDomain also ends an adding whose answer got lost: the platform has it.
func updateDomain(ctx context.Context, tx bun.IDB, row domainRow, d domain.Domain) error {
	d.ID, d.Added = row.ID, true
	_, err := saveDomain(ctx, tx, newDomainRow(row.AccountID, d))
	return err
}

func insertDomains(ctx context.Context, tx bun.IDB, t tenantRow, found map[string]domain.Domain, f ports.Found) error {
	rows := make([]domainRow, 0, len(found))
	for _, d := range found {
		d.ID, d.Added = newID(), true
		row := newDomainRow(t.AccountID, d)
		row.TenantID, row.CreatedAt, row.StoredAt = t.ID, f.Began, f.Began
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}
