// SPDX-License-Identifier: Apache-2.0

package database

import (
	"os"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// hangTimeout is a time limit that only a hang should exceed, even on a slow machine.
const hangTimeout = 5 * time.Minute

var longTimeouts = Timeouts{hangTimeout, hangTimeout, hangTimeout}

// migratedDB opens a database, migrates it, and closes it when the test ends.
func migratedDB(t testing.TB, url string) *DB {
	t.Helper()
	d, err := Open(t.Context(), url, Options{Timeouts: longTimeouts})
	must(t, "open", err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, "migrate", d.Migrate(t.Context()))
	return d
}

func execSQL(t testing.TB, d *DB, statement string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func must(t testing.TB, label string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
}
