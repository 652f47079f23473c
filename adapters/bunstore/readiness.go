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

	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/tenant"
)

// readinessRow is the readiness of a tenant that readers of the log know. Its lock serialises the
// transactions that change what the readiness is derived from.
type readinessRow struct {
	bun.BaseModel `bun:"table:tenant_readiness,alias:tr"`

	AccountID string          `bun:",pk"`
	TenantID  string          `bun:",pk"`
	Readiness json.RawMessage `bun:"type:jsonb"`
}

// tenantKey names a tenant of an account.
type tenantKey struct{ owner, guid string }

// checkReadiness makes the transaction compare the readiness of a tenant with the one that readers
// know, after its last change.
func checkReadiness(ctx context.Context, owner string, id tenant.GUID) {
	pending := ctx.Value(pendingEventsKey{}).(*pendingEvents)
	if pending.tenants == nil {
		pending.tenants = map[tenantKey]bool{}
	}
	pending.tenants[tenantKey{owner, ident.Lookup(string(id))}] = true
}

// emitReadiness emits the new readiness of the tenants for which checkReadiness was called. It takes
// the locks in the order of the tenants.
func (s *Store) emitReadiness(ctx context.Context, tx bun.IDB, p *pendingEvents) error {
	keys := slices.SortedFunc(maps.Keys(p.tenants), func(a, b tenantKey) int {
		return cmp.Or(cmp.Compare(a.owner, b.owner), cmp.Compare(a.guid, b.guid))
	})
	for _, key := range keys {
		if err := s.compareReadiness(ctx, tx, key); err != nil && !errors.Is(err, fault.TenantNotFound) {
			return err // a deleted tenant has no readiness
		}
	}
	return nil
}

// compareReadiness reads the tenant after it has the lock, so that it sees what the transaction
// before it has changed.
func (s *Store) compareReadiness(ctx context.Context, tx bun.IDB, key tenantKey) error {
	known, err := s.lockReadiness(ctx, tx, key)
	if err != nil {
		return err
	}
	t, err := selectTenant(ctx, tx, key.owner, key.guid)
	if err != nil {
		return err
	}
	now := event.OfReadiness(t.GUID, t.Readiness(s.requireSMTPAuth))
	var before event.ReadinessData
	if err := json.Unmarshal(known.Readiness, &before); err != nil {
		return err
	}
	if reflect.DeepEqual(before, now.Data) {
		return nil
	}
	if known.Readiness, err = json.Marshal(now.Data); err != nil {
		return err
	}
	if _, err := tx.NewUpdate().Model(&known).Column("readiness").WherePK().Exec(ctx); err != nil {
		return err
	}
	if !connects(ctx, key) { // tenant.connected is news enough
		emit(ctx, key.owner, now)
	}
	return nil
}

// connects reports whether the transaction connects the tenant.
func connects(ctx context.Context, key tenantKey) bool {
	pending := ctx.Value(pendingEventsKey{}).(*pendingEvents)
	return slices.ContainsFunc(pending.all, func(e event.Event) bool {
		return e.Type == event.TenantConnected && string(e.Account) == key.owner && e.Subject.ID == key.guid
	})
}

// lockReadiness returns the row of a tenant. A tenant of an earlier release has none yet, and gets
// one that differs from every readiness.
func (s *Store) lockReadiness(ctx context.Context, tx bun.IDB, key tenantKey) (readinessRow, error) {
	var row readinessRow
	lock := func() error {
		return s.db.LockRows(tx.NewSelect().Model(&row).Where("tr.account_id = ?", key.owner).
			Where("tr.tenant_id = "+tenantOfRun, key.owner, key.guid), "tr").Scan(ctx)
	}
	err := lock()
	if !errors.Is(err, sql.ErrNoRows) {
		return row, err
	}
	t, err := selectTenant(ctx, tx, key.owner, key.guid)
	if err != nil {
		return row, err
	}
	first := readinessRow{AccountID: key.owner, TenantID: t.ID, Readiness: json.RawMessage("{}")}
	if _, err := tx.NewInsert().Model(&first).On("CONFLICT (account_id, tenant_id) DO NOTHING").Exec(ctx); err != nil {
		return row, err
	}
	return row, lock()
}
