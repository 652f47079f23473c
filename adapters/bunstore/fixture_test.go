// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/adapters/bunstore/maintenance"
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports/contract"
)

// sharedStore is a store on one kind of database. All tests that use eachStore share it.
type sharedStore struct {
	databasetest.Kind
	// store and emptyingSQL are set when the first test needs the store. emptyingSQL is the result
	// of emptyingScript.
	store       *Store
	emptyingSQL string
}

var sharedStores = func() (stores []*sharedStore) {
	for _, kind := range databasetest.Kinds() {
		stores = append(stores, &sharedStore{Kind: kind})
	}
	return stores
}()

// eachStore runs a test on an empty PostgreSQL store, and on an empty SQLite store that is either
// in memory or in a file. With TENANTRY_SOAK it runs on both kinds of SQLite. The tests share these
// stores, because emptying a database is much faster than migrating a new database for each test.
func eachStore(t *testing.T, run func(t *testing.T, s *Store)) {
	for _, shared := range append(soak.Sample(t, sharedStores[:2:2], 1), sharedStores[2]) {
		t.Run(shared.Name, func(t *testing.T) { run(t, shared.emptyStore(t)) })
	}
}

// emptyStore deletes the rows that the last test left in the shared store, and returns the store.
func (shared *sharedStore) emptyStore(t testing.TB) *Store {
	t.Helper()
	if shared.store == nil {
		shared.store = openWithin(t, shared.URL(t), hangTimeout, &seenStatements)
		must(t, "migrate", shared.store.Migrate(withoutStatementCollection(t.Context())))
		shared.emptyingSQL = emptyingScript(t, shared.store)
	}
	_, err := shared.store.db.DB.DB.ExecContext(t.Context(), shared.emptyingSQL) // not through the hook that collects statements
	must(t, "delete all rows", err)
	return shared.store
}

// emptyingScript returns statements that empty all tables except those that migrations fill.
func emptyingScript(t testing.TB, s *Store) string {
	t.Helper()
	tables, err := maintenance.Tables(withoutStatementCollection(t.Context()), s.db)
	must(t, "list tables", err)
	var names, deletions []string
	for _, table := range slices.Backward(tables) { // in this order, a table comes before the tables that it references
		names = append(names, table.Name)
		if !slices.Contains([]string{"plans", "schema_release"}, table.Name) {
			deletions = append(deletions, "DELETE FROM "+table.Name)
		}
	}
	if database.IsPostgres(s.db) { // LOCK TABLE waits for the transaction of a cancelled caller, which may still be open
		deletions = append([]string{"LOCK TABLE " + strings.Join(names, ", ")}, deletions...)
	}
	return "BEGIN; " + strings.Join(deletions, "; ") + "; COMMIT"
}

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m, closeSharedStores)) }

func closeSharedStores() (err error) {
	for _, shared := range sharedStores {
		if shared.store != nil {
			err = errors.Join(err, shared.store.Close())
		}
	}
	return err
}

// hangTimeout is a time limit that only a hang should exceed, even on a slow machine.
const hangTimeout = 5 * time.Minute

// operator is the name that the stores record in the audit log.
const operator = "carol@desk"

// openWithin opens a store. It waits at most limit for the database.
func openWithin(t testing.TB, url string, limit time.Duration, hooks ...bun.QueryHook) *Store {
	t.Helper()
	limits := database.Timeouts{Open: limit, Query: limit, Slot: limit}
	s, err := open(t.Context(), url, Options{Operator: operator, Timeouts: limits}, hooks...)
	must(t, "open", err)
	return s
}

// openStore opens a store and closes it when the test ends.
func openStore(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s := openWithin(t, url, hangTimeout, hooks...)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// migratedStore opens a store like openStore, and migrates its database.
func migratedStore(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s := openStore(t, url, hooks...)
	must(t, "migrate", s.Migrate(t.Context()))
	return s
}

func must(t testing.TB, label string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
}

// requireRefusal checks that err has this fault code. An error of one of the kinds below depends
// only on stored data here, so it must be marked with fault.FromStore.
func requireRefusal(t testing.TB, label string, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%s: got %v, want %s", label, err, code.Name)
	}
	switch code.Kind {
	case fault.Invalid, fault.Forbidden, fault.NotFound, fault.Conflict:
		if !fault.IsFromStore(err) {
			t.Fatalf("%s: %v is not marked with fault.FromStore", label, err)
		}
	}
}

// holdWriteSlot makes other writers on SQLite wait until release is called.
func holdWriteSlot(t testing.TB, s *Store) (release func()) {
	t.Helper()
	holding, writeErr, end := make(chan struct{}), make(chan error), make(chan struct{})
	go func() {
		writeErr <- s.db.RetryWrite(t.Context(), "hold", func() error {
			close(holding)
			<-end
			return nil
		})
	}()
	<-holding
	return func() {
		close(end)
		must(t, "hold the write slot", <-writeErr)
	}
}

// concurrently calls f with 0 to n-1 at the same time and returns the errors.
var concurrently = contract.Concurrently

// countWinners returns the number of nil errors. Every other error must be the refusal. If refusal
// is nil, every error fails the test.
func countWinners(t testing.TB, errs []error, refusal error) int {
	t.Helper()
	winners := 0
	for _, err := range errs {
		switch {
		case err == nil:
			winners++
		case !errors.Is(err, refusal):
			t.Fatalf("got %v, want success or %v", err, refusal)
		}
	}
	return winners
}

// now is the current time of most tests. It has microseconds, the precision of the stores.
var now = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// concurrency is the number of concurrent calls in most tests of concurrent requests.
const concurrency = 50

// hostileText contains characters that break careless SQL, templates and terminals. Providers can
// return it in any field.
const hostileText = "O'Brien \"quoted\" \\ ? ?0 $1 {{.}} ; DROP TABLE tenants; -- \u202e 🏴"

func newAccount(t testing.TB, s *Store, name string) access.AccountID {
	t.Helper()
	account, err := s.CreateAccount(t.Context(), name+"@example.test", "complete", 0, now)
	must(t, "create account", err)
	return account.ID
}

// guid returns the GUID of the nth tenant.
func guid(n int) tenant.GUID { return tenant.GUID(fmt.Sprintf("10000000-0000-4000-8000-%012d", n)) }

// attachTenant attaches the tenant guid(n) to an account.
func attachTenant(t testing.TB, s *Store, owner access.AccountID, n int) tenant.Tenant {
	t.Helper()
	attached, err := s.Attach(t.Context(), owner, tenant.Tenant{
		GUID: guid(n), Name: "Contoso", ConsentedAt: now, ConnectedBy: "admin@contoso.test",
	})
	must(t, "attach", err)
	return attached
}

// addDomain stores a domain that is added at the platform.
func addDomain(t testing.TB, s *Store, owner access.AccountID, id tenant.GUID, name string) domain.Domain {
	t.Helper()
	d, err := s.ReserveDomain(t.Context(), owner, id, name, domain.MaxPerTenant, now)
	must(t, "reserve domain", err)
	d.Added, d.JustReserved, d.ReservedAt = true, false, time.Time{}
	must(t, "save domain", s.SaveDomain(t.Context(), owner, d, nil))
	return d
}

// addMailbox stores a mailbox of the domain d with the local part of its address and its stage.
func addMailbox(t testing.TB, s *Store, owner access.AccountID, d domain.Domain, local string, stage mailbox.Stage) mailbox.Mailbox {
	t.Helper()
	reserved, err := s.ReserveMailboxes(t.Context(), owner, d.ID, mailboxSpecs(d, local), mailbox.MaxPerDomain, now)
	must(t, "reserve mailbox", err)
	m := reserved[0]
	m.Stage, m.Provisioned, m.JustReserved = stage, stage != mailbox.Reserved, false
	must(t, "save mailbox", s.SaveMailbox(t.Context(), owner, m))
	return m
}

func mailboxSpecs(d domain.Domain, locals ...string) []mailbox.Spec {
	var specs []mailbox.Spec
	for _, local := range locals {
		specs = append(specs, mailbox.Spec{DisplayName: "Name of " + local, Address: local + "@" + d.Name})
	}
	return specs
}

// requireSameError checks that a foreign object and an unknown object get the same error.
func requireSameError(t testing.TB, label string, foreign, unknown error) {
	t.Helper()
	if foreign == nil || unknown == nil || foreign.Error() != unknown.Error() {
		t.Fatalf("%s: the error for the foreign object is %v, and for the unknown object %v; want the same error", label, foreign, unknown)
	}
}
