// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// SeizeTenant implements ports.SendRuns.
func (s *Store) SeizeTenant(ctx context.Context, owner access.AccountID, id tenant.GUID, lease time.Duration) (ports.SendRun, bool, error) {
	guid := ident.Lookup(string(id))
	var row sendTenantRow
	err := s.atomically(ctx, "seize tenant", func(ctx context.Context, tx bun.IDB) error {
		var id string
		var since time.Time
		err := enforceable(tx.NewSelect()).ColumnExpr("t.id, t.consented_at").
			Where("t.account_id = ?", account(owner)).Where("t.guid = ?", guid).Scan(ctx, &id, &since)
		if err != nil {
			return err
		}
		row = sendTenantRow{AccountID: account(owner), TenantID: id, Place: sendlimit.UsualPlace, DueAt: micro(since), Epoch: 1}
		return tx.NewInsert().Model(&row).Value("leased_until", "? + ?", s.clock(), lease.Microseconds()).
			On("CONFLICT (account_id, tenant_id) DO UPDATE").Set("epoch = st.epoch + 1").Set("leased_until = EXCLUDED.leased_until").
			Returning("*").Scan(ctx)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return ports.SendRun{}, false, nil
	}
	return row.run(guid), err == nil, err
}
