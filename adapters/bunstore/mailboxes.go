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
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
)

var (
	listedStages     = bun.List([]mailbox.Stage{mailbox.Created, mailbox.Ready})
	unfinishedStages = bun.List([]mailbox.Stage{mailbox.Reserved, mailbox.Creating})
)

func noMailbox() error { return fault.MailboxNotFound.With("the tenant holds no such mailbox") }

// mailboxesBelow is domainsBelow for mailboxes.
func mailboxesBelow(db bun.IDB, owner, guid, on string, args ...any) *bun.SelectQuery {
	return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("m.*").
		ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name, d.id AS domain_id").
		Join("LEFT JOIN mailboxes AS m ON "+boxOfTenant+" AND m.stage IN (?)"+on,
			append([]any{listedStages}, args...)...).
		Join("LEFT JOIN domains AS d ON d.account_id = m.account_id AND d.tenant_id = m.tenant_id AND d.name = m.domain_name").
		Where("t.account_id = ?", owner).Where("t.guid = ?", guid)
}

// Mailboxes implements ports.MailboxStore.
func (s *Store) Mailboxes(ctx context.Context, owner access.AccountID, id tenant.GUID) ([]mailbox.Mailbox, error) {
	var rows []mailboxRow
	err := s.run(ctx, "list mailboxes", func(ctx context.Context, db bun.IDB) error {
		return mailboxesBelow(db, account(owner), ident.Lookup(string(id)), "").Order("m.address").Scan(ctx, &rows)
	})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, noTenant()
	}
	boxes := make([]mailbox.Mailbox, 0, len(rows))
	for _, r := range rows {
		if r.ID != "" {
			boxes = append(boxes, r.mailbox())
		}
	}
	return boxes, nil
}

// Mailbox implements ports.MailboxStore.
func (s *Store) Mailbox(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Mailbox, error) {
	var row mailboxRow
	err := s.run(ctx, "find mailbox", func(ctx context.Context, db bun.IDB) error {
		err := mailboxesBelow(db, account(owner), ident.Lookup(string(id)),
			" AND m.id = ?", ident.Lookup(mailboxID)).Scan(ctx, &row)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noTenant()
		case err == nil && row.ID == "":
			return noMailbox()
		}
		return err
	})
	if err != nil {
		return mailbox.Mailbox{}, err
	}
	return row.mailbox(), nil
}

// SaveMailbox implements ports.MailboxStore.
func (s *Store) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	row := newMailboxRow(account(owner), m)
	return s.run(ctx, "save mailbox", func(ctx context.Context, db bun.IDB) error {
		res, err := saveMailbox(ctx, db, row)
		return changed(res, err, noMailbox())
	})
}

// ConcludeMailboxes implements ports.MailboxStore.
func (s *Store) ConcludeMailboxes(ctx context.Context, owner access.AccountID, all []mailbox.Mailbox) error {
	return s.atomically(ctx, "conclude mailboxes", func(ctx context.Context, tx bun.IDB) error {
		for _, m := range all {
			res, err := saveMailbox(ctx, tx, newMailboxRow(account(owner), m))
			if err := changed(res, err, noMailbox()); err != nil {
				return err
			}
		}
		return s.complete(ctx, tx)
	})
}

func saveMailbox(ctx context.Context, db bun.IDB, row mailboxRow) (sql.Result, error) {
	return db.NewUpdate().Model(&row).
		Column("stage", "provisioned", "object_id", "display_name", "principal_name", "alias", "account_enabled").
		Where("account_id = ?", row.AccountID).Where("id = ?", row.ID).Exec(ctx)
}

// ReleaseMailbox implements ports.MailboxStore.
func (s *Store) ReleaseMailbox(ctx context.Context, owner access.AccountID, mailboxID string) error {
	return s.run(ctx, "release mailbox", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewDelete().Model((*mailboxRow)(nil)).Where("account_id = ?", account(owner)).
			Where("id = ?", ident.Lookup(mailboxID)).Where("stage IN (?)", unfinishedStages).Exec(ctx)
		return err
	})
}

// SetSendLimit implements ports.MailboxStore.
func (s *Store) SetSendLimit(ctx context.Context, owner access.AccountID, mailboxID string, perDay int, now time.Time) error {
	return s.atomically(ctx, "set send limit", func(ctx context.Context, tx bun.IDB) error {
		held := tx.NewSelect().Model((*mailboxRow)(nil)).Where("m.account_id = ?", account(owner)).Where("m.id = ?", ident.Lookup(mailboxID))
		st, err := s.lockSending(ctx, tx, account(owner), held.Clone().Column("tenant_id"))
		if err != nil {
			return err
		}
		other, err := held.Where("COALESCE(m.daily_send_limit, 0) <> ?", perDay).Exists(ctx)
		if err != nil {
			return err
		}
		res, err := tx.NewUpdate().Model((*mailboxRow)(nil)).Set("daily_send_limit = ?", perDay).
			Where("account_id = ?", account(owner)).Where("id = ?", ident.Lookup(mailboxID)).Exec(ctx)
		if err := changed(res, err, noMailbox()); err != nil || !other {
			return err
		}
		return hasten(ctx, tx, st, now)
	})
}
