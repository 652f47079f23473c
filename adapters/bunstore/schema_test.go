// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/core/access"
)

func execSQL(t testing.TB, s *Store, statement string, args ...any) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// TestPlansAreSeeded checks that the plans in core match the plans in the database.
func TestPlansAreSeeded(t *testing.T) {
	s := migratedStore(t, MemoryURL)
	var rows []struct {
		Name         string
		TenantSlots  int
		AutomaticDNS bool `bun:"automatic_dns"`
	}
	must(t, "list plans", s.db.NewSelect().TableExpr("plans").Scan(t.Context(), &rows))
	var plans []access.Plan
	for _, r := range rows {
		plans = append(plans, access.Plan(r))
	}
	for _, want := range access.Plans() {
		if !slices.Contains(plans, want) {
			t.Errorf("plan %+v is not in the database: %+v", want, plans)
		}
	}
	if len(plans) != len(access.Plans()) {
		t.Errorf("the database has %d plans, but core has %d", len(plans), len(access.Plans()))
	}
}

// TestPrimaryKeysBeginWithAccount checks that the primary key of each table, except those in
// exceptions, begins with account_id. A PostgreSQL cluster can then shard these tables by account.
func TestPrimaryKeysBeginWithAccount(t *testing.T) {
	exceptions := []string{"api_keys", "api_key_uses", "api_key_bounds", "api_key_old_secrets", "tenant_holders", "plans", "schema_release"}
	s := migratedStore(t, MemoryURL)
	tables, err := maintenance.Tables(t.Context(), s.db)
	must(t, "list tables", err)
	for _, table := range tables {
		var key string
		err := s.db.NewSelect().TableExpr("pragma_table_info(?)", table.Name).Column("name").Where("pk = 1").Scan(t.Context(), &key)
		must(t, "read key", err)
		if !slices.Contains(exceptions, table.Name) && key != "account_id" {
			t.Errorf("the primary key of %s begins with %s, want account_id", table.Name, key)
		}
	}
}
