// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// change is an object before and after a transaction changes it. The zero value stands for an object
// that is not stored.
type change[T any] struct{ before, after T }

// emitTenant adds the events of a change of a tenant to the transaction.
func emitTenant(ctx context.Context, owner string, c change[tenant.Tenant]) {
	emit(ctx, owner, event.OfTenant(c.before, c.after)...)
	if c.after.GUID != "" {
		checkReadiness(ctx, owner, c.after.GUID)
	}
}

// emitDomain adds the events of a change of a domain to the transaction.
func emitDomain(ctx context.Context, owner string, c change[domain.Domain]) {
	emit(ctx, owner, event.OfDomain(c.before, c.after)...)
	checkReadiness(ctx, owner, cmp.Or(c.after.TenantGUID, c.before.TenantGUID))
}

// emitMailbox adds the events of a change of a mailbox to the transaction. See event.OfMailbox for
// gone.
func emitMailbox(ctx context.Context, owner string, c change[mailbox.Mailbox], gone event.Type) {
	emit(ctx, owner, event.OfMailbox(c.before, c.after, gone)...)
	checkReadiness(ctx, owner, cmp.Or(c.after.TenantGUID, c.before.TenantGUID))
}

// emitIntegration adds the events of a change of an integration to the transaction.
func emitIntegration(ctx context.Context, owner string, c change[integration.Integration]) {
	emit(ctx, owner, event.OfIntegration(c.before, c.after)...)
}

// emitPolicy adds the events of a change of a policy to the transaction.
func emitPolicy(ctx context.Context, owner string, c change[sendlimit.Policy]) {
	emit(ctx, owner, event.OfPolicy(c.before, c.after)...)
}

// emitKey adds the events of a change of an API key to the transaction.
func emitKey(ctx context.Context, owner string, c change[access.Key]) {
	emit(ctx, owner, event.OfKey(c.before, c.after)...)
}

// emitJob adds the events of a change of a provisioning job to the transaction.
func emitJob(ctx context.Context, owner string, c change[provisioning.Job]) {
	emit(ctx, owner, event.OfJob(c.before, c.after)...)
}

// emitConnections adds the events of changed connections to the transaction. It reads their tenants
// only if there is an event. So it runs before the rows of the mailboxes are deleted.
func emitConnections(ctx context.Context, tx bun.IDB, owner string, all []change[connectionRow]) error {
	eventsOf := func(c change[connectionRow], id tenant.GUID) []event.Event {
		return event.OfConnection(id, c.before.connection(), c.after.connection())
	}
	all = slices.DeleteFunc(slices.Clone(all), func(c change[connectionRow]) bool { return len(eventsOf(c, "")) == 0 })
	mailboxOf := func(c change[connectionRow]) string { return cmp.Or(c.after.MailboxID, c.before.MailboxID) }
	for chunk := range slices.Chunk(all, batchSize) {
		var rows []mailboxRow
		if err := tx.NewSelect().Model(&rows).ColumnExpr("m.id, t.guid AS tenant_guid").Join("JOIN "+tenantOfMailbox).
			Where("m.account_id = ?", owner).Where("m.id IN (?)", bun.List(each(chunk, mailboxOf))).Scan(ctx); err != nil {
			return err
		}
		tenants := map[string]tenant.GUID{}
		for _, m := range rows {
			tenants[m.ID] = tenant.GUID(m.TenantGUID)
		}
		for _, c := range chunk {
			emit(ctx, owner, eventsOf(c, tenants[mailboxOf(c)])...)
		}
	}
	return nil
}

// lockConnections returns the stored connections of mailboxes to an integration, by mailbox.
func (s *Store) lockConnections(ctx context.Context, tx bun.IDB, owner, integrationID string, mailboxIDs ...string) (map[string]connectionRow, error) {
	all := make(map[string]connectionRow, len(mailboxIDs))
	for chunk := range slices.Chunk(mailboxIDs, batchSize) {
		var rows []connectionRow
		if err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("mc.account_id = ?", owner).Where("mc.integration_id = ?", integrationID).
			Where("mc.mailbox_id IN (?)", bun.List(chunk)).Order("mc.mailbox_id"), "mc").Scan(ctx); err != nil {
			return nil, err
		}
		for _, row := range rows {
			all[row.MailboxID] = row
		}
	}
	return all, nil
}

// emitEnded adds the events of the connections that the caller is about to delete with their
// mailboxes or their integrations. column names the ids of these.
func (s *Store) emitEnded(ctx context.Context, tx bun.IDB, owner, column string, ids []string) error {
	for chunk := range slices.Chunk(ids, batchSize) {
		var rows []connectionRow
		if err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("mc.account_id = ?", owner).Where("mc.? IN (?)", bun.Ident(column), bun.List(chunk)).
			Order("mc.mailbox_id", "mc.integration_id"), "mc").Scan(ctx); err != nil {
			return err
		}
		ended := each(rows, func(row connectionRow) change[connectionRow] { return change[connectionRow]{before: row} })
		if err := emitConnections(ctx, tx, owner, ended); err != nil {
			return err
		}
	}
	return nil
}

// changingRuns runs a change that can end jobs of these runs, and emits the runs that it completes.
// The lock serialises the last jobs of a run.
func (s *Store) changingRuns(ctx context.Context, tx bun.IDB, owner string, runs []string, change func() error) error {
	if len(runs) == 0 {
		return change()
	}
	var rows []dnsRunRow
	if err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("dr.account_id = ?", owner).Where("dr.id IN (?)", bun.List(runs)).Order("dr.id"), "dr").Scan(ctx); err != nil {
		return err
	}
	before, err := jobsOfRuns(ctx, tx, owner, runs...)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	after, err := jobsOfRuns(ctx, tx, owner, runs...)
	if err != nil {
		return err
	}
	for _, row := range rows {
		emit(ctx, owner, event.OfRun(row.run(nil), before[row.ID], after[row.ID])...)
	}
	return nil
}

// activeRuns returns the runs that have an active job of one of these domains.
func activeRuns(ctx context.Context, tx bun.IDB, owner string, domainIDs []string) (runs []string, err error) {
	if len(domainIDs) == 0 {
		return nil, nil
	}
	err = tx.NewSelect().Model((*dnsJobRow)(nil)).Distinct().Column("run_id").Where("dj.account_id = ?", owner).
		Where("dj.domain_id IN (?)", bun.List(domainIDs)).Where(activeJob).Scan(ctx, &runs)
	return runs, err
}

// deleteDomains deletes domains that are locked, with all that belongs to them.
func (s *Store) deleteDomains(ctx context.Context, tx bun.IDB, owner string, gone []domain.Domain) error {
	if len(gone) == 0 {
		return nil
	}
	ids := each(gone, func(d domain.Domain) string { return d.ID })
	runs, err := activeRuns(ctx, tx, owner, ids)
	if err != nil {
		return err
	}
	for _, d := range gone {
		emitDomain(ctx, owner, change[domain.Domain]{before: d})
	}
	return s.changingRuns(ctx, tx, owner, runs, func() error {
		_, err := tx.NewDelete().Model((*domainRow)(nil)).Where("account_id = ?", owner).Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
}

// deleteMailboxes deletes mailboxes that are locked, with all that belongs to them. See
// event.OfMailbox for the type of their events.
func (s *Store) deleteMailboxes(ctx context.Context, tx bun.IDB, owner string, gone []mailboxRow, kind event.Type) error {
	if len(gone) == 0 {
		return nil
	}
	ids := each(gone, func(row mailboxRow) string { return row.ID })
	if err := s.emitEnded(ctx, tx, owner, "mailbox_id", ids); err != nil {
		return err
	}
	for _, row := range gone {
		emitMailbox(ctx, owner, change[mailbox.Mailbox]{before: row.mailbox()}, kind)
	}
	for chunk := range slices.Chunk(ids, batchSize) {
		if _, err := tx.NewDelete().Model((*mailboxRow)(nil)).Where("account_id = ?", owner).Where("id IN (?)", bun.List(chunk)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}
