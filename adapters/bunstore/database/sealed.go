// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"

	"github.com/uptrace/bun"
)

// sealedColumns maps each table with data that is encrypted with the keyset to a column of this
// data. If a row has such data, the column is not NULL.
var sealedColumns = map[string]string{
	"connect_flows": "verifier", "idempotency_keys": "answer", "dns_connections": "credential",
	"integrations": "credential", "webhooks": "secret",
}

// HasSealedValues reports whether the database holds data encrypted with a keyset. Without that
// keyset the data cannot be read. HasSealedValues skips tables that do not exist yet.
func HasSealedValues(ctx context.Context, db bun.IDB) (bool, error) {
	for table, column := range sealedColumns {
		exists, err := HasTable(ctx, db, table)
		if err == nil && exists {
			err = db.NewRaw("SELECT EXISTS (SELECT 1 FROM ? WHERE ? IS NOT NULL)", bun.Ident(table), bun.Ident(column)).Scan(ctx, &exists)
		}
		if err != nil || exists {
			return exists, err
		}
	}
	return false, nil
}
