// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// TestARestoreThatIsKilledLeavesNothing kills the process when it has read
// half of the rows, and tries again.
func TestARestoreThatIsKilledLeavesNothing(t *testing.T) {
	t.Parallel()
	file := large(t)
	for name, database := range map[string]func(testing.TB) string{
		"sqlite": func(testing.TB) string { return "" }, "postgres": testserver.Database,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := filepath.Join(t.TempDir(), "data")
			env := []string{"TENANTRY_DATA_DIR=" + data}
			if url := database(t); url != "" {
				env = append(env, "TENANTRY_DATABASE_URL="+url)
			}
			killedHalfway(t, env, file)
			if _, err := os.Stat(filepath.Join(data, "keyset.json")); err == nil {
				t.Error("a keyset is left")
			}
			if list := operate(t, env, "account", "list", "-o", "json").json(t); list.at("count") != 0.0 {
				t.Errorf("left: %v", list)
			}
			operate(t, env, "restore", file, "-o", "json").json(t)
			if list := operate(t, env, "account", "list", "-o", "json").json(t); list.at("count") != float64(manyAccounts) {
				t.Errorf("restored: %v", list.at("count"))
			}
		})
	}
}

const manyAccounts = 30_000

// large is a backup whose rows are far more than what pipes and buffers hold.
func large(t *testing.T) string {
	t.Helper()
	data, file := t.TempDir(), filepath.Join(t.TempDir(), "large.backup")
	env := []string{"TENANTRY_DATA_DIR=" + data}
	operate(t, env, "keyset", "create", "-o", "json").json(t)
	operate(t, env, "migrate", "-o", "json").json(t)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "tenantry.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
		INSERT INTO accounts SELECT printf('%08x-0000-4000-8000-000000000000', i), hex(randomblob(60)), 'complete', 1, NULL, '2026-01-01 00:00:00+00:00' FROM n`, manyAccounts)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if got := operate(t, env, "backup", file); got.code != 0 {
		t.Fatal(got.errors)
	}
	return file
}

// killedHalfway gives the backup to restore through pipes: all of it to be
// checked, then half of it to be written.
func killedHalfway(t *testing.T, env []string, file string) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil || len(raw) < 1<<20 {
		t.Fatalf("a backup of %d bytes, %v", len(raw), err)
	}
	name := filepath.Join(t.TempDir(), "pipe")
	pipe(t, name)
	p := start(t, binary(t, release), env, io.Discard, "restore", name)
	go func() { // if it ends by itself, writer must not wait for ever
		<-p.done
		if r, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = r.Close()
		}
	}()
	first := writer(t, name)
	pipe(t, name+".next") // another one under the name, as the first is still being read
	if err := os.Rename(name+".next", name); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Write(raw); err != nil {
		t.Fatal(err)
	}
	_ = first.Close()
	second := writer(t, name)
	if _, err := second.Write(raw[:len(raw)/2]); err != nil {
		t.Fatal(err)
	}
	p.kill()
	_ = second.Close()
}

func pipe(t *testing.T, name string) {
	t.Helper()
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
}

// writer waits until somebody reads.
func writer(t *testing.T, name string) *os.File {
	t.Helper()
	w, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
