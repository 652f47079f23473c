// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

// actRow is a stored ports.Act: a request that changed something and whose audit entry is not
// written yet.
type actRow struct {
	bun.BaseModel `bun:"table:audit_acts,alias:aa"`

	AccountID string `bun:",pk"`
	WriteKey  []byte `bun:",pk"`
	ID        string
	Entry     json.RawMessage // see storedJSON
	StartedAt int64           // microseconds, see Store.databaseNowSQL
}

// pendingEntries holds the audit entries that a transaction has added but not stored yet, and what
// the transaction does with the act of the request.
type pendingEntries struct {
	act       *ports.Act // the act of the request, nil if ctx carries none
	entries   []audit.Entry
	endsAct   bool           // the transaction ends the act
	outcome   *audit.Outcome // the outcome of the act that ends, nil if the act gets no entry
	storesAct bool           // the transaction stores the act
}

type pendingEntriesKey struct{}

func pendingEntriesOf(ctx context.Context) *pendingEntries {
	return ctx.Value(pendingEntriesKey{}).(*pendingEntries)
}

// addEntry adds an entry to the pending entries of a transaction. inTransaction stores them in its
// last step. ctx must be the context that inTransaction passes to its function.
func addEntry(ctx context.Context, owner string, entry audit.Entry) {
	pending := pendingEntriesOf(ctx)
	entry.Account = access.AccountID(owner)
	if entry.ID == "" {
		entry.ID = newID()
	}
	if pending.act != nil {
		entry.RequestID, entry.ClientIP = pending.act.Entry.RequestID, pending.act.Entry.ClientIP
	}
	pending.entries = append(pending.entries, entry)
}

// endAct makes the transaction of ctx end the act of the request, if the request has one.
func endAct(ctx context.Context, outcome *audit.Outcome) {
	if pending := pendingEntriesOf(ctx); pending.act != nil && pending.act.Entry.Account != "" {
		pending.endsAct, pending.outcome = true, outcome
	}
}

// store ends the act of the request if endAct was called. Otherwise it stores a new act if the
// transaction changed rows. Then it stores the entries. It must be the last step of the
// transaction (see storeEvents).
func (p *pendingEntries) store(ctx context.Context, s *Store, tx bun.IDB, changed bool) error {
	var err error
	switch {
	case p.endsAct:
		err = p.endStoredAct(ctx, tx)
	case changed && p.act != nil && p.act.Entry.Account != "" && p.act.State() == ports.ActNew:
		p.storesAct, err = true, s.storeAct(ctx, tx, p.act)
	}
	if err != nil {
		return err
	}
	byOwner := map[string][]audit.Entry{}
	for _, e := range p.entries {
		byOwner[string(e.Account)] = append(byOwner[string(e.Account)], e)
	}
	for _, owner := range slices.Sorted(maps.Keys(byOwner)) {
		if err := s.appendEntries(ctx, tx, owner, byOwner[owner]); err != nil {
			return err
		}
	}
	return nil
}

// endStoredAct deletes the stored act, and adds the act's entry if the act has an outcome. It does
// nothing if the act has ended. It adds no entry if the entry is stored already, by RecordLostWrites
// or by an earlier commit whose result was lost. It adds no entry either if a later attempt has
// replaced the act.
//
// The stored act can belong to a different attempt with the same Idempotency-Key. An attempt that
// has stored its act, or that has no outcome, deletes only its own act. Any other attempt also
// deletes the act of an earlier attempt, because one entry stands for both attempts.
func (p *pendingEntries) endStoredAct(ctx context.Context, tx bun.IDB) error {
	if p.act.State() == ports.ActEnded {
		return nil
	}
	owner := accountKey(p.act.Entry.Account)
	deletion := tx.NewDelete().Model((*actRow)(nil)).Where("account_id = ?", owner).Where("write_key = ?", p.act.Write)
	if p.outcome == nil || p.act.State() == ports.ActStored {
		deletion = deletion.Where("id = ?", p.act.Entry.ID)
	}
	res, err := deletion.Exec(ctx)
	if err != nil || p.outcome == nil {
		return err
	}
	deletedRows, err := res.RowsAffected()
	if err != nil {
		return err
	}
	hasEnded := false
	switch p.act.State() {
	case ports.ActStored:
		hasEnded = deletedRows == 0
	case ports.ActUncertain:
		hasEnded, err = tx.NewSelect().Model((*entryRow)(nil)).Where("ae.account_id = ?", owner).Where("ae.id = ?", p.act.Entry.ID).Exists(ctx)
	}
	if err != nil || hasEnded {
		return err
	}
	e := p.act.Entry
	e.Outcome = *p.outcome
	p.entries = append(p.entries, e)
	return nil
}

// afterCommit updates the state of the act after the commit. committed is false if the commit
// failed. It is then unknown whether the transaction was stored.
func (p *pendingEntries) afterCommit(committed bool) {
	switch {
	case p.endsAct && committed:
		p.act.AdvanceTo(ports.ActEnded)
	case p.endsAct && p.outcome != nil:
		p.act.AdvanceTo(ports.ActUncertain)
	case p.storesAct && committed:
		p.act.AdvanceTo(ports.ActStored)
	}
}

func (s *Store) storeAct(ctx context.Context, tx bun.IDB, act *ports.Act) error {
	text, err := storedJSON(storedEntry(act.Entry))
	if err != nil {
		return err
	}
	row := actRow{AccountID: accountKey(act.Entry.Account), WriteKey: act.Write, ID: act.Entry.ID, Entry: text}
	_, err = tx.NewInsert().Model(&row).Value("started_at", "?", s.databaseNowSQL()).On("CONFLICT (account_id, write_key) DO UPDATE").
		Set("id = EXCLUDED.id").Set("entry = EXCLUDED.entry").Set("started_at = EXCLUDED.started_at").Exec(ctx)
	return err
}

// EndAct implements ports.AuditChains.
func (s *Store) EndAct(ctx context.Context, outcome *audit.Outcome) error {
	return s.inTransaction(ctx, "end act", func(ctx context.Context, _ bun.IDB) error {
		endAct(ctx, outcome)
		return nil
	})
}

// RecordLostWrites implements ports.AuditChains. It skips the act of a request that holds the lease
// on its Idempotency-Key, because the request may still run.
func (s *Store) RecordLostWrites(ctx context.Context, age time.Duration, limit int) (int, error) {
	var rows []actRow
	err := s.inTransaction(ctx, "record lost writes", func(ctx context.Context, tx bun.IDB) error {
		rows = nil
		lostActs := tx.NewSelect().Model((*actRow)(nil)).Column("account_id", "write_key").
			Where("started_at <= ? - ?", s.databaseNowSQL(), age.Microseconds()).
			Where("NOT EXISTS (SELECT 1 FROM idempotency_keys AS i WHERE i.account_id = aa.account_id AND i.key_hash = aa.write_key AND i.leased_until > ?)", s.databaseNowSQL()).
			Limit(int64(limit))
		err := tx.NewDelete().Model((*actRow)(nil)).Where("(account_id, write_key) IN (?)", lostActs).
			Where("started_at <= ? - ?", s.databaseNowSQL(), age.Microseconds()).Returning("*").Scan(ctx, &rows)
		if err != nil {
			return err
		}
		for _, row := range rows {
			var e audit.Entry
			if err := json.Unmarshal(row.Entry, &e); err != nil {
				return err
			}
			e.Outcome = audit.Unknown
			addEntry(ctx, row.AccountID, e)
		}
		return nil
	})
	return len(rows), err
}
