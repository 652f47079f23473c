// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
)

// database is a kind of database that the tests run on.
type database struct {
	name string
	url  func(testing.TB) string // returns the address of an empty database
	// store is the store that eachStore lends to the tests, and empty deletes its rows. Both are
	// created when the first test needs them.
	store *Store
	empty string
}

// databases begins with the database in memory, which only one Store can open.
var databases = []*database{
	{name: "memory", url: func(testing.TB) string { return Memory }},
	{name: "sqlite", url: newFile},
	{name: "postgres", url: newSchema},
}

// eachStore runs a test on an empty store of each kind of database. All tests share these stores,
// because migrating a database for each test would cost far more than emptying one.
func eachStore(t *testing.T, run func(t *testing.T, s *Store)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { run(t, d.emptyStore(t)) })
	}
}

// eachDatabase runs a test on each kind of database. url returns the address of an empty one.
func eachDatabase(t *testing.T, run func(t *testing.T, url func(testing.TB) string)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { run(t, d.url) })
	}
}

// eachShared leaves out the database in memory.
func eachShared(t *testing.T, run func(t *testing.T, url func(testing.TB) string)) {
	for _, d := range databases[1:] {
		t.Run(d.name, func(t *testing.T) { run(t, d.url) })
	}
}

// emptyStore deletes what the last test left in the shared store, and returns the store.
func (d *database) emptyStore(t testing.TB) *Store {
	t.Helper()
	if d.store == nil {
		d.store = openPatient(t, d.url(t))
		must(t, "migrate", d.store.Migrate(t.Context()))
		d.empty = emptyingScript(t, d.store)
		d.store.db, d.store.hooks = d.store.db.WithQueryHook(&seenStatements), append(d.store.hooks, &seenStatements)
	}
	_, err := d.store.db.DB.ExecContext(t.Context(), d.empty) // the hook sees only the test's statements
	must(t, "delete all rows", err)
	return d.store
}

// emptyingScript returns statements that delete all rows, except those that migrations inserted.
func emptyingScript(t testing.TB, s *Store) string {
	t.Helper()
	all, err := s.Tables(t.Context())
	must(t, "list tables", err)
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
	return "BEGIN; " + strings.Join(deletions, "; ") + "; COMMIT"
}

// shared holds what all tests of this package use. Creating and dropping a PostgreSQL database for
// each test would cost more than most tests do.
var shared struct {
	dir     string // of SQLite files
	url     string // of the PostgreSQL database
	db      *bun.DB
	schemas int
}

func TestMain(m *testing.M) {
	var err error
	shared.dir, err = os.MkdirTemp("", "bunstore")
	code := 1
	if err == nil {
		code = m.Run()
		err = errors.Join(closeShared(), os.RemoveAll(shared.dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func closeShared() (err error) {
	for _, d := range databases {
		if d.store != nil {
			err = errors.Join(err, d.store.Close())
		}
	}
	if shared.url != "" {
		err = errors.Join(err, shared.db.Close(), testserver.DropDatabase(shared.url))
	}
	return err
}

// newFile returns the address of a new SQLite file.
func newFile(t testing.TB) string {
	dir, err := os.MkdirTemp(shared.dir, "*")
	must(t, "make folder", err)
	return "sqlite://" + filepath.Join(dir, "tenantry.db")
}

// newSchema creates an empty schema in the shared database and returns its address.
func newSchema(t testing.TB) string {
	t.Helper()
	if shared.url == "" {
		url, err := testserver.CreateDatabase()
		must(t, "create database", err)
		shared.db, err = connectPostgres(url, Options{})
		must(t, "connect", err)
		shared.url = url
	}
	shared.schemas++
	name := fmt.Sprintf("s%d", shared.schemas)
	_, err := shared.db.ExecContext(t.Context(), "CREATE SCHEMA "+name)
	must(t, "create schema", err)
	return shared.url + "?search_path=" + name
}

// hangTimeout is a time limit that only a hang reaches, however slow the machine is.
const hangTimeout = 5 * time.Minute

// operator is the name that the stores record in the audit log.
const operator = "carol@desk"

// openPatient opens a store that waits as long as a busy machine needs.
func openPatient(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s, err := open(t.Context(), url, Options{Operator: operator, openTimeout: hangTimeout}, hooks...)
	must(t, "open", err)
	s.queryTimeout, s.connWait = hangTimeout, hangTimeout
	return s
}

// opened opens a store for one test.
func opened(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s := openPatient(t, url, hooks...)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// migrated opens an empty, migrated store for one test.
func migrated(t testing.TB, url string, hooks ...bun.QueryHook) *Store {
	t.Helper()
	s := opened(t, url, hooks...)
	must(t, "migrate", s.Migrate(t.Context()))
	return s
}

// must fails the test if err is not nil.
func must(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// requireRefusal checks that err has this fault code. If an answer with the code could be kept with
// an Idempotency-Key, err must be marked with fault.FromStore.
func requireRefusal(t testing.TB, what string, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("%s: got %v, want %s", what, err, code.Name)
	}
	switch code.Kind {
	case fault.Invalid, fault.Forbidden, fault.NotFound, fault.Conflict:
		if !fault.IsFromStore(err) {
			t.Fatalf("%s: %v is not marked with FromStore", what, err)
		}
	}
}

// concurrently calls f with 0 to n-1 at the same time and returns the errors.
func concurrently(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// countWinners returns the number of nil errors. Every other error must be the refusal.
func countWinners(t testing.TB, errs []error, refusal error) int {
	t.Helper()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, refusal):
			t.Fatalf("got %v, want success or %v", err, refusal)
		}
	}
	return won
}

// now is the current time of the tests. It has microseconds, the precision of the stores.
var now = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

// concurrency is the number of concurrent calls in the tests of races.
const concurrency = 50

// hostileText contains characters that break careless SQL, templates and terminals. Providers can
// return it in any field.
const hostileText = "O'Brien \"quoted\" \\ ? ?0 $1 {{.}} ; DROP TABLE tenants; -- \u202e 🏴"

func newAccount(t testing.TB, s *Store, name string) access.AccountID {
	t.Helper()
	a, err := s.CreateAccount(t.Context(), name+"@example.test", "complete", 0, now)
	must(t, "create account", err)
	return a.ID
}

func guid(n int) tenant.GUID { return tenant.GUID(fmt.Sprintf("10000000-0000-4000-8000-%012d", n)) }

func attachTenant(t testing.TB, s *Store, owner access.AccountID, n int) tenant.Tenant {
	t.Helper()
	made, err := s.Attach(t.Context(), owner, tenant.Tenant{
		GUID: guid(n), Name: "Contoso", ConsentedAt: now, ConnectedBy: "admin@contoso.test",
	})
	must(t, "attach", err)
	return made
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

// addMailbox stores a mailbox in a stage of its creation.
func addMailbox(t testing.TB, s *Store, owner access.AccountID, d domain.Domain, local string, stage mailbox.Stage) mailbox.Mailbox {
	t.Helper()
	boxes, err := s.ReserveMailboxes(t.Context(), owner, d.ID, mailboxSpecs(d, local), mailbox.MaxPerDomain, now)
	must(t, "reserve mailbox", err)
	m := boxes[0]
	m.Stage, m.Provisioned, m.JustReserved, m.ReservedAt = stage, stage != mailbox.Reserved, false, time.Time{}
	must(t, "save mailbox", s.SaveMailbox(t.Context(), owner, m))
	return m
}

func mailboxSpecs(d domain.Domain, locals ...string) []mailbox.Spec {
	var all []mailbox.Spec
	for _, local := range locals {
		all = append(all, mailbox.Spec{DisplayName: "Name of " + local, Address: local + "@" + d.Name})
	}
	return all
}

// requireSameError checks that a foreign object and an unknown one get the same error.
func requireSameError(t testing.TB, what string, a, b error) {
	t.Helper()
	if a == nil || b == nil || a.Error() != b.Error() {
		t.Fatalf("%s: foreign gives %v, unknown gives %v", what, a, b)
	}
}
