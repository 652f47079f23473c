// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// rowOf is the tenant's row as a statement.
func rowOf(db bun.IDB, t tenantRow) *bun.SelectQuery {
	return db.NewSelect().Model((*tenantRow)(nil)).Column("id").Where("t.account_id = ?", t.AccountID).Where("t.id = ?", t.ID)
}

// letGo says which of the mailboxes that are gone at the platform are to be
// dropped, and returns the events of those that are blocked: no look will find
// them any more. Its next one takes them out of the rule, and comes at once. Of
// those that a run was about to block only a look can tell whether they are, so
// they stay for it.
func letGo(ctx context.Context, tx bun.IDB, t tenantRow, st sendTenantRow, gone []mailboxRow, f ports.Found) (drop []string, released []sendlimit.Event, err error) {
	if len(gone) == 0 {
		return nil, nil, nil
	}
	unsure, err := aboutToBlock(ctx, tx, t)
	if err != nil {
		return nil, nil, err
	}
	var blocked []mailboxRow
	for _, row := range gone {
		if unsure[row.ID] {
			continue
		}
		drop = append(drop, row.ID)
		if !row.BlockedAt.IsZero() {
			blocked = append(blocked, row)
		}
	}
	if len(blocked) == 0 {
		return drop, nil, nil
	}
	at := f.At
	if at.Before(f.Began) {
		at = f.Began
	}
	if released, err = releases(ctx, tx, t, st, blocked, at); err != nil {
		return nil, nil, err
	}
	return drop, released, hasten(ctx, tx, st, at)
}

// aboutToBlock are the tenant's mailboxes that a run intended to block.
func aboutToBlock(ctx context.Context, tx bun.IDB, t tenantRow) (map[string]bool, error) {
	var ids []string
	err := tx.NewSelect().Model((*intentRow)(nil)).Column("mailbox_id").Where("si.account_id = ?", t.AccountID).
		Where("si.tenant_id = ?", t.ID).Where("si.action = ?", string(sendlimit.Blocked)).Scan(ctx, &ids)
	all := make(map[string]bool, len(ids))
	for _, id := range ids {
		all[id] = true
	}
	return all, err
}

// releases are the events of blocked mailboxes that are let go.
func releases(ctx context.Context, tx bun.IDB, t tenantRow, st sendTenantRow, blocked []mailboxRow, at time.Time) ([]sendlimit.Event, error) {
	guid, owner := tenant.GUID(t.GUID), access.AccountID(t.AccountID)
	place, err := sendlimit.Place(st.Place)
	if err != nil {
		return nil, err
	}
	grounds, err := groundsOf(ctx, tx, t.AccountID, blocked)
	if err != nil {
		return nil, err
	}
	var rows []policyRow
	if err := policiesBelow(tx, owner, guid, "").Scan(ctx, &rows); err != nil {
		return nil, err
	}
	limits := sendlimit.Policies{}
	for _, r := range rows {
		if r.ID != "" {
			limits[r.Scope] = r.DailySendLimit
		}
	}
	day := sendlimit.DayOf(at, place)
	if at, err = eventTime(ctx, tx, t.AccountID, guid, at); err != nil {
		return nil, err
	}
	events := make([]sendlimit.Event, 0, len(blocked))
	for _, row := range blocked {
		b := row.box(grounds[row.ID])
		if b.Counted = day.Has(row.SendsTodayAt); b.Counted {
			b.Sent = row.SendsToday
		}
		events = append(events, stamped(b.Becomes(sendlimit.Unblocked, guid, limits, at).Event, at))
	}
	return events, nil
}
