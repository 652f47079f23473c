// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"
)

// lockSending locks where the enforcement of a tenant stands, before anything
// below it is changed: runs do so in the same order. A tenant that never had a
// run has no row, and is due as it is.
func (s *Store) lockSending(ctx context.Context, tx bun.IDB, owner string, of *bun.SelectQuery) (st sendTenantRow, err error) {
	err = s.locked(tx.NewSelect().Model(&st).Where("st.account_id = ?", owner).Where("st.tenant_id = (?)", of), "st").Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return sendTenantRow{}, nil
	}
	return st, err
}

// hasten makes a tenant due at now, if it is not. A run that is under way may
// have read what changes, so it finds the tenant due from before it was claimed,
// which tells ReleaseTenant to leave that.
func hasten(ctx context.Context, tx bun.IDB, st sendTenantRow, now time.Time) error {
	due := micro(now)
	if due.After(st.DueAt) {
		due = st.DueAt
	}
	if st.LeasedUntil > 0 {
		due = due.Add(-time.Microsecond)
	}
	if st.TenantID == "" || due.Equal(st.DueAt) {
		return nil
	}
	_, err := tx.NewUpdate().Model((*sendTenantRow)(nil)).Set("due_at = ?", micro(due)).
		Where("st.account_id = ?", st.AccountID).Where("st.tenant_id = ?", st.TenantID).Exec(ctx)
	return err
}
