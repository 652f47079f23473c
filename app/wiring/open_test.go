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

// TestRecordActionDoesNotCreateOrMigrateTheDatabase checks that RecordAction writes an event to a
// migrated database, and neither creates nor migrates a database.
func TestRecordActionDoesNotCreateOrMigrateTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenantry.db")
	config := settings.Config{DatabaseURL: "sqlite://" + path, Operator: "ann@host"}
	recordAction := func() {
		t.Helper()
		must(t, RecordAction(t.Context(), config, audit.AddPlugin, map[string]string{"name": "microsoft365"}))
	}
	recordAction()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a database was created: %v", err)
	}
	store, err := bunstore.Open(t.Context(), config.DatabaseURL, bunstore.Options{})
	must(t, err)
	defer func() { _ = store.Close() }()
	recordAction()
	if hasTable, err := store.HasAuditTable(t.Context()); err != nil || hasTable {
		t.Fatalf("the database was migrated: %v, %v", hasTable, err)
	}
	must(t, store.Migrate(t.Context()))
	recordAction()
	events, err := store.AuditEvents(t.Context(), ports.AuditQuery{Limit: 9})
	if err != nil || len(events) != 1 || events[0].Operator != "ann@host" || events[0].Action != audit.AddPlugin || events[0].Details["name"] != "microsoft365" {
		t.Fatalf("got %+v, %v, want one event of the addition by ann@host", events, err)
	}
	config.DatabaseURL = "postgres://127.0.0.1:1/nothing?connect_timeout=1"
	if err := RecordAction(t.Context(), config, audit.Backup, nil); err == nil || !strings.Contains(err.Error(), "backup is done") {
		t.Fatalf("with a database that does not answer: %v", err)
	}
}

// TestMissingEmbeddedDatabaseIsAnError checks that only an embedded database must exist, and that
// the error has a fix.
func TestMissingEmbeddedDatabaseIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenantry.db")
	embedded := settings.Config{DatabaseURL: "sqlite://" + path}
	if err := RequireDatabase(embedded); err == nil || !cli.HasFix(err) || cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("without a file: %v, want an error with a fix", err)
	}
	must(t, os.WriteFile(path, nil, 0o600))
	for _, config := range []settings.Config{embedded, {DatabaseURL: "postgres://h/x"}} {
		if err := RequireDatabase(config); err != nil {
			t.Errorf("%s: %v", config.DatabaseURL, err)
		}
	}
}
