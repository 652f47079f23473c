// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"

	"github.com/uptrace/bun"
)

// sealedColumns maps each table that has encrypted data to the columns of this data. In a row that
// has encrypted data, the first of these columns is not NULL.
var sealedColumns = map[string][]string{
	"connect_flows": {"verifier"}, "idempotency_keys": {"answer"}, "dns_connections": {"credential"},
	"integrations": {"credential"}, "webhooks": {"secret", "previous_secret"},
}

// sealedPrefixLen is the number of bytes at the beginning of an encrypted value that name its key.
const sealedPrefixLen = 5

// HasSealedValues reports whether the database holds encrypted data. It skips tables that do not
// exist yet.
func HasSealedValues(ctx context.Context, db bun.IDB) (bool, error) {
	for table, columns := range sealedColumns {
		exists, err := HasTable(ctx, db, table)
		if err == nil && exists {
			err = db.NewRaw("SELECT EXISTS (SELECT 1 FROM ? WHERE ? IS NOT NULL)", bun.Ident(table), bun.Ident(columns[0])).Scan(ctx, &exists)
		}
		if err != nil || exists {
			return exists, err
		}
	}
	return false, nil
}

// SealedPrefixes returns the first bytes of the encrypted values, by table. These bytes name the
// key that encrypted the value. Equal first bytes in one column are returned once. SealedPrefixes
// reads all values, and skips tables that do not exist yet.
func SealedPrefixes(ctx context.Context, db bun.IDB) (map[string][][]byte, error) {
	prefixes := map[string][][]byte{}
	for table, columns := range sealedColumns {
		exists, err := HasTable(ctx, db, table)
		if err != nil {
			return nil, err
		}
		if !exists {
			continue
		}
		for _, column := range columns {
			var found [][]byte
			err := db.NewRaw("SELECT DISTINCT substr(?, 1, ?) FROM ? WHERE ? IS NOT NULL",
				bun.Ident(column), sealedPrefixLen, bun.Ident(table), bun.Ident(column)).Scan(ctx, &found)
			if err != nil {
				return nil, err
			}
			prefixes[table] = append(prefixes[table], found...)
		}
	}
	return prefixes, nil
}
