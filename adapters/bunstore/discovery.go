// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// unfinishedGrace is how long an unfinished creation counts as in progress after its last request.
// No request lasts nearly as long.
const unfinishedGrace = time.Hour

// SaveDiscovery implements ports.Discoveries. It locks the tenant before its domains, so that no
// reservation happens during the comparison. The lock on the enforcement state keeps blocks out.
func (s *Store) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, f ports.Found) error {
	f.Began = storedTime(f.Began)
	return s.inTransaction(ctx, "save discovery", func(ctx context.Context, tx bun.IDB) error {
		t, err := s.lockTenant(ctx, tx, accountKey(owner), ident.Lookup(string(id)))
		if err != nil {
			return err
		}
		stored, err := s.lockDomains(ctx, tx, t)
		if err != nil {
			return err
		}
		if f.Domains != nil {
			if err := mergeDomains(ctx, tx, t, stored, f); err != nil {
				return err
			}
		}
		if f.Mailboxes != nil {
			return s.mergeMailboxes(ctx, tx, t, f)
		}
		return nil
	})
}

func (s *Store) lockDomains(ctx context.Context, tx bun.IDB, t tenantRow) ([]domainRow, error) {
	var rows []domainRow
	err := s.lockRows(tx.NewSelect().Model(&rows).Where("d.account_id = ?", t.AccountID).
		Where("d.tenant_id = ?", t.ID).Order("d.id"), "d").Scan(ctx)
	return rows, err
}

// isGone reports whether a stored row that the platform did not list must be deleted. The list
// shows the state at began, so a row that was stored later is kept.
func isGone(began, storedAt time.Time, finished bool) bool {
	if !finished {
		began = began.Add(-unfinishedGrace)
	}
	return !storedAt.After(began)
}

// deleteRows deletes rows of the account by id.
func deleteRows(ctx context.Context, tx bun.IDB, model any, owner string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model(model).Where("account_id = ?", owner).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}

func mergeDomains(ctx context.Context, tx bun.IDB, t tenantRow, stored []domainRow, f ports.Found) error {
	found := make(map[string]domain.Domain, len(f.Domains))
	for _, d := range f.Domains {
		found[storedText(d.Name)] = d
	}
	var gone []string
	for _, row := range stored {
		d, listed := found[row.Name]
		delete(found, row.Name)
		switch {
		case !listed && isGone(f.Began, row.StoredAt, row.Added):
			gone = append(gone, row.ID)
		case listed && !checkedDuringDiscovery(d, row, f):
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

// checkedDuringDiscovery reports whether another operation saved a newer check of the domain while
// the discovery ran.
func checkedDuringDiscovery(d domain.Domain, row domainRow, f ports.Found) bool {
	return row.CheckedAt.After(f.Began) && row.CheckedAt.After(storedTime(d.CheckedAt))
}

// updateDomain saves what the platform reports. A domain whose creation lost its answer is now
// marked as added.
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

func (s *Store) mergeMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, f ports.Found) error {
	enforced, err := s.lockSendState(ctx, tx, t.AccountID, tenantIDQuery(tx, t))
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
		found[storedText(strings.ToLower(p.Address))] = p
	}
	var gone []mailboxRow
	for _, row := range stored {
		p, listed := found[row.Address]
		delete(found, row.Address)
		switch {
		case !listed && isGone(f.Began, row.StoredAt, row.Stage.Listed()):
			gone = append(gone, row)
		case listed && !row.StoredAt.After(f.Began):
			if _, err := saveMailbox(ctx, tx, withPlatformState(row, p)); err != nil {
				return err
			}
		}
	}
	ids, released, err := unblockGone(ctx, tx, t, enforced, gone, f)
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

// withPlatformState returns the stored row with the platform's state of the mailbox.
func withPlatformState(row mailboxRow, p mailbox.Platform) mailboxRow {
	now := newMailboxRow(row.AccountID, row.mailbox().Seen(p))
	row.Stage, row.Provisioned, row.ObjectID = now.Stage, now.Provisioned, now.ObjectID
	row.DisplayName, row.PrincipalName, row.Alias, row.AccountEnabled = now.DisplayName, now.PrincipalName, now.Alias, now.AccountEnabled
	return row
}

func insertMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, found map[string]mailbox.Platform, f ports.Found) error {
	rows := make([]mailboxRow, 0, len(found))
	for address, p := range found {
		row := withPlatformState(mailboxRow{AccountID: t.AccountID, ID: newID(), TenantID: t.ID, Address: address,
			DomainName: domainOf(address), Stage: mailbox.Reserved, CreatedAt: storedTime(p.CreatedAt), StoredAt: f.Began}, p)
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

// tenantIDQuery returns a select of the tenant's id.
func tenantIDQuery(db bun.IDB, t tenantRow) *bun.SelectQuery {
	return db.NewSelect().Model((*tenantRow)(nil)).Column("id").Where("t.account_id = ?", t.AccountID).Where("t.id = ?", t.ID)
}

// unblockGone handles mailboxes that no longer exist at the platform. It returns the ids to delete,
// and an unblock event for each blocked mailbox. It makes the tenant due, so that the next pass
// removes those mailboxes from the rule. A mailbox with an intended block stays, because only a
// pass can tell whether it is blocked.
func unblockGone(ctx context.Context, tx bun.IDB, t tenantRow, state sendTenantRow, gone []mailboxRow, f ports.Found) (drop []string, released []sendlimit.Event, err error) {
	if len(gone) == 0 {
		return nil, nil, nil
	}
	unsure, err := intendedBlocks(ctx, tx, t)
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
	if released, err = unblockEvents(ctx, tx, t, state, blocked, at); err != nil {
		return nil, nil, err
	}
	return drop, released, makeDue(ctx, tx, state, at)
}

// intendedBlocks returns the tenant's mailboxes that a run intended to block.
func intendedBlocks(ctx context.Context, tx bun.IDB, t tenantRow) (map[string]bool, error) {
	var ids []string
	err := tx.NewSelect().Model((*intentRow)(nil)).Column("mailbox_id").Where("si.account_id = ?", t.AccountID).
		Where("si.tenant_id = ?", t.ID).Where("si.action = ?", string(sendlimit.Blocked)).Scan(ctx, &ids)
	all := make(map[string]bool, len(ids))
	for _, id := range ids {
		all[id] = true
	}
	return all, err
}

// unblockEvents returns an unblock event for each mailbox of blocked.
func unblockEvents(ctx context.Context, tx bun.IDB, t tenantRow, state sendTenantRow, blocked []mailboxRow, at time.Time) ([]sendlimit.Event, error) {
	guid, owner := tenant.GUID(t.GUID), access.AccountID(t.AccountID)
	timeZone, err := sendlimit.TimeZone(state.Place)
	if err != nil {
		return nil, err
	}
	reasons, err := blockReasons(ctx, tx, t.AccountID, blocked)
	if err != nil {
		return nil, err
	}
	var rows []policyRow
	if err := policiesOfTenant(tx, owner, guid, "").Scan(ctx, &rows); err != nil {
		return nil, err
	}
	limits := sendlimit.Policies{}
	for _, r := range rows {
		if r.ID != "" {
			limits[r.Scope] = r.DailySendLimit
		}
	}
	day := sendlimit.DayOf(at, timeZone)
	if at, err = eventTime(ctx, tx, t.AccountID, guid, at); err != nil {
		return nil, err
	}
	events := make([]sendlimit.Event, 0, len(blocked))
	for _, row := range blocked {
		b := row.sendBox(reasons[row.ID])
		if b.Counted = day.Has(row.SendsTodayAt); b.Counted {
			b.Sent = row.SendsToday
		}
		events = append(events, withIDAt(b.ChangeTo(sendlimit.Unblocked, guid, limits, at).Event, at))
	}
	return events, nil
}
