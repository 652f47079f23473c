// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// unfinishedGrace is how long a creation without a result counts as in progress after its last
// reservation. It is much longer than any request takes.
const unfinishedGrace = time.Hour

// SaveDiscovery implements ports.Discoveries. It compares the stored domains and mailboxes with the
// platform's lists. It locks the tenant and its domains, so that no domain is reserved meanwhile.
// Before it compares mailboxes, it also locks the enforcement state, so that no mailbox is blocked
// or unblocked meanwhile.
func (s *Store) SaveDiscovery(ctx context.Context, owner access.AccountID, id tenant.GUID, result ports.DiscoveryResult) error {
	result.Began = storedTime(result.Began)
	return s.inTransaction(ctx, "save discovery", func(ctx context.Context, tx bun.IDB) error {
		t, err := s.lockTenant(ctx, tx, accountKey(owner), ident.ParseOrZero(string(id)))
		if err != nil {
			return err
		}
		stored, err := s.lockDomains(ctx, tx, t)
		if err != nil {
			return err
		}
		storedObservations, err := observations(ctx, tx, tenantObservations, t.AccountID, t.ID)
		if err != nil {
			return err
		}
		current := storedObservations[t.ID].ofTenant(t.tenant())
		// A list that is older than the stored observation is ignored.
		if result.Domains != nil && observation.Advance(&current.Observed.Domains, result.Began) {
			if err := s.mergeDomains(ctx, tx, t, stored, result); err != nil {
				return err
			}
		}
		if result.Mailboxes != nil && observation.Advance(&current.Observed.Mailboxes, result.Began) {
			if err := s.mergeMailboxes(ctx, tx, t, result); err != nil {
				return err
			}
		}
		return saveObservations(ctx, tx, tenantObservations, tenantObservation(t.AccountID, current))
	})
}

// KnownNames implements ports.Discoveries.
func (s *Store) KnownNames(ctx context.Context, owner access.AccountID, id tenant.GUID) (domains, mailboxes []string, err error) {
	err = s.db.Snapshot(ctx, "list known names", func(ctx context.Context, tx bun.IDB) error {
		t, err := selectTenant(ctx, tx, accountKey(owner), ident.ParseOrZero(string(id)))
		if err != nil {
			return err
		}
		domains, mailboxes = nil, nil
		err = tx.NewSelect().Model((*domainRow)(nil)).Column("name").Where("d.account_id = ?", accountKey(owner)).
			Where("d.tenant_id = ?", t.ID).Order("d.name").Scan(ctx, &domains)
		if err != nil {
			return err
		}
		return tx.NewSelect().Model((*mailboxRow)(nil)).Column("address").Where("m.account_id = ?", accountKey(owner)).
			Where("m.tenant_id = ?", t.ID).Order("m.address").Scan(ctx, &mailboxes)
	})
	return domains, mailboxes, err
}

func (s *Store) lockDomains(ctx context.Context, tx bun.IDB, t tenantRow) ([]domainRow, error) {
	var rows []domainRow
	err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("d.account_id = ?", t.AccountID).
		Where("d.tenant_id = ?", t.ID).Order("d.id"), "d").Scan(ctx)
	for i := range rows {
		rows[i].TenantGUID = t.GUID
	}
	return rows, err
}

// mayBeMissed reports whether a stored row may count as missed because the platform's list lacks
// it. The list shows the platform's state at began, so a row that was stored later does not count.
// finished is false for a creation without a result, which may still be in progress. Such a row
// counts only if it was stored at least unfinishedGrace before began.
func mayBeMissed(began, storedAt time.Time, finished bool) bool {
	if !finished {
		began = began.Add(-unfinishedGrace)
	}
	return !storedAt.After(began)
}

func (s *Store) mergeDomains(ctx context.Context, tx bun.IDB, t tenantRow, rows []domainRow, result ports.DiscoveryResult) error {
	found := make(map[string]domain.Platform, len(result.Domains))
	for _, p := range result.Domains {
		found[storedText(p.Name)] = p
	}
	stored, err := domainsWithObservations(ctx, tx, t.AccountID, rows)
	if err != nil {
		return err
	}
	var changed []change[domain.Domain]
	var gone []domain.Domain
	for i, storedDomain := range stored {
		p, isListed := found[storedDomain.Name]
		delete(found, storedDomain.Name)
		switch {
		case isListed: // a domain whose creation got no answer becomes added here
			changed = append(changed, change[domain.Domain]{storedDomain, storedDomain.Merge(storedDomain.WithPlatformState(p, result.Began))})
		case result.MissedDomains[storedDomain.Name] && mayBeMissed(result.Began, rows[i].StoredAt, storedDomain.Added):
			missed, isGone := storedDomain.AfterMiss(result.Began)
			if isGone {
				gone = append(gone, storedDomain)
				continue
			}
			changed = append(changed, change[domain.Domain]{storedDomain, missed})
		}
	}
	if err := saveDomains(ctx, tx, t.AccountID, changed...); err != nil {
		return err
	}
	if err := s.deleteDomains(ctx, tx, t.AccountID, gone); err != nil {
		return err
	}
	if err := leaveOutRemovedDomains(ctx, tx, t, found); err != nil {
		return err
	}
	return insertDomains(ctx, tx, t, found, result)
}

func insertDomains(ctx context.Context, tx bun.IDB, t tenantRow, found map[string]domain.Platform, result ports.DiscoveryResult) error {
	rows := make([]domainRow, 0, len(found))
	newObservations := make([]observationRow, 0, len(found))
	for _, p := range found {
		d := domain.Domain{ID: newID(), TenantID: t.ID, TenantGUID: tenant.GUID(t.GUID), Name: p.Name, CreatedAt: result.Began}.WithPlatformState(p, result.Began)
		row := newDomainRow(t.AccountID, d)
		row.StoredAt = result.Began
		rows, newObservations = append(rows, row), append(newObservations, domainObservation(t.AccountID, d))
		emitDomain(ctx, t.AccountID, change[domain.Domain]{after: d})
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
		return err
	}
	return saveObservations(ctx, tx, domainObservations, newObservations...)
}

func (s *Store) mergeMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, result ports.DiscoveryResult) error {
	sendState, err := s.lockSendState(ctx, tx, t.AccountID, tenantIDQuery(tx, t))
	if err != nil {
		return err
	}
	rows, err := s.lockMailboxes(ctx, tx, t)
	if err != nil {
		return err
	}
	found := make(map[string]mailbox.Platform, len(result.Mailboxes))
	for _, p := range result.Mailboxes {
		found[storedText(strings.ToLower(p.Address))] = p
	}
	if err := leaveOutRemovedMailboxes(ctx, tx, t, found, result.Began); err != nil {
		return err
	}
	changed, gone, err := compareMailboxes(ctx, tx, t, rows, found, result)
	if err != nil {
		return err
	}
	if err := saveMailboxes(ctx, tx, t.AccountID, changed...); err != nil {
		return err
	}
	gone, unblocks, err := unblockGone(ctx, tx, t, sendState, gone, result)
	if err != nil {
		return err
	}
	if err := s.deleteMailboxes(ctx, tx, t.AccountID, gone, event.MailboxVanished); err != nil {
		return err
	}
	if err := insertMailboxes(ctx, tx, t, found, result); err != nil {
		return err
	}
	return recordEvents(ctx, tx, t.AccountID, unblocks)
}

func (s *Store) lockMailboxes(ctx context.Context, tx bun.IDB, t tenantRow) ([]mailboxRow, error) {
	var rows []mailboxRow
	err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("m.account_id = ?", t.AccountID).
		Where("m.tenant_id = ?", t.ID).Order("m.id"), "m").Scan(ctx)
	for i := range rows {
		rows[i].TenantGUID = t.GUID
	}
	return rows, err
}

// compareMailboxes returns the stored mailboxes that the discovery changes, and the rows of the
// mailboxes that no longer exist. It removes the stored mailboxes from found, so that only new
// mailboxes remain there.
func compareMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, rows []mailboxRow, found map[string]mailbox.Platform, result ports.DiscoveryResult) (changed []change[mailbox.Mailbox], gone []mailboxRow, err error) {
	ids := convertAll(rows, func(r mailboxRow) string { return r.ID })
	stored, err := observations(ctx, tx, mailboxObservations, t.AccountID, ids...)
	if err != nil {
		return nil, nil, err
	}
	for _, row := range rows {
		p, isListed := found[row.Address]
		delete(found, row.Address)
		m := stored[row.ID].ofMailbox(row.mailbox())
		switch {
		case isListed && !row.StoredAt.After(result.Began):
			changed = append(changed, change[mailbox.Mailbox]{m, m.Merge(m.WithPlatformState(p, result.Began))})
		case !isListed && result.MissedMailboxes[row.Address] && mayBeMissed(result.Began, row.StoredAt, row.Stage.IsListed()):
			missed, isGone := m.AfterMiss(result.Began)
			// The changes include a mailbox that is gone, because unblockGone keeps its row if a
			// block is intended.
			changed = append(changed, change[mailbox.Mailbox]{m, missed})
			if isGone {
				gone = append(gone, row)
			}
		}
	}
	return changed, gone, nil
}

func insertMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, found map[string]mailbox.Platform, result ports.DiscoveryResult) error {
	rows := make([]mailboxRow, 0, len(found))
	newObservations := make([]observationRow, 0, len(found))
	for address, p := range found {
		m := mailbox.Mailbox{ID: newID(), TenantGUID: tenant.GUID(t.GUID), Stage: mailbox.Reserved, Address: address}.WithPlatformState(p, result.Began)
		row := newMailboxRow(t.AccountID, m)
		row.TenantID, row.Address, row.DomainName = t.ID, address, domainOf(address)
		row.CreatedAt, row.StoredAt = storedTime(p.CreatedAt), result.Began
		if p.CreatedAt.IsZero() {
			row.CreatedAt = result.Began
		}
		rows, newObservations = append(rows, row), append(newObservations, mailboxObservation(t.AccountID, m))
		emitMailbox(ctx, t.AccountID, change[mailbox.Mailbox]{after: m}, event.MailboxVanished)
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
		return err
	}
	return saveObservations(ctx, tx, mailboxObservations, newObservations...)
}

func tenantIDQuery(db bun.IDB, t tenantRow) *bun.SelectQuery {
	return db.NewSelect().Model((*tenantRow)(nil)).Column("id").Where("t.account_id = ?", t.AccountID).Where("t.id = ?", t.ID)
}

// unblockGone handles gone, the mailboxes that no longer exist at the platform. It returns the rows
// that can be deleted, and an unblock event for each of these mailboxes that is blocked. If there
// is an unblock event, unblockGone makes the tenant due, so that the next enforcement pass removes
// the mailbox from its transport rule. A mailbox keeps its row if it is not stored as blocked, but
// has a block of unknown outcome (an intent, see SaveIntents). Only an enforcement pass can find
// out whether such a mailbox is blocked.
func unblockGone(ctx context.Context, tx bun.IDB, t tenantRow, state sendTenantRow, gone []mailboxRow, result ports.DiscoveryResult) (deletable []mailboxRow, unblocks []sendlimit.Event, err error) {
	if len(gone) == 0 {
		return nil, nil, nil
	}
	intended, err := intendedBlocks(ctx, tx, t)
	if err != nil {
		return nil, nil, err
	}
	var blocked []mailboxRow
	for _, row := range gone {
		if intended[row.ID] && row.BlockedAt.IsZero() {
			continue
		}
		deletable = append(deletable, row)
		if !row.BlockedAt.IsZero() {
			blocked = append(blocked, row)
		}
	}
	if len(blocked) == 0 {
		return deletable, nil, nil
	}
	at := result.At
	if at.Before(result.Began) {
		at = result.Began
	}
	if unblocks, err = unblockEvents(ctx, tx, t, state, blocked, at); err != nil {
		return nil, nil, err
	}
	return deletable, unblocks, makeDue(ctx, tx, state, at)
}

// intendedBlocks returns the ids of the mailboxes with an intended block, whose outcome is not
// known.
func intendedBlocks(ctx context.Context, tx bun.IDB, t tenantRow) (map[string]bool, error) {
	var ids []string
	err := tx.NewSelect().Model((*intentRow)(nil)).Column("mailbox_id").Where("si.account_id = ?", t.AccountID).
		Where("si.tenant_id = ?", t.ID).Where("si.action = ?", string(sendlimit.Blocked)).Scan(ctx, &ids)
	return setOf(ids), err
}

// unblockEvents returns an enforcement event for the unblock of each blocked mailbox. It also emits
// the unblocks to the account's event log.
func unblockEvents(ctx context.Context, tx bun.IDB, t tenantRow, state sendTenantRow, blocked []mailboxRow, at time.Time) ([]sendlimit.Event, error) {
	guid, owner := tenant.GUID(t.GUID), access.AccountID(t.AccountID)
	timeZone, err := sendlimit.TimeZone(state.TimeZone)
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
		box := row.sendState(reasons[row.ID])
		if box.Counted = day.Contains(row.SendsTodayAt); box.Counted {
			box.Sent = row.SendsToday
		}
		e := withIDAt(box.ChangeTo(sendlimit.Unblocked, guid, limits, at).Event, at)
		events = append(events, e)
		emit(ctx, t.AccountID, event.OfBlock(row.ID, e))
	}
	return events, nil
}
