// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

type auditRow struct {
	bun.BaseModel `bun:"table:audit_events,alias:e"`

	AccountID string `bun:",pk"` // ident.Zero if the event is not about an account
	ID        string `bun:",pk"`
	Action    string
	Operator  string
	Details   map[string]string `bun:"type:jsonb"`
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
	return s.db.Run(ctx, "record act", func(ctx context.Context, db bun.IDB) error {
		return s.recordAudit(ctx, db, action, ident.Zero, details)
	})
}

// recordAudit records an audit event in the transaction of its change. An event about an account is
// also an entry in the account's chain. The event's time is the machine's clock, not the time of the
// change.
func (s *Store) recordAudit(ctx context.Context, tx bun.IDB, action audit.Action, owner string, details map[string]string) error {
	row := auditRow{
		AccountID: owner, ID: newID(), Action: storedText(string(action)), Operator: s.operator,
		Details: map[string]string{}, CreatedAt: storedTime(time.Now()),
	}
	for name, value := range details {
		row.Details[storedText(name)] = storedText(value)
	}
	if owner != ident.Zero {
		enter(ctx, owner, chainEntry(row))
	}
	_, err := tx.NewInsert().Model(&row).Exec(ctx)
	return err
}

// chainEntry returns the entry of an operator's act for the chain of the account. The customer sees
// the object of the act but not its other details.
func chainEntry(row auditRow) audit.Entry {
	e := audit.Entry{
		ID: row.ID, Actor: audit.Actor{Type: audit.Operator, ID: row.Operator, Name: row.Operator},
		Action: audit.Action(row.Action), Tenant: tenant.GUID(row.Details["tenant_id"]), Outcome: audit.Done,
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
	err := s.db.Run(ctx, "list acts", func(ctx context.Context, db bun.IDB) error {
		rows = nil
		query := db.NewSelect().Model(&rows).Where("e.created_at >= ?", storedTime(q.Since))
		if q.Account != "" {
			query = query.Where("e.account_id = ?", accountKey(q.Account))
		}
		return query.OrderExpr("e.created_at DESC, e.id DESC").Limit(int64(q.Limit)).Scan(ctx)
	})
	events := make([]audit.Event, 0, len(rows))
	for _, r := range rows {
		events = append(events, r.event())
	}
	return events, err
}

// KeepsAudit reports whether the database has the audit table. A database that was never migrated
// lacks it.
func (s *Store) KeepsAudit(ctx context.Context) (bool, error) {
	var exists bool
	err := s.db.Run(ctx, "look for the audit", func(ctx context.Context, db bun.IDB) (err error) {
		exists, err = database.HasTable(ctx, db, "audit_events")
		return err
	})
	return exists, err
}
