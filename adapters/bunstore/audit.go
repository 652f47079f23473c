// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/ports"
)

type eventRow struct {
	bun.BaseModel `bun:"table:audit_events,alias:e"`

	AccountID string `bun:",pk"` // ident.Zero: none
	ID        string `bun:",pk"`
	Action    string
	Operator  string
	Details   map[string]string `bun:"type:jsonb"`
	CreatedAt time.Time
}

func (r eventRow) event() audit.Event {
	e := audit.Event{ID: r.ID, At: r.CreatedAt.UTC(), Operator: r.Operator, Action: audit.Action(r.Action), Details: r.Details}
	if r.AccountID != ident.Zero {
		e.Account = access.AccountID(r.AccountID)
	}
	return e
}

// RecordAct implements ports.Audit.
func (s *Store) RecordAct(ctx context.Context, action audit.Action, details map[string]string) error {
	return s.run(ctx, "record act", func(ctx context.Context, db bun.IDB) error {
		return s.record(ctx, db, action, ident.Zero, details)
	})
}

// record writes down an act, in the transaction that acts. Its time is the
// machine's own, whatever the act itself is dated.
func (s *Store) record(ctx context.Context, tx bun.IDB, action audit.Action, owner string, details map[string]string) error {
	row := eventRow{
		AccountID: owner, ID: newID(), Action: text(string(action)), Operator: s.operator,
		Details: map[string]string{}, CreatedAt: micro(time.Now()),
	}
	for name, value := range details {
		row.Details[text(name)] = text(value)
	}
	_, err := tx.NewInsert().Model(&row).Exec(ctx)
	return err
}

// AuditEvents implements ports.Audit.
func (s *Store) AuditEvents(ctx context.Context, q ports.AuditQuery) ([]audit.Event, error) {
	var rows []eventRow
	err := s.run(ctx, "list acts", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		query := db.NewSelect().Model(&rows).Where("e.created_at >= ?", micro(q.Since))
		if q.Account != "" {
			query = query.Where("e.account_id = ?", account(q.Account))
		}
		return query.OrderExpr("e.created_at DESC, e.id DESC").Limit(int64(q.Limit)).Scan(ctx)
	})
	events := make([]audit.Event, 0, len(rows))
	for _, r := range rows {
		events = append(events, r.event())
	}
	return events, err
}

// KeepsAudit reports whether the database has this release's table of acts,
// which one that was never migrated lacks.
func (s *Store) KeepsAudit(ctx context.Context) (bool, error) {
	var there bool
	err := s.run(ctx, "look for the audit", func(ctx context.Context, db bun.IDB) (err error) {
		there, err = s.hasTable(ctx, db, "audit_events")
		return err
	})
	return there, err
}
