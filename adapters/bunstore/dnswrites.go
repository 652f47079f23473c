// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/provisioning"
	"github.com/tenantry/tenantry/ports"
)

// dnsWriteRow is a value that tenantry wrote into a zone. Replaced is the value that it replaced,
// or empty.
type dnsWriteRow struct {
	bun.BaseModel `bun:"table:dns_writes,alias:dw"`

	AccountID  string `bun:",pk"`
	DomainID   string `bun:",pk"`
	Purpose    string `bun:",pk"`
	Name       string `bun:",pk"`
	RecordType string `bun:",pk"`
	ValueHash  []byte `bun:",pk"`
	Value      []byte
	Replaced   []byte
	WrittenAt  time.Time
}

func newDNSWriteRow(owner, domainID string, w dns.Written, now time.Time) dnsWriteRow {
	hash := sha256.Sum256([]byte(w.Value))
	return dnsWriteRow{
		AccountID: owner, DomainID: domainID, Purpose: storedText(string(w.Purpose)), Name: storedText(w.Name), RecordType: storedText(string(w.Type)),
		ValueHash: hash[:], Value: []byte(w.Value), Replaced: []byte(w.Replaced), WrittenAt: now,
	}
}

func (r dnsWriteRow) hasSameKey(other dnsWriteRow) bool {
	return r.Purpose == other.Purpose && r.Name == other.Name && r.RecordType == other.RecordType && string(r.ValueHash) == string(other.ValueHash)
}

// Written implements ports.DNSWrites.
func (s *Store) Written(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Written, error) {
	var rows []dnsWriteRow
	err := s.db.RunRead(ctx, "list DNS writes", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("dw.account_id = ?", accountKey(owner)).Where("dw.domain_id = ?", ident.ParseOrZero(domainID)).
			Order("dw.written_at", "dw.purpose", "dw.name", "dw.record_type", "dw.value_hash").Scan(ctx)
	})
	return convertAll(rows, func(r dnsWriteRow) dns.Written {
		return dns.Written{Purpose: dns.Purpose(r.Purpose), Name: r.Name, Type: dns.Type(r.RecordType), Value: string(r.Value), Replaced: string(r.Replaced)}
	}), err
}

// The states of a dnsChangeRow.
const (
	changeIntended = "intended"
	changeMade     = "made"
	changeUndone   = "undone"
)

// dnsChangeRow is a request to a DNS provider that changes a zone. Renaming a JSON field of Changes
// or Written requires a migration.
type dnsChangeRow struct {
	bun.BaseModel `bun:"table:dns_changes,alias:ch"`

	AccountID  string `bun:",pk"`
	ID         string `bun:",pk"`
	DomainID   string
	RunID      string
	Zone       string
	State      string
	Changes    []storedChange  `bun:"type:jsonb"`
	Written    []storedWritten `bun:"type:jsonb"`
	IntendedAt time.Time
}

type storedChange struct {
	Name          string
	Type          dns.Type
	Before, After storedSet
}

// storedSet holds the values as bytes, because JSON changes a text that is not UTF-8.
type storedSet struct {
	TTL    int
	Values [][]byte
	Veiled bool `json:",omitempty"`
}

type storedWritten struct {
	Purpose         dns.Purpose
	Name            string
	Type            dns.Type
	Value, Replaced []byte
}

func newDNSChangeRow(owner string, w dns.Write) dnsChangeRow {
	row := dnsChangeRow{
		AccountID: owner, ID: newID(), DomainID: ident.ParseOrZero(w.DomainID), RunID: ident.ParseOrZero(w.RunID), Zone: storedText(w.Zone),
		State: changeIntended, Changes: []storedChange{}, Written: []storedWritten{}, IntendedAt: storedTime(w.At),
	}
	for _, c := range w.Changes {
		row.Changes = append(row.Changes, storedChange{c.After.Name, c.After.Type, newStoredSet(c.Before), newStoredSet(c.After)})
	}
	for _, v := range w.Written {
		row.Written = append(row.Written, storedWritten{v.Purpose, v.Name, v.Type, []byte(v.Value), []byte(v.Replaced)})
	}
	return row
}

func newStoredSet(s dns.RRSet) storedSet {
	set := storedSet{TTL: s.TTL, Values: [][]byte{}, Veiled: s.Veiled}
	for _, value := range s.Values {
		set.Values = append(set.Values, []byte(value))
	}
	return set
}

func (r dnsChangeRow) write() dns.Write {
	w := dns.Write{ID: r.ID, DomainID: r.DomainID, RunID: r.RunID, Zone: r.Zone, Written: r.written(),
		At: r.IntendedAt.UTC(), Confirmed: r.State == changeMade}
	for _, c := range r.Changes {
		w.Changes = append(w.Changes, dns.Change{Before: c.Before.set(c.Name, c.Type), After: c.After.set(c.Name, c.Type)})
	}
	return w
}

func (r dnsChangeRow) written() (values []dns.Written) {
	for _, v := range r.Written {
		values = append(values, dns.Written{Purpose: v.Purpose, Name: v.Name, Type: v.Type, Value: string(v.Value), Replaced: string(v.Replaced)})
	}
	return values
}

func (s storedSet) set(name string, typ dns.Type) dns.RRSet {
	set := dns.RRSet{Name: name, Type: typ, TTL: s.TTL, Veiled: s.Veiled}
	for _, value := range s.Values {
		set.Values = append(set.Values, string(value))
	}
	return set
}

// IntendWrite implements ports.DNSWrites.
func (s *Store) IntendWrite(ctx context.Context, owner access.AccountID, w dns.Write) (string, error) {
	row := newDNSChangeRow(accountKey(owner), w)
	err := s.db.RunWrite(ctx, "intend DNS write", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewInsert().Model(&row).Exec(ctx)
		return err
	})
	if errors.Is(err, database.ErrMissingParent) {
		return "", domainNotFound()
	}
	return row.ID, err
}

// OpenWrites implements ports.DNSWrites.
func (s *Store) OpenWrites(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Write, error) {
	var rows []dnsChangeRow
	err := s.db.RunRead(ctx, "list open DNS writes", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		return db.NewSelect().Model(&rows).Where("ch.account_id = ?", accountKey(owner)).Where("ch.domain_id = ?", ident.ParseOrZero(domainID)).
			Where("ch.state = ?", changeIntended).Order("ch.intended_at", "ch.id").Scan(ctx)
	})
	return convertAll(rows, dnsChangeRow.write), err
}

// ConfirmWrite implements ports.DNSWrites.
func (s *Store) ConfirmWrite(ctx context.Context, owner access.AccountID, id string) error {
	return s.inTransaction(ctx, "confirm DNS write", func(ctx context.Context, tx bun.IDB) error {
		var row dnsChangeRow
		err := tx.NewUpdate().Model(&row).Set("state = ?", changeMade).Where("ch.account_id = ?", accountKey(owner)).
			Where("ch.id = ?", ident.ParseOrZero(id)).Where("ch.state = ?", changeIntended).Returning("*").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // the write is confirmed or undone already, or was deleted
		}
		if err != nil {
			return err
		}
		return saveWritten(ctx, tx, row)
	})
}

// saveWritten stores the values of a write as managed by tenantry.
func saveWritten(ctx context.Context, tx bun.IDB, change dnsChangeRow) error {
	var rows []dnsWriteRow
	now := storedTime(time.Now())
	for _, w := range change.written() {
		row := newDNSWriteRow(change.AccountID, change.DomainID, w, now)
		// One INSERT must not contain the same key twice. The last record with a key is kept.
		rows = append(slices.DeleteFunc(rows, row.hasSameKey), row)
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).
		On("CONFLICT (account_id, domain_id, purpose, name, record_type, value_hash) DO UPDATE").
		Set("replaced = EXCLUDED.replaced").Set("written_at = EXCLUDED.written_at").Exec(ctx)
	return err
}

// DropWrite implements ports.DNSWrites.
func (s *Store) DropWrite(ctx context.Context, owner access.AccountID, id string) error {
	return s.db.RunWrite(ctx, "drop DNS write", func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewDelete().Model((*dnsChangeRow)(nil)).Where("ch.account_id = ?", accountKey(owner)).
			Where("ch.id = ?", ident.ParseOrZero(id)).Where("ch.state = ?", changeIntended).Exec(ctx)
		return err
	})
}

// RunWrites implements ports.DNSUndo.
func (s *Store) RunWrites(ctx context.Context, runID string) (access.AccountID, []dns.Write, error) {
	var run dnsRunRow
	err := s.db.RunRead(ctx, "find provisioning run of any account", func(ctx context.Context, db bun.IDB) error {
		return db.NewSelect().Model(&run).Where("dr.id = ?", ident.ParseOrZero(runID)).Scan(ctx)
	})
	if err != nil {
		return "", nil, orNotFound(err, fault.FromStore(fault.RunNotFound.With("there is no provisioning run with this id")))
	}
	var writes []dns.Write
	err = s.db.RunRead(ctx, "list DNS writes of a run", func(ctx context.Context, db bun.IDB) error {
		writes, err = writesOfRun(ctx, db, run.AccountID, run.ID)
		return err
	})
	return access.AccountID(run.AccountID), writes, err
}

func writesOfRun(ctx context.Context, db bun.IDB, owner, runID string) ([]dns.Write, error) {
	var rows []dnsChangeRow
	err := db.NewSelect().Model(&rows).Where("ch.account_id = ?", owner).Where("ch.run_id = ?", runID).
		Where("ch.state <> ?", changeUndone).Order("ch.intended_at", "ch.id").Scan(ctx)
	return convertAll(rows, dnsChangeRow.write), err
}

// BeginUndo implements ports.DNSUndo.
func (s *Store) BeginUndo(ctx context.Context, owner access.AccountID, runID string, now time.Time) ([]dns.Write, error) {
	var writes []dns.Write
	account, run := accountKey(owner), ident.ParseOrZero(runID)
	err := s.inTransaction(ctx, "begin undo of a run", func(ctx context.Context, tx bun.IDB) (err error) {
		if writes, err = writesOfRun(ctx, tx, account, run); err != nil {
			return err
		}
		for _, w := range writes {
			stop := func() error { return s.stopJob(ctx, tx, account, run, w.DomainID, now) }
			if err := s.changeAndEmitRuns(ctx, tx, account, []string{run}, stop); err != nil {
				return err
			}
		}
		// The writes are read again, because a job may have added some before it was stopped.
		if writes, err = writesOfRun(ctx, tx, account, run); err != nil {
			return err
		}
		for _, w := range writes {
			if err := forgetWritten(ctx, tx, account, w); err != nil {
				return err
			}
		}
		return nil
	})
	return writes, err
}

// stopJob ends the active job of one domain of a run. It fails with
// domain_provisioning_already_active if a worker is executing the job, or if the job belongs to a
// different run.
func (s *Store) stopJob(ctx context.Context, tx bun.IDB, owner, runID, domainID string, now time.Time) error {
	var active dnsJobRow
	whereActiveJobOfDomain := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("dj.account_id = ?", owner).Where("dj.domain_id = ?", domainID).Where(activeJob)
	}
	err := s.db.LockRows(whereActiveJobOfDomain(tx.NewSelect().Model(&active)), "dj").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	isLeased, err := whereActiveJobOfDomain(tx.NewSelect().Model((*dnsJobRow)(nil))).Where("dj.leased_until > ?", s.databaseNowSQL()).Exists(ctx)
	switch {
	case err != nil:
		return err
	case active.RunID != runID:
		return fault.JobActive.With("the domain %s has an active job of a different run; undo the run after that job has ended", active.DomainName)
	case isLeased:
		return fault.JobActive.With("a worker is executing the job of the domain %s; try again in a minute", active.DomainName)
	}
	_, err = saveJob(ctx, tx, change[provisioning.Job]{active.job(), provisioning.Stop(active.job(), storedTime(now))})
	return err
}

// forgetWritten deletes the dnsWriteRows of a write, whose values then no longer count as managed
// by tenantry.
func forgetWritten(ctx context.Context, tx bun.IDB, owner string, w dns.Write) error {
	for _, value := range w.Written {
		row := newDNSWriteRow(owner, ident.ParseOrZero(w.DomainID), value, time.Time{})
		if _, err := tx.NewDelete().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// FinishUndo implements ports.DNSUndo.
func (s *Store) FinishUndo(ctx context.Context, owner access.AccountID, runID string, writes []dns.Write, result ports.UndoCounts) error {
	return s.inTransaction(ctx, "finish undo of a run", func(ctx context.Context, tx bun.IDB) error {
		for _, w := range writes {
			_, err := tx.NewUpdate().Model((*dnsChangeRow)(nil)).Set("state = ?", changeUndone).
				Where("ch.account_id = ?", accountKey(owner)).Where("ch.id = ?", ident.ParseOrZero(w.ID)).Exec(ctx)
			if err != nil {
				return err
			}
		}
		return s.recordAudit(ctx, tx, audit.UndoDNS, accountKey(owner), map[string]string{
			"run_id": runID, "put_back": strconv.Itoa(result.Restored), "left_alone": strconv.Itoa(result.Kept),
		})
	})
}
