// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"

	"github.com/uptrace/bun"
)

// sealedIn are the columns that hold what a keyset sealed, by table.
var sealedIn = map[string]string{
	"connect_flows": "verifier", "idempotency_keys": "answer", "dns_connections": "credential",
	"integrations": "credential",
}

// HoldsSealed reports whether there is anything in the database that a keyset
// sealed. Without that keyset it cannot be read again.
func (s *Store) HoldsSealed(ctx context.Context) (bool, error) {
	for table, column := range sealedIn {
		var holds bool
		query := "SELECT EXISTS (SELECT 1 FROM ? WHERE ? IS NOT NULL)"
		if err := s.db.NewRaw(query, bun.Ident(table), bun.Ident(column)).Scan(ctx, &holds); err != nil {
			return false, translate(ctx, err)
		}
		if holds {
			return true, nil
		}
	}
	return false, nil
}
