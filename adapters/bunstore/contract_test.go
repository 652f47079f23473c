// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/ports/contract"
)

// eachDatabase runs a test on each kind of database. url returns the address of an empty one.
func eachDatabase(t *testing.T, run func(t *testing.T, url func(testing.TB) string)) {
	t.Run("memory", func(t *testing.T) {
		run(t, func(testing.TB) string { return Memory })
	})
	eachShared(t, run)
}

// eachShared leaves out the database in memory, which only one Store can open.
func eachShared(t *testing.T, run func(t *testing.T, url func(testing.TB) string)) {
	t.Run("sqlite", func(t *testing.T) { run(t, newFile) })
	t.Run("postgres", func(t *testing.T) { run(t, newSchema) })
}

func newFile(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "tenantry.db") }

// shared is the PostgreSQL database of this package's tests. Creating and dropping a database
// for each test would cost more than most tests do.
var shared struct {
	url     string
	db      *bun.DB
	schemas int
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.url != "" {
		if err := errors.Join(shared.db.Close(), testserver.DropDatabase(shared.url)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// newSchema creates an empty schema in the shared database and returns its address.
func newSchema(t testing.TB) string {
	t.Helper()
	if shared.url == "" {
		url, err := testserver.CreateDatabase()
		must(t, err)
		shared.db, err = connectPostgres(url, Options{})
		must(t, err)
		shared.url = url
	}
	shared.schemas++
	name := fmt.Sprintf("s%d", shared.schemas)
	_, err := shared.db.ExecContext(t.Context(), "CREATE SCHEMA "+name)
	must(t, err)
	return shared.url + "?search_path=" + name
}

// hangTimeout is a time limit that only a hang reaches, however slow the machine is.
const hangTimeout = 5 * time.Minute

// opened opens a store that waits as long as a busy machine needs.
func opened(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s, err := open(t.Context(), url, Options{Operator: contract.Operator}, hooks...)
	must(t, err)
	s.queryTimeout, s.connWait = hangTimeout, hangTimeout
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// migrated opens an empty, migrated store.
func migrated(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s := opened(t, url, hooks...)
	must(t, s.Migrate(t.Context()))
	return s
}

// newEmptier returns a function that deletes what a test left in a migrated store and returns the
// store to the next test. Migrating a database for each test would cost far more.
func newEmptier(t testing.TB, s *Store) func(testing.TB) contract.Stores {
	t.Helper()
	all, err := s.Tables(t.Context())
	must(t, err)
	var names, deletions []string
	for _, table := range slices.Backward(all) { // referencing tables first
		names = append(names, table.Name)
		if !slices.Contains(seededTables, table.Name) {
			deletions = append(deletions, "DELETE FROM "+table.Name)
		}
	}
	if s.postgres() { // the transaction of a cancelled caller may still be open
		deletions = append([]string{"LOCK TABLE " + strings.Join(names, ", ")}, deletions...)
	}
	script := "BEGIN; " + strings.Join(deletions, "; ") + "; COMMIT"
	return func(t testing.TB) contract.Stores {
		t.Helper()
		_, err := s.db.DB.ExecContext(t.Context(), script) // the hooks of bun see only the test's statements
		must(t, err)
		return s
	}
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

// TestContract runs the suites on the databases that a process can share.
// TestEveryStatementNamesTheOwner runs them on SQLite in memory.
func TestContract(t *testing.T) {
	eachShared(t, func(t *testing.T, url func(testing.TB) string) {
		store := newEmptier(t, migrated(t, url(t)))
		for name, suite := range suites {
			t.Run(name, func(t *testing.T) { suite(t, store) })
		}
	})
}
