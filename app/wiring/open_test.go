// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/ports"
)

// TestRecordActDoesNotCreateOrMigrateTheDatabase checks that RecordAction writes an event to a
// migrated database, and neither creates nor migrates a database.
func TestRecordActDoesNotCreateOrMigrateTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenantry.db")
	c := settings.Config{DatabaseURL: "sqlite://" + path, Operator: "ann@host"}
	recordAct := func() {
		t.Helper()
		must(t, RecordAction(t.Context(), c, audit.AddPlugin, map[string]string{"name": "microsoft365"}))
	}
	recordAct()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a database was created: %v", err)
	}
	store, err := bunstore.Open(t.Context(), c.DatabaseURL, bunstore.Options{})
	must(t, err)
	defer func() { _ = store.Close() }()
	recordAct()
	if hasTable, err := store.KeepsAudit(t.Context()); err != nil || hasTable {
		t.Fatalf("the database was migrated: %v, %v", hasTable, err)
	}
	must(t, store.Migrate(t.Context()))
	recordAct()
	events, err := store.AuditEvents(t.Context(), ports.AuditQuery{Limit: 9})
	if err != nil || len(events) != 1 || events[0].Operator != "ann@host" || events[0].Action != audit.AddPlugin || events[0].Details["name"] != "microsoft365" {
		t.Fatalf("got %+v, %v", events, err)
	}
	c.DatabaseURL = "postgres://127.0.0.1:1/nothing?connect_timeout=1"
	if err := RecordAction(t.Context(), c, audit.Backup, nil); err == nil || !strings.Contains(err.Error(), "backup is done") {
		t.Fatalf("with a database that does not answer: %v", err)
	}
}

// TestMissingEmbeddedDatabaseIsAnError checks that only an embedded database must exist, and that
// the error has a fix.
func TestMissingEmbeddedDatabaseIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenantry.db")
	embedded := settings.Config{DatabaseURL: "sqlite://" + path}
	if err := RequireDatabase(embedded); err == nil || !cli.HasFix(err) || cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("without a file: %v", err)
	}
	must(t, os.WriteFile(path, nil, 0o600))
	for _, c := range []settings.Config{embedded, {DatabaseURL: "postgres://h/x"}} {
		if err := RequireDatabase(c); err != nil {
			t.Errorf("%s: %v", c.DatabaseURL, err)
		}
	}
}
