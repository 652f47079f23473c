// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// auditRow is an event of the operators' own log.
type auditRow struct {
	bun.BaseModel `bun:"table:audit_events,alias:e"`

	AccountID string `bun:",pk"` // ident.Zero if the event is not about an account
	ID        string `bun:",pk"`
	Action    string
	Operator  string
	Details   storedDetails `bun:"type:jsonb"`
	CreatedAt time.Time
}

func (r auditRow) event() audit.Event {
	e := audit.Event{ID: r.ID, At: r.CreatedAt.UTC(), Operator: r.Operator, Action: audit.Action(r.Action), Details: r.Details}
	if r.AccountID != ident.Zero {
		e.Account = access.AccountID(r.AccountID)
	}
	return e
}

// RecordAction implements ports.Audit.
func (s *Store) RecordAction(ctx context.Context, action audit.Action, details map[string]string) error {
	return s.db.RunWrite(ctx, "record action", func(ctx context.Context, db bun.IDB) error {
		return s.recordAudit(ctx, db, action, ident.Zero, details)
	})
}

// recordAudit adds an event to the operators' audit log, in the transaction of the audited change
// if one exists. If the event is about an account, it also adds an entry to the account's chain.
// ctx must then be the context that inTransaction passes to its function. The time of the event is
// read from this machine's clock, even if the change stores a different time.
func (s *Store) recordAudit(ctx context.Context, tx bun.IDB, action audit.Action, owner string, details map[string]string) error {
	row := auditRow{
		AccountID: owner, ID: newID(), Action: storedText(string(action)), Operator: s.operator,
		Details: storedDetails{}, CreatedAt: storedTime(time.Now()),
	}
	for name, value := range details {
		row.Details[storedText(name)] = storedText(value)
	}
	if owner != ident.Zero {
		addEntry(ctx, owner, chainEntry(row))
	}
	_, err := tx.NewInsert().Model(&row).Exec(ctx)
	return err
}

// chainEntry returns the entry of an operator's action for the chain of the account. The customer
// sees on which object the operator acted, but no other details.
func chainEntry(row auditRow) audit.Entry {
	e := audit.Entry{
		ID: row.ID, Actor: audit.Actor{Type: audit.Operator, ID: row.Operator, Name: row.Operator},
		Action: audit.Action(row.Action), Tenant: tenant.GUID(row.Details["tenant_id"]), Outcome: audit.Succeeded,
		Subject: audit.Subject{Type: "account", ID: row.AccountID},
	}
	for _, object := range []audit.Subject{
		{Type: string(event.Tenant), ID: row.Details["tenant_id"]},
		{Type: string(event.Key), ID: row.Details["key_id"]},
		{Type: "dns_connection", ID: row.Details["connection_id"]},
		{Type: string(event.DNSRun), ID: row.Details["run_id"]},
	} {
		if object.ID != "" {
			e.Subject = object
		}
	}
	return e
}

// AuditEvents implements ports.Audit.
func (s *Store) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	var rows []auditRow
	err := s.db.RunRead(ctx, "list audit events", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		query := db.NewSelect().Model(&rows).Where("e.created_at >= ?", storedTime(q.Since))
		if q.Account != "" {
			query = query.Where("e.account_id = ?", accountKey(q.Account))
		}
		return query.OrderExpr("e.created_at DESC, e.id DESC").Limit(int64(q.Limit)).Scan(ctx)
	})
	return convertAll(rows, auditRow.event), err
}

// HasAuditTable reports whether the database has the table of the audit log. A database that was
// never migrated does not have the table.
func (s *Store) HasAuditTable(ctx context.Context) (bool, error) {
	var exists bool
	err := s.db.RunRead(ctx, "find the audit table", func(ctx context.Context, db bun.IDB) (err error) {
		exists, err = database.HasTable(ctx, db, "audit_events")
		return err
	})
	return exists, err
}

// entryRow is an entry in the audit chain of an account.
type entryRow struct {
	bun.BaseModel `bun:"table:audit_entries,alias:ae"`

	AccountID    string `bun:",pk"`
	Sequence     int64  `bun:",pk"`
	ID           string
	ActorType    string
	ActorID      string
	ActorName    string
	Action       string
	TenantGUID   string `bun:"tenant_guid"` // ident.Zero if the entry concerns no tenant
	SubjectType  string
	SubjectID    string
	Status       int
	Code         string
	RequestID    string
	ClientIP     string `bun:"client_ip"`
	PreviousHash string
	Hash         string
	CreatedAt    time.Time
}

func newEntryRow(owner string, e audit.Entry) entryRow {
	return entryRow{
		AccountID: owner, Sequence: e.Sequence, ID: e.ID, ActorType: string(e.Actor.Type), ActorID: e.Actor.ID, ActorName: e.Actor.Name,
		Action: string(e.Action), TenantGUID: ident.ParseOrZero(string(e.Tenant)), SubjectType: e.Subject.Type, SubjectID: e.Subject.ID,
		Status: e.Outcome.Status, Code: e.Outcome.Code, RequestID: e.RequestID, ClientIP: e.ClientIP,
		PreviousHash: e.PreviousHash, Hash: e.Hash, CreatedAt: e.At,
	}
}

func (r entryRow) entry() audit.Entry {
	e := audit.Entry{
		ID: r.ID, Account: access.AccountID(r.AccountID), Sequence: r.Sequence, At: r.CreatedAt.UTC(),
		Actor:  audit.Actor{Type: audit.ActorType(r.ActorType), ID: r.ActorID, Name: r.ActorName},
		Action: audit.Action(r.Action), Subject: audit.Subject{Type: r.SubjectType, ID: r.SubjectID},
		Outcome: audit.Outcome{Status: r.Status, Code: r.Code}, RequestID: r.RequestID, ClientIP: r.ClientIP,
		PreviousHash: r.PreviousHash, Hash: r.Hash,
	}
	if r.TenantGUID != ident.Zero {
		e.Tenant = tenant.GUID(r.TenantGUID)
	}
	return e
}

// chainRow has the sequence number and the hash of the last entry of an account's audit chain, and
// the sequence number of the last dropped entry. Transactions that add entries lock this row, so
// they commit one after another.
type chainRow struct {
	bun.BaseModel `bun:"table:audit_chains,alias:ac"`

	AccountID       string `bun:",pk"`
	LastSequence    int64
	LastHash        string
	DroppedSequence int64
}

// storedEntry returns e as it is read back from the database. The hash of an entry must cover these
// values. The entry has no tenant if its tenant is the zero UUID or is not a UUID.
func storedEntry(e audit.Entry) audit.Entry {
	if e.Tenant = tenant.GUID(ident.ParseOrZero(string(e.Tenant))); e.Tenant == ident.Zero {
		e.Tenant = ""
	}
	for _, text := range []*string{&e.Actor.ID, &e.Actor.Name, (*string)(&e.Action), &e.Subject.Type, &e.Subject.ID, &e.Outcome.Code, &e.RequestID, &e.ClientIP} {
		*text = storedText(*text)
	}
	return e
}

// appendEntries appends entries to the chain of an account, and locks its chainRow until the
// commit.
func (s *Store) appendEntries(ctx context.Context, tx bun.IDB, owner string, entries []audit.Entry) error {
	for i := range entries {
		if err := setTenantOfSubject(ctx, tx, owner, &entries[i]); err != nil {
			return err
		}
	}
	chain := chainRow{AccountID: owner, LastSequence: int64(len(entries)), LastHash: audit.Anchor}
	_, err := tx.NewInsert().Model(&chain).On("CONFLICT (account_id) DO UPDATE").
		Set("last_sequence = ac.last_sequence + EXCLUDED.last_sequence").Returning("last_sequence, last_hash").Exec(ctx)
	if err != nil {
		return err
	}
	sequence, now := chain.LastSequence-int64(len(entries)), storedTime(s.now())
	rows := make([]entryRow, 0, len(entries))
	for _, e := range entries {
		e = storedEntry(e)
		e.At = now
		if e, err = e.Link(sequence, chain.LastHash); err != nil {
			return err
		}
		sequence, chain.LastHash = e.Sequence, e.Hash
		rows = append(rows, newEntryRow(owner, e))
	}
	if _, err := tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
		return err
	}
	_, err = tx.NewUpdate().Model((*chainRow)(nil)).Set("last_hash = ?", chain.LastHash).Where("ac.account_id = ?", owner).Exec(ctx)
	return err
}

// tenantQueries select the GUID of the tenant to which a subject belongs. They are keyed by the
// subject's type, and are for API operations whose URL does not contain the tenant.
var tenantQueries = map[string]string{
	string(event.Domain):  "SELECT t.guid FROM domains AS d JOIN tenants AS t ON t.account_id = d.account_id AND t.id = d.tenant_id WHERE d.account_id = ? AND d.id = ?",
	string(event.Mailbox): "SELECT t.guid FROM mailboxes AS m JOIN tenants AS t ON t.account_id = m.account_id AND t.id = m.tenant_id WHERE m.account_id = ? AND m.id = ?",
	string(event.DNSJob): "SELECT t.guid FROM dns_jobs AS dj JOIN domains AS d ON d.account_id = dj.account_id AND d.id = dj.domain_id " +
		"JOIN tenants AS t ON t.account_id = d.account_id AND t.id = d.tenant_id WHERE dj.account_id = ? AND dj.id = ?",
}

// setTenantOfSubject sets the tenant of an entry without a tenant, if one of tenantQueries finds
// it.
func setTenantOfSubject(ctx context.Context, tx bun.IDB, owner string, e *audit.Entry) error {
	query := tenantQueries[e.Subject.Type]
	if e.Tenant != "" || query == "" {
		return nil
	}
	var found []string
	if err := tx.NewRaw(query, owner, ident.ParseOrZero(e.Subject.ID)).Scan(ctx, &found); err != nil {
		return err
	}
	if len(found) > 0 {
		e.Tenant = tenant.GUID(found[0])
	}
	return nil
}

// AuditEntries implements ports.AuditChains.
func (s *Store) AuditEntries(ctx context.Context, owner access.AccountID, wanted ports.EntryQuery) (ports.EntryPage, error) {
	var rows []entryRow
	err := s.db.Snapshot(ctx, "list audit entries", func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		query := tx.NewSelect().Model(&rows).Where("ae.account_id = ?", accountKey(owner)).OrderExpr("ae.sequence DESC").Limit(int64(wanted.Limit) + 1)
		if wanted.Before > 0 {
			var chain chainRow
			err := tx.NewSelect().Model(&chain).Where("ac.account_id = ?", accountKey(owner)).Scan(ctx)
			switch {
			case err != nil && !errors.Is(err, sql.ErrNoRows):
				return err
			case wanted.Before > chain.LastSequence:
				return cursorAfterEnd("the audit")
			case wanted.Before <= chain.DroppedSequence:
				return fault.CursorExpired.With("the entries after this cursor are no longer stored")
			}
			query = query.Where("ae.sequence < ?", wanted.Before)
		}
		return whereEntries(query, wanted).Scan(ctx)
	})
	page := ports.EntryPage{More: len(rows) > wanted.Limit}
	for _, r := range rows[:min(len(rows), wanted.Limit)] {
		page.Entries = append(page.Entries, r.entry())
	}
	return page, err
}

func whereEntries(query *bun.SelectQuery, wanted ports.EntryQuery) *bun.SelectQuery {
	if wanted.Actor != "" {
		query = query.Where("(ae.actor_id = ? OR ae.actor_name = ? OR ae.actor_type = ?)", storedText(wanted.Actor), storedText(wanted.Actor), storedText(wanted.Actor))
	}
	if wanted.Action != "" {
		query = query.Where("ae.action = ?", storedText(wanted.Action))
	}
	if len(wanted.Tenants) > 0 {
		query = whereIn(query, "ae.tenant_guid", storedGUIDs(wanted.Tenants)).
			Where("ae.tenant_guid <> ?", ident.Zero)
	}
	if !wanted.From.IsZero() {
		query = query.Where("ae.created_at >= ?", storedTime(wanted.From))
	}
	if !wanted.To.IsZero() {
		query = query.Where("ae.created_at < ?", storedTime(wanted.To))
	}
	return query
}

// AuditExport implements ports.AuditChains.
func (s *Store) AuditExport(ctx context.Context, owner access.AccountID, after int64, limit int) ([]audit.Entry, error) {
	var rows []entryRow
	err := s.db.RunRead(ctx, "export audit entries", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("ae.account_id = ?", accountKey(owner)).Where("ae.sequence > ?", after).
			Order("ae.sequence").Limit(int64(limit)).Scan(ctx)
	})
	return convertAll(rows, entryRow.entry), err
}

// DropAuditEntries implements ports.AuditChains. It locks the chain before it deletes entries. A
// concurrent call waits, and then does not find the deleted entries.
func (s *Store) DropAuditEntries(ctx context.Context, before time.Time, limit int) (int, error) {
	var chains []chainRow
	err := s.db.RunRead(ctx, "find old audit entries", func(ctx context.Context, db bun.IDB) error {
		chains = nil
		return db.NewSelect().Model(&chains).Join("JOIN audit_entries AS ae ON ae.account_id = ac.account_id AND ae.sequence = ac.dropped_sequence + 1").
			Where("ae.created_at < ?", storedTime(before)).Limit(1).Scan(ctx)
	})
	if err != nil || len(chains) == 0 {
		return 0, err
	}
	var dropped int
	err = s.inTransaction(ctx, "drop audit entries", func(ctx context.Context, tx bun.IDB) (err error) {
		dropped, err = s.dropEntries(ctx, tx, chains[0].AccountID, before, limit)
		return err
	})
	return dropped, err
}

func (s *Store) dropEntries(ctx context.Context, tx bun.IDB, owner string, before time.Time, limit int) (int, error) {
	var chain chainRow
	if err := s.db.LockRows(tx.NewSelect().Model(&chain).Where("ac.account_id = ?", owner), "ac").Scan(ctx); err != nil {
		return 0, err
	}
	var oldest []entryRow
	err := tx.NewSelect().Model(&oldest).Column("sequence", "hash", "created_at").Where("ae.account_id = ?", owner).
		Where("ae.sequence > ?", chain.DroppedSequence).Order("ae.sequence").Limit(int64(limit)).Scan(ctx)
	if err != nil {
		return 0, err
	}
	oldCount := slices.IndexFunc(oldest, func(r entryRow) bool { return !r.CreatedAt.Before(storedTime(before)) })
	if oldCount < 0 {
		oldCount = len(oldest)
	}
	if oldCount == 0 {
		return 0, nil
	}
	last := oldest[oldCount-1]
	if _, err := tx.NewDelete().Model((*entryRow)(nil)).Where("account_id = ?", owner).Where("sequence <= ?", last.Sequence).Exec(ctx); err != nil {
		return 0, err
	}
	_, err = tx.NewUpdate().Model((*chainRow)(nil)).Set("dropped_sequence = ?", last.Sequence).Where("ac.account_id = ?", owner).Exec(ctx)
	if err != nil {
		return 0, err
	}
	addEntry(ctx, owner, audit.Entry{
		Actor: audit.Actor{Type: audit.Service, ID: "retention", Name: "tenantry"}, Action: audit.DropEntries,
		Subject: audit.Subject{Type: audit.EntryHash, ID: last.Hash}, Outcome: audit.Succeeded,
	})
	return oldCount, nil
}
