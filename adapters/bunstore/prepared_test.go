// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"database/sql"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
)

// TestPreparedReadSurvivesMigration changes tables as the migration of a next release would,
// after this release has prepared statements on them.
func TestPreparedReadSurvivesMigration(t *testing.T) {
	s := migrated(t, newSchema(t))
	list := func() {
		t.Helper()
		if _, err := s.Tenants(t.Context(), access.AccountID(newID())); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range []string{
		"SELECT 1", "ALTER TABLE tenants ADD COLUMN later text", "ALTER TABLE tenants ALTER COLUMN name TYPE varchar(400)",
	} {
		if _, err := s.db.ExecContext(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		list()
		list()
	}
}

// TestPreparedReadSurvivesDeadConnections ends the connections of the pool, as a restart of
// the server does. The next read succeeds all the same. The test needs its own database, because
// it ends all connections to it.
func TestPreparedReadSurvivesDeadConnections(t *testing.T) {
	url := testserver.Database(t)
	s, other := migrated(t, url), migrated(t, url)
	s.db.SetMaxIdleConns(4)
	for range 2 { // the pool does not check a connection that was used in the last second
		var held []*sql.Conn
		for range 4 {
			conn, err := s.db.DB.Conn(t.Context())
			must(t, "open connection", err)
			held = append(held, conn)
		}
		for _, conn := range held {
			if err := conn.Close(); err != nil { // back into the pool
				t.Fatal(err)
			}
		}
	}
	var ended int
	err := other.db.NewRaw("SELECT COUNT(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND pid <> pg_backend_pid()").Scan(t.Context(), &ended)
	if err != nil || ended < 4 {
		t.Fatalf("%d ended: %v", ended, err)
	}
	if _, err := s.Tenants(t.Context(), access.AccountID(newID())); err != nil {
		t.Error(err)
	}
}

// TestExecModeOfURLDisablesPreparedStatements checks that the execution mode in the URL applies to
// prepared statements.
func TestExecModeOfURLDisablesPreparedStatements(t *testing.T) {
	for _, tt := range []struct {
		query string
		kept  bool
	}{{"", true}, {"&default_query_exec_mode=exec", false}} {
		s := migrated(t, newSchema(t)+tt.query)
		s.db.SetMaxOpenConns(1) // the count is that of one connection
		for range 2 {
			if _, err := s.Tenants(t.Context(), access.AccountID(newID())); err != nil {
				t.Fatal(err)
			}
		}
		var kept bool
		if err := s.db.NewRaw("SELECT EXISTS (SELECT 1 FROM pg_prepared_statements)").Scan(t.Context(), &kept); err != nil || kept != tt.kept {
			t.Errorf("%q: kept is %v, %v", tt.query, kept, err)
		}
	}
}
