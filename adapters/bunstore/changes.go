// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
)

// change is an object before and after a transaction changes it. If before or after is zero, the
// object is not stored at that time.
type change[T any] struct{ before, after T }

// emitTenant and the other emit functions below add the events of a changed object to the
// transaction.
func emitTenant(ctx context.Context, owner string, c change[tenant.Tenant]) {
	emit(ctx, owner, event.OfTenant(c.before, c.after)...)
	if c.after.GUID != "" {
		registerForReadiness(ctx, owner, c.after.GUID)
	}
}

func emitDomain(ctx context.Context, owner string, c change[domain.Domain]) {
	emit(ctx, owner, event.OfDomain(c.before, c.after)...)
	if before, after := domainCountsOf(c.before), domainCountsOf(c.after); !after.isListed || before != after {
		registerForReadiness(ctx, owner, cmp.Or(c.after.TenantGUID, c.before.TenantGUID))
	}
}

// domainCounts says in which counts of tenantQuery a domain is included. The readiness of a tenant
// depends on its domains only through these counts, which most changes of a domain do not affect.
type domainCounts struct{ isListed, isVerified, isSigned, isPublished bool }

func domainCountsOf(d domain.Domain) domainCounts {
	if !d.Added || !d.MissingSince.IsZero() {
		return domainCounts{}
	}
	return domainCounts{isListed: true, isVerified: d.Verified, isSigned: d.DKIMEnabled, isPublished: d.Status.VerificationSeen && !d.Verified}
}

// emitMailbox emits the events of a changed mailbox. If the mailbox is deleted, removalType is the
// type of the event (see event.OfMailbox).
func emitMailbox(ctx context.Context, owner string, c change[mailbox.Mailbox], removalType event.Type) {
	emit(ctx, owner, event.OfMailbox(c.before, c.after, removalType)...)
	registerForReadiness(ctx, owner, cmp.Or(c.after.TenantGUID, c.before.TenantGUID))
}

func emitIntegration(ctx context.Context, owner string, c change[integration.Integration]) {
	emit(ctx, owner, event.OfIntegration(c.before, c.after)...)
}

func emitPolicy(ctx context.Context, owner string, c change[sendlimit.Policy]) {
	emit(ctx, owner, event.OfPolicy(c.before, c.after)...)
}

func emitKey(ctx context.Context, owner string, c change[access.Key]) {
	emit(ctx, owner, event.OfKey(c.before, c.after)...)
}

func emitJob(ctx context.Context, owner string, c change[provisioning.Job]) {
	emit(ctx, owner, event.OfJob(c.before, c.after)...)
}

// emitConnections adds the events of changed connections to the transaction. It finds the tenants
// through the rows of the mailboxes, so it must run before these rows are deleted. It makes no
// query if no connection has an event.
func emitConnections(ctx context.Context, tx bun.IDB, owner string, connections []change[connectionRow]) error {
	eventsOf := func(c change[connectionRow], id tenant.GUID) []event.Event {
		return event.OfConnection(id, c.before.connection(), c.after.connection())
	}
	connections = slices.DeleteFunc(slices.Clone(connections), func(c change[connectionRow]) bool { return len(eventsOf(c, "")) == 0 })
	mailboxOf := func(c change[connectionRow]) string { return cmp.Or(c.after.MailboxID, c.before.MailboxID) }
	for chunk := range slices.Chunk(connections, batchSize) {
		var rows []mailboxRow
		if err := tx.NewSelect().Model(&rows).ColumnExpr("m.id, t.guid AS tenant_guid").Join("JOIN "+tenantOfMailbox).
			Where("m.account_id = ?", owner).Where("m.id IN (?)", bun.List(convertAll(chunk, mailboxOf))).Scan(ctx); err != nil {
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

// lockConnections locks and returns the connections of mailboxes to an integration, keyed by
// mailbox id.
func (s *Store) lockConnections(ctx context.Context, tx bun.IDB, owner, integrationID string, mailboxIDs ...string) (map[string]connectionRow, error) {
	byMailbox := make(map[string]connectionRow, len(mailboxIDs))
	for chunk := range slices.Chunk(mailboxIDs, batchSize) {
		var rows []connectionRow
		if err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("mc.account_id = ?", owner).Where("mc.integration_id = ?", integrationID).
			Where("mc.mailbox_id IN (?)", bun.List(chunk)).Order("mc.mailbox_id"), "mc").Scan(ctx); err != nil {
			return nil, err
		}
		for _, row := range rows {
			byMailbox[row.MailboxID] = row
		}
	}
	return byMailbox, nil
}

// emitEndedConnections adds the events of connections that the caller is about to delete with their
// mailboxes or integrations. ids are the ids of these mailboxes or integrations. column is the
// column of mailbox_connections that contains these ids.
func (s *Store) emitEndedConnections(ctx context.Context, tx bun.IDB, owner, column string, ids []string) error {
	for chunk := range slices.Chunk(ids, batchSize) {
		var rows []connectionRow
		if err := s.db.LockRows(tx.NewSelect().Model(&rows).Where("mc.account_id = ?", owner).Where("mc.? IN (?)", bun.Ident(column), bun.List(chunk)).
			Order("mc.mailbox_id", "mc.integration_id"), "mc").Scan(ctx); err != nil {
			return err
		}
		ended := convertAll(rows, func(row connectionRow) change[connectionRow] { return change[connectionRow]{before: row} })
		if err := emitConnections(ctx, tx, owner, ended); err != nil {
			return err
		}
	}
	return nil
}

// changeAndEmitRuns locks the runs and calls change, which can end or delete jobs of the runs. It
// then emits an event for each run that still has jobs and whose last active job has ended. Without
// the lock, two transactions could end the last two jobs of a run at the same time. Each would
// still see the job of the other transaction as active, and neither would emit the event.
func (s *Store) changeAndEmitRuns(ctx context.Context, tx bun.IDB, owner string, runs []string, change func() error) error {
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

func jobsOfRuns(ctx context.Context, db bun.IDB, owner string, runs ...string) (map[string][]provisioning.Job, error) {
	var rows []dnsJobRow
	err := db.NewSelect().Model(&rows).Where("dj.account_id = ?", owner).Where("dj.run_id IN (?)", bun.List(runs)).
		Order("dj.domain_name", "dj.id").Scan(ctx)
	byRun := map[string][]provisioning.Job{}
	for _, r := range rows {
		byRun[r.RunID] = append(byRun[r.RunID], r.job())
	}
	return byRun, err
}

// activeRuns returns the runs that have an active job for one of these domains.
func activeRuns(ctx context.Context, tx bun.IDB, owner string, domainIDs []string) (runs []string, err error) {
	if len(domainIDs) == 0 {
		return nil, nil
	}
	err = tx.NewSelect().Model((*dnsJobRow)(nil)).Distinct().Column("run_id").Where("dj.account_id = ?", owner).
		Where("dj.domain_id IN (?)", bun.List(domainIDs)).Where(activeJob).Scan(ctx, &runs)
	return runs, err
}

// deleteDomains deletes locked domains of one tenant. Foreign keys delete the rows that belong to
// them, such as jobs. deleteDomains also locks the tenant's enforcement state.
func (s *Store) deleteDomains(ctx context.Context, tx bun.IDB, owner string, domains []domain.Domain) error {
	if len(domains) == 0 {
		return nil
	}
	ids := convertAll(domains, func(d domain.Domain) string { return d.ID })
	runs, err := activeRuns(ctx, tx, owner, ids)
	if err != nil {
		return err
	}
	if _, err := s.lockSendState(ctx, tx, owner, tenantIDQuery(tx, tenantRow{AccountID: owner, ID: domains[0].TenantID})); err != nil {
		return err
	}
	if err := s.emitEndedPolicies(ctx, tx, owner, domains[0].TenantGUID, ids); err != nil {
		return err
	}
	for _, d := range domains {
		emitDomain(ctx, owner, change[domain.Domain]{before: d})
	}
	return s.changeAndEmitRuns(ctx, tx, owner, runs, func() error {
		_, err := tx.NewDelete().Model((*domainRow)(nil)).Where("account_id = ?", owner).Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
}

// deleteMailboxes deletes locked mailboxes. Foreign keys delete the rows that belong to them.
// deleteMailboxes first waits for the transactions that are adding connections of these mailboxes
// (see lockToConnect). removalType is the type of the mailboxes' events, as in emitMailbox.
func (s *Store) deleteMailboxes(ctx context.Context, tx bun.IDB, owner string, mailboxes []mailboxRow, removalType event.Type) error {
	if len(mailboxes) == 0 {
		return nil
	}
	ids := convertAll(mailboxes, func(row mailboxRow) string { return row.ID })
	for chunk := range slices.Chunk(ids, batchSize) {
		q := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id = ?", owner).Where("m.id IN (?)", bun.List(chunk)).Order("m.id")
		if _, err := s.db.LockRowsToDelete(q, "m").Exec(ctx); err != nil {
			return err
		}
	}
	if err := s.emitEndedConnections(ctx, tx, owner, "mailbox_id", ids); err != nil {
		return err
	}
	for _, row := range mailboxes {
		emitMailbox(ctx, owner, change[mailbox.Mailbox]{before: row.mailbox()}, removalType)
	}
	for chunk := range slices.Chunk(ids, batchSize) {
		if _, err := tx.NewDelete().Model((*mailboxRow)(nil)).Where("account_id = ?", owner).Where("id IN (?)", bun.List(chunk)).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readinessRow is the readiness that the event log last reported for a tenant. A transaction that
// can change the readiness locks this row at its end, so such transactions commit one after
// another.
type readinessRow struct {
	bun.BaseModel `bun:"table:tenant_readiness,alias:tr"`

	AccountID string          `bun:",pk"`
	TenantID  string          `bun:",pk"`
	Readiness json.RawMessage // see storedJSON
}

type tenantKey struct{ owner, guid string }

// registerForReadiness registers a tenant for emitReadiness, which compares the tenant's readiness
// with its readinessRow after the last change of the transaction.
func registerForReadiness(ctx context.Context, owner string, id tenant.GUID) {
	pending := ctx.Value(pendingEventsKey{}).(*pendingEvents)
	if pending.tenants == nil {
		pending.tenants = map[tenantKey]bool{}
	}
	pending.tenants[tenantKey{owner, ident.ParseOrZero(string(id))}] = true
}

// emitReadiness calls compareReadiness for each tenant that registerForReadiness registered. It
// does so in the order of the tenants, so that transactions that lock several readinessRows do not
// deadlock.
func (s *Store) emitReadiness(ctx context.Context, tx bun.IDB, p *pendingEvents) error {
	keys := slices.SortedFunc(maps.Keys(p.tenants), func(a, b tenantKey) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.guid, b.guid))
	})
	for _, key := range keys {
		// A deleted tenant has no readiness.
		if err := s.compareReadiness(ctx, tx, key); err != nil && !errors.Is(err, fault.TenantNotFound) {
			return err
		}
	}
	return nil
}

// compareReadiness emits the readiness of a tenant if it differs from the tenant's readinessRow. It
// locks that row before it reads the tenant. It therefore sees the changes of the transaction that
// held the lock before.
func (s *Store) compareReadiness(ctx context.Context, tx bun.IDB, key tenantKey) error {
	stored, err := s.lockReadiness(ctx, tx, key)
	if err != nil {
		return err
	}
	t, err := selectTenant(ctx, tx, key.owner, key.guid)
	if err != nil {
		return err
	}
	readinessEvent := event.OfReadiness(t.GUID, t.Readiness(s.requireSMTPAuth))
	var before event.ReadinessData
	if err := json.Unmarshal(stored.Readiness, &before); err != nil {
		return err
	}
	if reflect.DeepEqual(before, readinessEvent.Data) {
		return nil
	}
	if stored.Readiness, err = storedJSON(readinessEvent.Data); err != nil {
		return err
	}
	if _, err := tx.NewUpdate().Model(&stored).Column("readiness").WherePK().Exec(ctx); err != nil {
		return err
	}
	if !connectsTenant(ctx, key) { // the event tenant.connected shows the readiness already
		emit(ctx, key.owner, readinessEvent)
	}
	return nil
}

func connectsTenant(ctx context.Context, key tenantKey) bool {
	pending := ctx.Value(pendingEventsKey{}).(*pendingEvents)
	return slices.ContainsFunc(pending.events, func(e event.Event) bool {
		return e.Type == event.TenantConnected && string(e.Account) == key.owner && e.Subject.ID == key.guid
	})
}

// lockReadiness locks and returns the readinessRow of a tenant. A tenant that is new, or that an
// earlier release stored, has no row. lockReadiness then inserts a row that differs from every
// readiness.
func (s *Store) lockReadiness(ctx context.Context, tx bun.IDB, key tenantKey) (readinessRow, error) {
	var row readinessRow
	lock := func() error {
		return s.db.LockRows(tx.NewSelect().Model(&row).Where("tr.account_id = ?", key.owner).
			Where("tr.tenant_id = "+tenantByGUID, key.owner, key.guid), "tr").Scan(ctx)
	}
	err := lock()
	if !errors.Is(err, sql.ErrNoRows) {
		return row, err
	}
	t, err := selectTenant(ctx, tx, key.owner, key.guid)
	if err != nil {
		return row, err
	}
	initial := readinessRow{AccountID: key.owner, TenantID: t.ID, Readiness: json.RawMessage("{}")}
	if _, err := tx.NewInsert().Model(&initial).On("CONFLICT (account_id, tenant_id) DO NOTHING").Exec(ctx); err != nil {
		return row, err
	}
	err = lock()
	return row, err
}
