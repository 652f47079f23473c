// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
)

// ReserveMailboxes implements ports.MailboxStore.
func (s *Store) ReserveMailboxes(ctx context.Context, owner access.AccountID, domainID string, specs []mailbox.Spec, most int, now time.Time) ([]mailbox.Mailbox, error) {
	var boxes []mailbox.Mailbox
	err := s.atomically(ctx, "reserve mailboxes", func(ctx context.Context, tx bun.IDB) error {
		d, err := s.lockDomain(ctx, tx, account(owner), ident.Lookup(domainID))
		if err != nil {
			return err
		}
		rows, err := mailboxesOf(ctx, tx, d)
		if err != nil {
			return err
		}
		fresh, err := mailbox.Admit(addresses(rows), specs, most)
		if err != nil {
			return err
		}
		made, err := reserve(ctx, tx, d, fresh, micro(now))
		if err != nil {
			return err
		}
		if err := takeUp(ctx, tx, d, specs, micro(now)); err != nil {
			return err
		}
		boxes = inOrder(specs, append(rows, made...), len(rows), d)
		return nil
	})
	return boxes, err
}

func (s *Store) lockDomain(ctx context.Context, tx bun.IDB, owner, id string) (domainRow, error) {
	var d domainRow
	q := withTenant(tx.NewSelect().Model(&d)).Where("d.account_id = ?", owner).Where("d.id = ?", id).Where("d.added")
	return d, oneDomain(s.locked(q, "d").Scan(ctx))
}

func mailboxesOf(ctx context.Context, tx bun.IDB, d domainRow) ([]mailboxRow, error) {
	var rows []mailboxRow
	err := tx.NewSelect().Model(&rows).Where("account_id = ?", d.AccountID).
		Where("tenant_id = ?", d.TenantID).Where("domain_name = ?", d.Name).Scan(ctx)
	return rows, err
}

func addresses(rows []mailboxRow) []string {
	all := make([]string, 0, len(rows))
	for _, r := range rows {
		all = append(all, r.Address)
	}
	return all
}

func reserve(ctx context.Context, tx bun.IDB, d domainRow, fresh []mailbox.Spec, now time.Time) ([]mailboxRow, error) {
	if len(fresh) == 0 {
		return nil, nil
	}
	rows := make([]mailboxRow, 0, len(fresh))
	for _, spec := range fresh {
		rows = append(rows, mailboxRow{
			AccountID: d.AccountID, ID: newID(), TenantID: d.TenantID, Address: spec.Address, DomainName: d.Name,
			Stage: mailbox.Reserved, DisplayName: text(spec.DisplayName), CreatedAt: now, StoredAt: now,
		})
	}
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return rows, err
}

// takeUp marks unfinished creations among specs as under way again.
func takeUp(ctx context.Context, tx bun.IDB, d domainRow, specs []mailbox.Spec, now time.Time) error {
	wanted := make([]string, 0, len(specs))
	for _, spec := range specs {
		wanted = append(wanted, spec.Address)
	}
	_, err := tx.NewUpdate().Model((*mailboxRow)(nil)).Set("stored_at = ?", now).
		Where("account_id = ?", d.AccountID).Where("tenant_id = ?", d.TenantID).
		Where("address IN (?)", bun.List(wanted)).Where("stage IN (?)", unfinishedStages).Exec(ctx)
	return err
}

// inOrder returns the rows in the order of specs. The first held of them were
// there before.
func inOrder(specs []mailbox.Spec, rows []mailboxRow, held int, d domainRow) []mailbox.Mailbox {
	boxes := make([]mailbox.Mailbox, 0, len(specs))
	for _, spec := range specs {
		i := slices.IndexFunc(rows, func(r mailboxRow) bool { return r.Address == spec.Address })
		row := rows[i]
		row.DomainID, row.TenantGUID, row.TenantName = d.ID, d.TenantGUID, d.TenantName
		box := row.mailbox()
		box.Fresh = i >= held
		boxes = append(boxes, box)
	}
	return boxes
}
