// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// SaveChanges implements ports.SendRuns.
func (s *Store) SaveChanges(ctx context.Context, r ports.SendRun, c ports.SendChanges) (bool, error) {
	// One order for all, so that two never wait for each other.
	changes := slices.Clone(c.Done)
	slices.SortFunc(changes, func(a, b sendlimit.Change) int { return cmp.Compare(a.Box, b.Box) })
	return s.asRun(ctx, "save changes of mailboxes", r, func(ctx context.Context, tx bun.IDB, own sendTenantRow) error {
		events, err := change(ctx, tx, own, r.Tenant, changes, c.At)
		if err != nil {
			return err
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

// change blocks mailboxes or lets them go, and returns the events of those that
// were not so before.
func change(ctx context.Context, tx bun.IDB, own sendTenantRow, id tenant.GUID, changes []sendlimit.Change, at time.Time) ([]sendlimit.Event, error) {
	if len(changes) == 0 {
		return nil, nil
	}
	var events []sendlimit.Event
	at, err := eventTime(ctx, tx, own.AccountID, id, at)
	if err != nil {
		return nil, err
	}
	for _, one := range changes {
		e := stamped(one.Event, at)
		made, err := changeOne(ctx, tx, own, one, e)
		if err != nil {
			return nil, err
		}
		if made {
			events = append(events, e)
		}
	}
	return events, nil
}

func changeOne(ctx context.Context, tx bun.IDB, own sendTenantRow, c sendlimit.Change, e sendlimit.Event) (made bool, err error) {
	q := tx.NewUpdate().Model((*mailboxRow)(nil)).Where("m.account_id = ?", own.AccountID).Where("m.tenant_id = ?", own.TenantID).
		Where("m.id = ?", ident.Lookup(c.Box))
	if c.Action == sendlimit.Blocked {
		q = q.Set("blocked_at = ?", micro(e.At)).Where("m.blocked_at IS NULL")
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
		return true, keepBlock(ctx, tx, own.AccountID, c)
	}
	return true, dropBlock(ctx, tx, own.AccountID, ident.Lookup(c.Box))
}

// keepBlock says whose rule blocks a mailbox, and why.
func keepBlock(ctx context.Context, tx bun.IDB, owner string, c sendlimit.Change) error {
	block := blockRow{AccountID: owner, MailboxID: ident.Lookup(c.Box), Scope: text(c.Scope)}
	if _, err := tx.NewInsert().Model(&block).On("CONFLICT (account_id, mailbox_id) DO UPDATE").Set("scope = EXCLUDED.scope").Exec(ctx); err != nil {
		return err
	}
	ground := groundRow{AccountID: owner, MailboxID: block.MailboxID, LimitValue: c.Event.Limit, DecidedAt: micro(c.At)}
	_, err := tx.NewInsert().Model(&ground).On("CONFLICT (account_id, mailbox_id) DO UPDATE").
		Set("limit_value = EXCLUDED.limit_value").Set("decided_at = EXCLUDED.decided_at").Exec(ctx)
	return err
}

func dropBlock(ctx context.Context, tx bun.IDB, owner, mailboxID string) error {
	if _, err := tx.NewDelete().Model((*blockRow)(nil)).Where("mb.account_id = ?", owner).Where("mb.mailbox_id = ?", mailboxID).Exec(ctx); err != nil {
		return err
	}
	_, err := tx.NewDelete().Model((*groundRow)(nil)).Where("bg.account_id = ?", owner).Where("bg.mailbox_id = ?", mailboxID).Exec(ctx)
	return err
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

// groundsOf are why those of these mailboxes are blocked that are, by their ids.
func groundsOf(ctx context.Context, tx bun.IDB, owner string, boxes []mailboxRow) (map[string]groundRow, error) {
	grounds := map[string]groundRow{}
	var blocked []string
	for _, m := range boxes {
		if !m.BlockedAt.IsZero() {
			blocked = append(blocked, m.ID)
		}
	}
	for some := range slices.Chunk(blocked, batch) {
		var rows []groundRow
		if err := tx.NewSelect().Model(&rows).Where("bg.account_id = ?", owner).Where("bg.mailbox_id IN (?)", bun.List(some)).Scan(ctx); err != nil {
			return nil, err
		}
		for _, g := range rows {
			grounds[g.MailboxID] = g
		}
	}
	return grounds, nil
}

// box is a mailbox as enforcement sees it. One that an earlier release blocked
// has no ground.
func (r mailboxRow) box(g groundRow) sendlimit.Box {
	b := sendlimit.Box{ID: r.ID, Address: r.Address, Domain: r.DomainName, Own: r.DailySendLimit, BlockedAt: r.BlockedAt.UTC()}
	if !b.BlockedAt.IsZero() && !g.DecidedAt.IsZero() {
		b.BlockedAt, b.BlockedBy = g.DecidedAt.UTC(), g.LimitValue
	}
	return b
}
