// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/core/fault"
)

func TestSQLiteFilesAreReadableByOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parent", "with spaces")
	path := filepath.Join(dir, "odd %41 name?x#y.db")
	must(t, "mkdir all", os.MkdirAll(dir, 0o700))
	must(t, "write file", os.WriteFile(path, nil, 0o644))
	d := migratedDB(t, "sqlite://"+path)
	execSQL(t, d, "UPDATE plans SET tenant_slots = 7")
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Fatalf("files: %v, %v; want the database and its two WAL files", files, err)
	}
	for _, file := range files {
		info, err := file.Info()
		must(t, "file info", err)
		if info.Mode().Perm() != 0o600 || !strings.HasPrefix(file.Name(), filepath.Base(path)) {
			t.Errorf("got the file %s with the mode %v, want the mode 0600 and a name that begins with %s", file.Name(), info.Mode(), filepath.Base(path))
		}
	}
}

func TestSQLiteConnectionsHaveTheirPragmas(t *testing.T) {
	for synchronous, wantSynchronous := range map[string]string{"": "1", "FULL": "2"} {
		d, err := Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "t.db"), Options{Synchronous: synchronous, Timeouts: longTimeouts})
		must(t, "open", err)
		for pragma, want := range map[string]string{
			"journal_mode": "wal", "busy_timeout": "5000", "foreign_keys": "1", "synchronous": wantSynchronous,
		} {
			var got string
			if err := d.NewRaw("PRAGMA "+pragma).Scan(t.Context(), &got); err != nil || got != want {
				t.Errorf("%s is %s, want %s (%v)", pragma, got, want, err)
			}
		}
		_ = d.Close()
	}
}

func TestUnreachableDatabaseIsReported(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, "listen", err)
	closedAddress := listener.Addr().String()
	must(t, "close", listener.Close())
	_, err = Open(t.Context(), fmt.Sprintf("postgres://ann:hunter2@%s/x", closedAddress), Options{})
	var refusal *fault.Error
	if !errors.As(err, &refusal) || refusal.Code != fault.ServiceUnavailable || refusal.RetryAfter <= 0 {
		t.Fatalf("got %v, want service_unavailable with a time to retry", err)
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("the error contains the password: %v", err)
	}
}

func TestInvalidURLsAreRefusedWithoutPassword(t *testing.T) {
	for _, url := range []string{"", "mysql://ann:hunter2@db/x", "sqlite://", "sqlite:x", "postgres://ann:hunter2@[/x", "/var/lib/x.db"} {
		d, err := Open(t.Context(), url, Options{})
		if err == nil {
			_ = d.Close()
			t.Errorf("opening %q succeeded, want an error", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

func TestPingFailsAfterClose(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		d, err := Open(t.Context(), url(t), Options{Timeouts: longTimeouts})
		must(t, "open", err)
		must(t, "ping", d.Ping(t.Context()))
		must(t, "close", d.Close())
		if err := d.Ping(t.Context()); err == nil {
			t.Fatal("the ping of a closed database succeeded, want an error")
		}
	})
}

// TestStandbyIsNotUsedByAService demotes the server to a standby and promotes it again. A pool with
// RequirePrimary fails on the standby, and a pool without it can read.
func TestStandbyIsNotUsedByAService(t *testing.T) {
	server, err := testserver.StartPostgres(t.Context())
	must(t, "start PostgreSQL", err)
	t.Cleanup(server.Stop)
	openPool := func(o Options) *DB {
		t.Helper()
		o.Timeouts = longTimeouts
		pool, err := Open(t.Context(), server.URL, o)
		must(t, "open", err)
		t.Cleanup(func() { _ = pool.Close() })
		return pool
	}
	servicePool := openPool(Options{RequirePrimary: true})
	must(t, "demote", server.Demote(t.Context()))
	var refusal *fault.Error
	err = servicePool.Ping(t.Context())
	if !errors.As(err, &refusal) || refusal.Code != fault.ServiceUnavailable {
		t.Errorf("ping a standby: got %v, want service_unavailable", err)
	}
	const wantText = "the server accepts no writes: it is a standby, or read-only"
	if text := OperatorError(err).Error(); text != wantText {
		t.Errorf("the error for the operator is %q, want %q", text, wantText)
	}
	commandPool := openPool(Options{})
	must(t, "ping the standby without RequirePrimary", commandPool.Ping(t.Context()))
	execSQL(t, commandPool, "SELECT pg_promote()")
	must(t, "ping the promoted server", servicePool.Ping(t.Context()))
	execSQL(t, servicePool, "CREATE TABLE written (id int)")
}

// TestConnectionThatRefusesWritesIsReplaced checks that the next write succeeds after a write
// failed on a read-only connection. A server can become read-only while connections are open.
func TestConnectionThatRefusesWritesIsReplaced(t *testing.T) {
	d := migratedDB(t, databasetest.NewSchema(t))
	d.SetMaxOpenConns(1) // so that all statements use the same connection
	write := func(ctx context.Context, db bun.IDB) error {
		_, err := db.NewRaw("UPDATE plans SET tenant_slots = 7").Exec(ctx)
		return err
	}
	for name, attempt := range map[string]func() error{
		"statement": func() error { return d.RunWrite(t.Context(), "write", write) },
		"transaction": func() error {
			return d.RetryWrite(t.Context(), "write", func() error { return d.Transaction(t.Context(), write) })
		},
	} {
		execSQL(t, d, "SET default_transaction_read_only = on")
		var refusal *fault.Error
		if err := attempt(); !errors.As(err, &refusal) || refusal.Code != fault.ServiceUnavailable {
			t.Fatalf("%s: got %v from a read-only connection, want service_unavailable", name, err)
		}
		must(t, name+" after the failure", attempt())
	}
}
