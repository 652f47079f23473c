// SPDX-License-Identifier: Apache-2.0

package maintenance

import (
	"os"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// hangTimeout is a time limit that only a hang should exceed, even on a slow machine.
const hangTimeout = 5 * time.Minute

var longTimeouts = database.Timeouts{Open: hangTimeout, Query: hangTimeout, Slot: hangTimeout}

// migratedDB opens a database, migrates it, and closes it when the test ends.
func migratedDB(t testing.TB, url string) *database.DB {
	t.Helper()
	db, err := database.Open(t.Context(), url, database.Options{Timeouts: longTimeouts})
	must(t, "open", err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, "migrate", db.Migrate(t.Context()))
	return db
}

func execSQL(t testing.TB, db *database.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// addAccount adds an account that has one member.
func addAccount(t testing.TB, db *database.DB) {
	t.Helper()
	id, created := "0b0c8a4e-6c3f-4f7e-9d58-0a1b2c3d4e5f", time.Now().UTC().Truncate(time.Microsecond)
	execSQL(t, db, "INSERT INTO accounts (account_id, email, plan, active, created_at) VALUES (?, 'ann@example.test', 'complete', TRUE, ?)", id, created)
	execSQL(t, db, "INSERT INTO members (account_id, email, created_at) VALUES (?, 'ann@example.test', ?)", id, created)
}

func must(t testing.TB, label string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
}
