// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports/contract"
)

// eachDatabase runs a test on each kind of database. url makes an empty one.
func eachDatabase(t *testing.T, run func(t *testing.T, url func(testing.TB) string)) {
	t.Run("memory", func(t *testing.T) {
		run(t, func(testing.TB) string { return Memory })
	})
	t.Run("sqlite", func(t *testing.T) {
		run(t, func(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db") })
	})
	t.Run("postgres", func(t *testing.T) { run(t, schemas(t, testserver.Database(t))) })
}

// schemas makes empty schemas in one database, which is a lot faster than a
// database each.
func schemas(t *testing.T, database string) func(testing.TB) string {
	t.Helper()
	db, err := connectPostgres(database, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	made := 0
	return func(t testing.TB) string {
		made++
		name := fmt.Sprintf("s%d", made)
		if _, err := db.ExecContext(t.Context(), "CREATE SCHEMA "+name); err != nil {
			t.Fatal(err)
		}
		return database + "?search_path=" + name
	}
}

// migrated opens an empty, migrated store.
func migrated(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s, err := open(t.Context(), url, Options{Operator: contract.Operator}, hooks...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

var suites = map[string]func(*testing.T, func(testing.TB) contract.Stores){
	"accounts": contract.Accounts, "keys": contract.Keys, "issued keys": contract.IssuedKeys, "tenants": contract.Tenants,
	"assignments": contract.Assignments, "discovered": contract.Discovered, "domains": contract.Domains, "domain checks": contract.DomainChecks,
	"mailboxes": contract.MailboxStore, "flows": contract.ConnectFlows,
	"DNS connections": contract.DNSConnections, "DNS writes": contract.DNSWrites,
	"DNS runs": contract.DNSRuns, "DNS jobs": contract.DNSJobs,
	"integrations": contract.Integrations, "connections": contract.Connections, "enforcement events": contract.EnforcementEvents,
	"send policies": contract.SendPolicies, "send days": contract.SendDays, "send runs": contract.SendRuns, "send room": contract.SendRoom, "audit": contract.Audit,
	"idempotency": contract.Idempotency, "effects": contract.StoreEffects,
}

// TestContract leaves SQLite in memory to TestEveryStatementNamesTheOwner, which
// runs all suites there.
func TestContract(t *testing.T) {
	for kind, url := range map[string]func(*testing.T) func(testing.TB) string{
		"sqlite":   copies,
		"postgres": func(t *testing.T) func(testing.TB) string { return schemas(t, testserver.Database(t)) },
	} {
		t.Run(kind, func(t *testing.T) {
			url := url(t)
			for name, suite := range suites {
				t.Run(name, func(t *testing.T) {
					suite(t, func(t testing.TB) contract.Stores { return migrated(t, url(t)) })
				})
			}
		})
	}
}

// copies makes copies of one migrated file, which is a lot faster than to
// migrate each.
func copies(t *testing.T) func(testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tenantry.db")
	s, err := open(t.Context(), "sqlite://"+file, Options{})
	if err == nil {
		err = errors.Join(s.Migrate(t.Context()), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(t testing.TB) string {
		file := filepath.Join(t.TempDir(), "tenantry.db")
		if err := os.WriteFile(file, made, 0o600); err != nil {
			t.Fatal(err)
		}
		return "sqlite://" + file
	}
}
