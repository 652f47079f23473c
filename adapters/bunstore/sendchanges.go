// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/ports"
)

// SaveChanges implements ports.SendRuns.
func (s *Store) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	// One order for all, so that two never wait for each other.
	changes := slices.Clone(c.Done)
	slices.SortFunc(changes, func(a, b sendlimit.Change) int { return cmp.Compare(a.Box, b.Box) })
	return s.asRun(ctx, "save changes of mailboxes", r, func(ctx context.Context, tx bun.IDB, own sendTenantRow) error {
		var events []sendlimit.Event
		for _, one := range changes {
			made, err := change(ctx, tx, own, one)
			if err != nil {
				return err
			}
			if made {
				events = append(events, one.Event)
			}
		}
		if err := forgetScopes(ctx, tx, own, c.Emptied); err != nil {
			return err
		}
		if err := dropIntents(ctx, tx, own, c.Open); err != nil {
			return err
		}
		return recordEvents(ctx, tx, own.AccountID, events)
	})
}

// change blocks a mailbox or lets it go, and reports whether it was not so
// before.
func change(ctx context.Context, tx bun.IDB, own sendTenantRow, c sendlimit.Change) (bool, error) {
	block := blockRow{AccountID: own.AccountID, MailboxID: ident.Lookup(c.Box), Scope: text(c.Scope)}
	q := tx.NewUpdate().Model((*mailboxRow)(nil)).Where("m.account_id = ?", own.AccountID).Where("m.tenant_id = ?", own.TenantID).
		Where("m.id = ?", block.MailboxID)
	if c.Action == sendlimit.Blocked {
		q = q.Set("blocked_at = ?", micro(c.Event.At)).Where("m.blocked_at IS NULL")
	} else {
		q = q.Set("blocked_at = NULL").Where("m.blocked_at IS NOT NULL")
	}
	res, err := q.Exec(ctx)
	if err != nil {
		return false, err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	if c.Action == sendlimit.Blocked {
		_, err = tx.NewInsert().Model(&block).On("CONFLICT (account_id, mailbox_id) DO UPDATE").Set("scope = EXCLUDED.scope").Exec(ctx)
	} else {
		_, err = tx.NewDelete().Model((*blockRow)(nil)).Where("mb.account_id = ?", own.AccountID).Where("mb.mailbox_id = ?", block.MailboxID).Exec(ctx)
	}
	return true, err
}

// forgetScopes drops what is left of policies whose domains are gone.
func forgetScopes(ctx context.Context, tx bun.IDB, own sendTenantRow, scopes []string) error {
	if len(scopes) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model((*policyRow)(nil)).Where("sp.account_id = ?", own.AccountID).Where("sp.tenant_id = ?", own.TenantID).
		Where("sp.scope IN (?)", bun.List(scopes)).Where("NOT " + domainOfPolicy).Exec(ctx)
	return err
}
