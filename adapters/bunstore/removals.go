// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// domainRemovalRow is the latest removal of a domain by its account. RemovalAt is the time when the
// removal began, or when RemoveDomain deleted the domain's row in the table domains. Discoveries
// ignore a domain that has a domainRemovalRow but no row in domains.
type domainRemovalRow struct {
	bun.BaseModel `bun:"table:forgotten_domains,alias:fd"`

	AccountID string    `bun:",pk"`
	TenantID  string    `bun:",pk"`
	Name      string    `bun:",pk"`
	RemovalAt time.Time `bun:"forgotten_at"`
}

// removedMailboxRow is a mailbox that was removed at RemovedAt. Until observation.ReplicaLag after
// RemovedAt, MailboxRemoved returns true for it. Discoveries that began before the end of this time
// ignore the mailbox.
type removedMailboxRow struct {
	bun.BaseModel `bun:"table:removed_mailboxes,alias:rm"`

	AccountID string `bun:",pk"`
	TenantID  string `bun:",pk"`
	ObjectID  string `bun:",pk"`
	RemovedAt time.Time
}

// DeleteTenant implements ports.Tenants.
func (s *Store) DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, storedAnswer *ports.StoredAnswer) error {
	wasHeld := false
	err := s.inTransaction(ctx, "delete tenant", func(ctx context.Context, tx bun.IDB) (err error) {
		guid := ident.ParseOrZero(string(id))
		if wasHeld, err = s.deleteTenant(ctx, tx, accountKey(owner), guid); err != nil {
			return err
		}
		_, err = tx.NewDelete().Model((*withdrawnRow)(nil)).
			Where("account_id = ?", accountKey(owner)).Where("guid = ?", guid).Exec(ctx)
		if err != nil || !wasHeld {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
	if err == nil && !wasHeld {
		return tenantNotFound()
	}
	return err
}

// deleteTenant deletes a tenant and its holderRow. Before that, it deletes the mailboxes, domains
// and policies whose deletion emits events. Foreign keys delete the other rows of the tenant.
// deleteTenant reports whether the account held the tenant. It takes its locks in the same order as
// SaveDiscovery, so that the two do not deadlock.
func (s *Store) deleteTenant(ctx context.Context, tx bun.IDB, owner, guid string) (bool, error) {
	var t tenantRow
	err := s.db.LockRowsToDelete(tx.NewSelect().Model(&t).Where("t.account_id = ?", owner).Where("t.guid = ?", guid), "t").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	rows, err := s.lockDomains(ctx, tx, t)
	if err != nil {
		return false, err
	}
	if _, err := s.lockSendState(ctx, tx, owner, tenantIDQuery(tx, t)); err != nil {
		return false, err
	}
	boxes, err := s.lockMailboxes(ctx, tx, t)
	if err != nil {
		return false, err
	}
	if err := s.deleteMailboxes(ctx, tx, owner, boxes, event.MailboxRemoved); err != nil {
		return false, err
	}
	deletion := tx.NewDelete().Where("sp.account_id = ?", owner).Where("sp.tenant_id = ?", t.ID)
	if _, err := deletePolicies(ctx, tenant.GUID(guid), deletion); err != nil {
		return false, err
	}
	if err := s.deleteDomains(ctx, tx, owner, convertAll(rows, domainRow.domain)); err != nil {
		return false, err
	}
	emitTenant(ctx, owner, change[tenant.Tenant]{before: t.tenant()})
	if _, err := tx.NewDelete().Model((*tenantRow)(nil)).Where("account_id = ?", owner).Where("id = ?", t.ID).Exec(ctx); err != nil {
		return false, err
	}
	_, err = tx.NewDelete().Model((*holderRow)(nil)).
		Where("account_id = ?", owner).Where("guid = ?", guid).Exec(ctx)
	return true, err
}

// RemovableDomain implements ports.Removals.
func (s *Store) RemovableDomain(ctx context.Context, owner access.AccountID, id tenant.GUID, name string) (domain.Domain, error) {
	var row struct {
		domainRow `bun:",extend"`

		Mailboxes int
	}
	err := s.db.RunRead(ctx, "find removable domain", func(ctx context.Context, db bun.IDB) error {
		mailboxCount := db.NewSelect().TableExpr("mailboxes AS m").ColumnExpr("count(*)").Where("m.account_id = d.account_id").
			Where("m.tenant_id = d.tenant_id").Where("m.domain_name = d.name").Where(presentMailbox)
		err := db.NewSelect().TableExpr("tenants AS t").ColumnExpr("d.*").ColumnExpr("t.guid AS tenant_guid").ColumnExpr("(?) AS mailboxes", mailboxCount).
			Join("LEFT JOIN domains AS d ON d.account_id = t.account_id AND d.tenant_id = t.id AND d.added AND d.name = ?", storedText(name)).
			Where("t.account_id = ?", accountKey(owner)).Where("t.guid = ?", ident.ParseOrZero(string(id))).Scan(ctx, &row)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return tenantNotFound()
		case err == nil && row.ID == "":
			return domainNotFound()
		case err == nil && row.Mailboxes > 0:
			return domainInUse()
		}
		return err
	})
	if err != nil {
		return domain.Domain{}, err
	}
	return row.domain(), nil
}

func domainInUse() error {
	return fault.FromStore(fault.DomainInUse.With("the domain still has mailboxes; remove them first"))
}

// BeginDomainRemoval implements ports.Removals.
func (s *Store) BeginDomainRemoval(ctx context.Context, owner access.AccountID, d domain.Domain, at time.Time) (ports.DomainRemoval, error) {
	var removal ports.DomainRemoval
	err := s.inTransaction(ctx, "begin removal of domain", func(ctx context.Context, tx bun.IDB) error {
		row, err := s.lockDomain(ctx, tx, accountKey(owner), ident.ParseOrZero(d.ID))
		if err != nil {
			return err
		}
		merged, err := s.mergeDomain(ctx, tx, owner, d)
		if err != nil {
			return err
		}
		begun := domainRemovalRow{AccountID: row.AccountID, TenantID: row.TenantID, Name: row.Name, RemovalAt: storedTime(at)}
		result, err := tx.NewInsert().Model(&begun).On("CONFLICT (account_id, tenant_id, name) DO UPDATE").
			Set("forgotten_at = EXCLUDED.forgotten_at").Where("fd.forgotten_at <= ?", storedTime(at.Add(-domain.RemovalRepeatWindow))).Exec(ctx)
		if err != nil {
			return err
		}
		storedRows, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if storedRows == 0 {
			removal = ports.DomainRemoval{Repeated: true, MayBeNew: !merged.Observed.Change.IsZero()}
			return nil
		}
		removal, merged.Observed.Change = ports.DomainRemoval{}, time.Time{}
		return saveObservations(ctx, tx, domainObservations, domainObservation(row.AccountID, merged))
	})
	return removal, err
}

// CancelDomainRemoval implements ports.Removals.
func (s *Store) CancelDomainRemoval(ctx context.Context, owner access.AccountID, d domain.Domain, at time.Time) error {
	return s.db.RunWrite(ctx, "cancel removal of domain", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewDelete().Model((*domainRemovalRow)(nil)).Where("account_id = ?", accountKey(owner)).
			Where("tenant_id = ?", ident.ParseOrZero(d.TenantID)).Where("name = ?", storedText(d.Name)).
			Where("forgotten_at = ?", storedTime(at)).Exec(ctx)
		return err
	})
}

// RemoveDomain implements ports.Removals. Like a reservation of mailboxes, it locks the domain, so
// that no mailbox is reserved during the removal. Foreign keys delete the jobs of the domain.
func (s *Store) RemoveDomain(ctx context.Context, owner access.AccountID, d domain.Domain, now time.Time, storedAnswer *ports.StoredAnswer) error {
	return s.inTransaction(ctx, "remove domain", func(ctx context.Context, tx bun.IDB) error {
		row, err := s.lockDomain(ctx, tx, accountKey(owner), ident.ParseOrZero(d.ID))
		if err != nil {
			return err
		}
		present, _, err := mailboxesOfDomain(ctx, tx, row)
		if err != nil {
			return err
		}
		if len(present) > 0 {
			return domainInUse()
		}
		if err := s.deleteDomains(ctx, tx, row.AccountID, []domain.Domain{row.domain()}); err != nil {
			return err
		}
		removal := domainRemovalRow{AccountID: row.AccountID, TenantID: row.TenantID, Name: row.Name, RemovalAt: storedTime(now)}
		_, err = tx.NewInsert().Model(&removal).On("CONFLICT (account_id, tenant_id, name) DO UPDATE").
			Set("forgotten_at = EXCLUDED.forgotten_at").Exec(ctx)
		if err != nil {
			return err
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// leaveOutRemovedDomains deletes from found the domains that have a domainRemovalRow. found must
// not contain domains that have a row in the table domains.
func leaveOutRemovedDomains(ctx context.Context, tx bun.IDB, t tenantRow, found map[string]domain.Platform) error {
	var names []string
	err := tx.NewSelect().Model((*domainRemovalRow)(nil)).Column("name").Where("fd.account_id = ?", t.AccountID).
		Where("fd.tenant_id = ?", t.ID).Scan(ctx, &names)
	for _, name := range names {
		delete(found, name)
	}
	return err
}

// RemovableMailbox implements ports.Removals.
func (s *Store) RemovableMailbox(ctx context.Context, owner access.AccountID, id tenant.GUID, mailboxID string) (mailbox.Mailbox, error) {
	return s.findMailbox(ctx, "find removable mailbox", func(db bun.IDB) *bun.SelectQuery {
		return db.NewSelect().TableExpr("tenants AS t").ColumnExpr("m.*").ColumnExpr("t.guid AS tenant_guid, t.name AS tenant_name").
			Join("LEFT JOIN mailboxes AS m ON "+mailboxOfTenant+" AND m.stage IN (?) AND m.id = ?", listedStages, ident.ParseOrZero(mailboxID)).
			Where("t.account_id = ?", accountKey(owner)).Where("t.guid = ?", ident.ParseOrZero(string(id)))
	})
}

// RemoveMailbox implements ports.Removals. Like deleteTenant, it takes its locks in the same order
// as SaveDiscovery.
func (s *Store) RemoveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox, now time.Time, storedAnswer *ports.StoredAnswer) error {
	now = storedTime(now)
	return s.inTransaction(ctx, "remove mailbox", func(ctx context.Context, tx bun.IDB) error {
		t, err := s.lockTenant(ctx, tx, accountKey(owner), ident.ParseOrZero(string(m.TenantGUID)))
		if err != nil {
			return err
		}
		state, err := s.lockSendState(ctx, tx, t.AccountID, tenantIDQuery(tx, t))
		if err != nil {
			return err
		}
		var row mailboxRow
		err = s.db.LockRows(tx.NewSelect().Model(&row).Where("m.account_id = ?", t.AccountID).
			Where("m.tenant_id = ?", t.ID).Where("m.id = ?", ident.ParseOrZero(m.ID)), "m").Scan(ctx)
		if err != nil {
			return orNotFound(err, mailboxNotFound())
		}
		row.TenantGUID = t.GUID
		if err := s.deleteOrMarkMissing(ctx, tx, t, state, row, event.MailboxRemoved, now); err != nil {
			return err
		}
		if m.ObjectID != "" {
			removed := removedMailboxRow{AccountID: t.AccountID, TenantID: t.ID, ObjectID: storedText(m.ObjectID), RemovedAt: now}
			_, err = tx.NewInsert().Model(&removed).On("CONFLICT (account_id, tenant_id, object_id) DO UPDATE").
				Set("removed_at = EXCLUDED.removed_at").Exec(ctx)
			if err != nil {
				return err
			}
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}

// MailboxRemoved implements ports.Removals.
func (s *Store) MailboxRemoved(ctx context.Context, owner access.AccountID, id tenant.GUID, objectID string, now time.Time) (removed bool, err error) {
	err = s.db.RunRead(ctx, "find removed mailbox", func(ctx context.Context, db bun.IDB) (err error) {
		removed, err = db.NewSelect().Model((*removedMailboxRow)(nil)).
			Join("JOIN tenants AS t ON t.account_id = rm.account_id AND t.id = rm.tenant_id").
			Where("rm.account_id = ?", accountKey(owner)).Where("t.guid = ?", ident.ParseOrZero(string(id))).
			Where("rm.object_id = ?", storedText(objectID)).
			Where("rm.removed_at > ?", storedTime(now.Add(-observation.ReplicaLag))).Exists(ctx)
		return err
	})
	return removed, err
}

// deleteOrMarkMissing deletes a mailbox. If the mailbox was blocked, it also records the unblock.
// If the outcome of a block is unknown, it marks the mailbox as missing instead. Only an
// enforcement pass can find out whether the platform blocks the mailbox (see unblockGone).
//
// In both cases deleteOrMarkMissing emits the same event (see emitMailbox). When a discovery later
// deletes the row of the missing mailbox, it emits no second event.
func (s *Store) deleteOrMarkMissing(ctx context.Context, tx bun.IDB, t tenantRow, state sendTenantRow, row mailboxRow, removalType event.Type, now time.Time) error {
	deletable, unblocks, err := unblockGone(ctx, tx, t, state, []mailboxRow{row}, ports.DiscoveryResult{Began: now, At: now})
	if err != nil {
		return err
	}
	if len(deletable) == 0 {
		stored, err := observations(ctx, tx, mailboxObservations, t.AccountID, row.ID)
		if err != nil {
			return err
		}
		before := stored[row.ID].ofMailbox(row.mailbox())
		emitMailbox(ctx, t.AccountID, change[mailbox.Mailbox]{before: before}, removalType)
		if removalType == event.MailboxRemoved {
			// A later mailbox with the address gets this row, and must not get its limit.
			_, err := tx.NewUpdate().Model((*mailboxRow)(nil)).Set("daily_send_limit = NULL").
				Where("account_id = ?", t.AccountID).Where("id = ?", row.ID).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return saveMailboxes(ctx, tx, t.AccountID, change[mailbox.Mailbox]{before, before.AfterRemoval(now)})
	}
	if err := s.deleteMailboxes(ctx, tx, t.AccountID, deletable, removalType); err != nil {
		return err
	}
	return recordEvents(ctx, tx, t.AccountID, unblocks)
}

// leaveOutRemovedMailboxes deletes from found the mailboxes of a tenant that were removed less than
// observation.ReplicaLag before the discovery began, or later. It also deletes the
// removedMailboxRows of earlier removals.
func leaveOutRemovedMailboxes(ctx context.Context, tx bun.IDB, t tenantRow, found map[string]mailbox.Platform, began time.Time) error {
	since := storedTime(began.Add(-observation.ReplicaLag))
	_, err := tx.NewDelete().Model((*removedMailboxRow)(nil)).Where("rm.account_id = ?", t.AccountID).
		Where("rm.tenant_id = ?", t.ID).Where("rm.removed_at <= ?", since).Exec(ctx)
	if err != nil {
		return err
	}
	var ids []string
	err = tx.NewSelect().Model((*removedMailboxRow)(nil)).Column("object_id").Where("rm.account_id = ?", t.AccountID).
		Where("rm.tenant_id = ?", t.ID).Scan(ctx, &ids)
	maps.DeleteFunc(found, func(_ string, p mailbox.Platform) bool { return slices.Contains(ids, storedText(p.ObjectID)) })
	return err
}

// RemovePolicy implements ports.Removals.
func (s *Store) RemovePolicy(ctx context.Context, claim ports.TenantClaim, policyID string, storedAnswer *ports.StoredAnswer) (bool, error) {
	return s.inTenantClaim(ctx, "remove send limit", claim, func(ctx context.Context, tx bun.IDB, state sendTenantRow) error {
		removed, err := deletePolicies(ctx, claim.Tenant, tx.NewDelete().Where("sp.account_id = ?", state.AccountID).
			Where("sp.tenant_id = ?", state.TenantID).Where("sp.id = ?", ident.ParseOrZero(policyID)).
			Where("sp.daily_send_limit IS NOT NULL"))
		if err != nil {
			return err
		}
		if removed == 0 {
			return fault.FromStore(policyNotFound())
		}
		return s.storeAnswer(ctx, tx, storedAnswer)
	})
}
