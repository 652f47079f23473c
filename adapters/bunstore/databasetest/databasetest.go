// SPDX-License-Identifier: Apache-2.0

// Package databasetest creates empty databases of each kind for tests. Only tests import it.
//
// NewSchema creates schemas in one PostgreSQL database, which the tests of a package share.
// Creating and dropping a database for each test would take longer than most tests.
package databasetest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/tenantry/tenantry/adapters/testserver"
)

// MemoryURL is the URL of a new database in memory.
const MemoryURL = "sqlite::memory:"

// Kind is a kind of database that tests run on.
type Kind struct {
	Name string
	URL  func(testing.TB) string // returns the URL of an empty database
}

// Kinds returns all kinds. The first kind is the database in memory, which two pools of connections
// cannot share.
func Kinds() []Kind {
	return []Kind{
		{"sqlite-memory", func(testing.TB) string { return MemoryURL }},
		{"sqlite", NewFile},
		{"postgres", NewSchema},
	}
}

// Each runs a test on each kind of database. url returns the URL of an empty database.
func Each(t *testing.T, run func(t *testing.T, url func(testing.TB) string)) {
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) { run(t, kind.URL) })
	}
}

// EachShared works like Each, but omits the database in memory.
func EachShared(t *testing.T, run func(t *testing.T, url func(testing.TB) string)) {
	for _, kind := range Kinds()[1:] {
		t.Run(kind.Name, func(t *testing.T) { run(t, kind.URL) })
	}
}

// shared holds the databases that the tests of a package share.
var shared struct {
	dir         string  // folder of the SQLite files
	url         string  // URL of the PostgreSQL database
	db          *sql.DB // the pool for the PostgreSQL database
	schemaCount int
}

// Main runs the tests of a package, calls cleanups, deletes the databases and returns the exit
// code.
func Main(m *testing.M, cleanups ...func() error) int {
	var err error
	shared.dir, err = os.MkdirTemp("", "bunstore")
	code := 1
	if err == nil {
		code = m.Run()
		for _, cleanup := range cleanups {
			err = errors.Join(err, cleanup())
		}
		err = errors.Join(err, closeShared(), os.RemoveAll(shared.dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func closeShared() error {
	if shared.url == "" {
		return nil
	}
	return errors.Join(shared.db.Close(), testserver.DropDatabase(shared.url))
}

// NewFile returns the URL of a SQLite database whose file does not exist yet.
func NewFile(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(shared.dir, "*")
	if err != nil {
		t.Fatalf("make folder: %v", err)
	}
	return "sqlite://" + filepath.Join(dir, "tenantry.db")
}

// NewSchema creates an empty schema in the shared PostgreSQL database and returns its URL.
func NewSchema(t testing.TB) string {
	t.Helper()
	if shared.url == "" {
		url, err := testserver.CreateDatabase()
		if err == nil {
			shared.db, err = sql.Open("pgx", url)
		}
		if err != nil {
			t.Fatalf("create database: %v", err)
		}
		shared.url = url
	}
	shared.schemaCount++
	name := fmt.Sprintf("s%d", shared.schemaCount)
	if _, err := shared.db.ExecContext(t.Context(), "CREATE SCHEMA "+name); err != nil {
		t.Fatalf("create schema: %v", err)
	}
	return shared.url + "?search_path=" + name
}
