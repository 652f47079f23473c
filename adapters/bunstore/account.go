// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/core/access"
)

// Account implements ports.Keys.
func (s *Store) Account(ctx context.Context, id access.AccountID) (access.Account, error) {
	var row accountRow
	err := s.run(ctx, "load account", func(ctx context.Context, db bun.IDB) error {
		return oneAccount(accountColumns(db.NewSelect().Model(&row)).Where("a.account_id = ?", account(id)).Scan(ctx))
	})
	if err != nil {
		return access.Account{}, err
	}
	return row.account(), nil
}
