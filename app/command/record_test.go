// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/core/audit"
)

// fullDisk is a standard output on a disk without space.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestActionsAreRecordedAlthoughTheOutputFails checks that the audit log has the action of a
// command that could not print its result.
func TestActionsAreRecordedAlthoughTheOutputFails(t *testing.T) {
	folder, restoredFolder := t.TempDir(), t.TempDir()
	backup := filepath.Join(t.TempDir(), "backup")
	for _, step := range []struct {
		action  audit.Action
		dataDir string
		args    []string
	}{
		{audit.Migrate, folder, []string{"migrate"}},
		{audit.CreateKeyset, folder, []string{"keyset", "create"}},
		{audit.RotateKeyset, folder, []string{"keyset", "rotate"}},
		{audit.Backup, folder, []string{"backup", backup}},
		{audit.Restore, restoredFolder, []string{"restore", backup}},
	} {
		dataDir := []string{"--data-dir", step.dataDir}
		var stderr, auditList bytes.Buffer
		if code := Run(t.Context(), append(step.args, dataDir...), fullDisk{}, &stderr); code != cli.ExitRefused || !strings.Contains(stderr.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%v: exit code %d, want %d and the error of the output: %s", step.args, code, cli.ExitRefused, stderr.String())
		}
		if code := Run(t.Context(), append([]string{"audit", "list"}, dataDir...), &auditList, &stderr); code != 0 || !strings.Contains(auditList.String(), string(step.action)) {
			t.Errorf("%v: exit code %d, and the audit log lacks %s:\n%s%s", step.args, code, step.action, auditList.String(), stderr.String())
		}
	}
}

// TestRestoreIsRecordedAlthoughALaterMigrationFails restores the backup of a database that lacks
// the newest migration, into a database in which no migration can be marked as applied.
func TestRestoreIsRecordedAlthoughALaterMigrationFails(t *testing.T) {
	folder, restored := t.TempDir(), t.TempDir()
	backup := filepath.Join(t.TempDir(), "backup")
	run := func(dataDir string, args ...string) (output string, code int) {
		var stdout, stderr bytes.Buffer
		code = Run(t.Context(), append(args, "--data-dir", dataDir), &stdout, &stderr)
		return stdout.String() + stderr.String(), code
	}
	requireDone := func(dataDir string, args ...string) string {
		t.Helper()
		output, code := run(dataDir, args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d, want 0: %s", args, code, output)
		}
		return output
	}
	execute := func(dataDir, statement string) {
		t.Helper()
		db, err := database.Open(t.Context(), "sqlite://"+filepath.Join(dataDir, "tenantry.db"), database.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = db.ExecContext(t.Context(), statement); errors.Join(err, db.Close()) != nil {
			t.Fatal(err)
		}
	}
	requireDone(folder, "migrate")
	requireDone(folder, "keyset", "create")
	execute(folder, "DELETE FROM bun_migrations WHERE name = (SELECT max(name) FROM bun_migrations)")
	requireDone(folder, "backup", backup)
	requireDone(restored, "migrate")
	execute(restored, "DELETE FROM audit_events")
	execute(restored, "CREATE TRIGGER no_migration BEFORE INSERT ON bun_migrations BEGIN SELECT RAISE(ABORT, 'no migration'); END")
	if output, code := run(restored, "restore", backup); code != cli.ExitRefused || !strings.Contains(output, "restored, but not migrated") {
		t.Fatalf("exit code %d, want %d and the error of the migration: %s", code, cli.ExitRefused, output)
	}
	execute(restored, "DROP TRIGGER no_migration")
	requireDone(restored, "migrate")
	if audited := requireDone(restored, "audit", "list"); !strings.Contains(audited, string(audit.Restore)) {
		t.Errorf("the audit log lacks %s:\n%s", audit.Restore, audited)
	}
}
