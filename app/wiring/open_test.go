// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/testserver"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// TestRecordActionDoesNotCreateOrMigrateTheDatabase checks that RecordAction writes an event to a
// migrated database, and neither creates nor migrates a database. If the database does not answer,
// the error says that the action is done.
func TestRecordActionDoesNotCreateOrMigrateTheDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenantry.db")
	config := settings.Config{DatabaseURL: "sqlite://" + path, Operator: "ann@host"}
	recordAction := func() {
		t.Helper()
		must(t, RecordAction(t.Context(), config, audit.AddPlugin, map[string]string{"name": "microsoft365"}))
	}
	recordAction()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got the error %v, want that no database exists", err)
	}
	store, err := bunstore.Open(t.Context(), config.DatabaseURL, bunstore.Options{})
	must(t, err)
	defer func() { _ = store.Close() }()
	recordAction()
	if hasTable, err := store.HasAuditTable(t.Context()); err != nil || hasTable {
		t.Fatalf("the database has an audit table = %v, %v, want no migration", hasTable, err)
	}
	must(t, store.Migrate(t.Context()))
	recordAction()
	events, err := store.AuditEvents(t.Context(), ports.AuditQuery{Limit: 9})
	if err != nil || len(events) != 1 || events[0].Operator != "ann@host" || events[0].Action != audit.AddPlugin || events[0].Details["name"] != "microsoft365" {
		t.Fatalf("got %+v, %v, want one event of the addition by ann@host", events, err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, RecordAction(cancelled, config, audit.AddPlugin, nil))
	if events, err = store.AuditEvents(t.Context(), ports.AuditQuery{Limit: 9}); err != nil || len(events) != 2 {
		t.Fatalf("got %+v, %v, want a second event after the command was cancelled", events, err)
	}
	config.DatabaseURL = "postgres://127.0.0.1:1/nothing?connect_timeout=1"
	checkPrintedError(t, RecordAction(t.Context(), config, audit.Backup, nil), cli.ExitExternal,
		"the action backup is done, but could not be recorded: the server does not answer at 127.0.0.1:1", "do not repeat the action")
}

// checkPrintedError checks the exit code of a command that fails with err. The command must print
// the texts, and not the password hunter2.
func checkPrintedError(t *testing.T, err error, code int, texts ...string) {
	t.Helper()
	var printed strings.Builder
	cli.PrintError(&printed, &cobra.Command{}, false, err)
	if got := cli.ExitCode(err); got != code {
		t.Errorf("exit code %d, want %d: %s", got, code, printed.String())
	}
	for _, text := range texts {
		if !strings.Contains(printed.String(), text) {
			t.Errorf("the command prints %q, want %q in it", printed.String(), text)
		}
	}
	if strings.Contains(printed.String(), "hunter2") {
		t.Errorf("the command prints the password: %s", printed.String())
	}
}

// TestOpenStoreSaysWhyTheDatabaseCannotBeUsed checks four reasons: the server refuses the user, has
// no such database, does not run, or does not know a parameter of the URL.
func TestOpenStoreSaysWhyTheDatabaseCannotBeUsed(t *testing.T) {
	url := testserver.Database(t)
	for _, tc := range []struct {
		url, wantReason, wantFix string
		wantExitCode             int
	}{
		{testserver.WithParameter(url, "user=nobody-here&password=hunter2"), "the server refuses the user or its password", "correct database_url", cli.ExitExternal},
		{testserver.WithParameter(url, "dbname=nothing_here"), "the server has no such database", "correct database_url", cli.ExitExternal},
		{"postgres://ann:hunter2@127.0.0.1:1/x", "the server does not answer at 127.0.0.1:1: connect: connection refused", "start the database", cli.ExitExternal},
		{testserver.WithParameter(url, "sslmod=require"), `database_url: the server says unrecognized configuration parameter "sslmod"`, "correct database_url", cli.ExitUsage},
	} {
		_, err := OpenStore(t.Context(), settings.Config{DatabaseURL: tc.url}, bunstore.Options{Log: slog.New(slog.DiscardHandler)})
		checkPrintedError(t, err, tc.wantExitCode, tc.wantReason, tc.wantFix)
	}
}

// TestMissingEmbeddedDatabaseIsAnError checks that RequireDatabase fails with a fix if the file of
// an embedded database is missing, and does not check a PostgreSQL database.
func TestMissingEmbeddedDatabaseIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenantry.db")
	embedded := settings.Config{DatabaseURL: "sqlite://" + path}
	if err := RequireDatabase(embedded); err == nil || !cli.HasFix(err) || cli.ExitCode(err) != cli.ExitRefused {
		t.Errorf("without a file: %v, want an error with a fix", err)
	}
	must(t, os.WriteFile(path, nil, 0o600))
	for _, config := range []settings.Config{embedded, {DatabaseURL: "postgres://h/x"}} {
		if err := RequireDatabase(config); err != nil {
			t.Errorf("%s: got %v, want no error", config.DatabaseURL, err)
		}
	}
}

// TestPluginsGetTheConfiguredOTLPHeaders starts a plugin as the service does. The plugin must get
// the headers of the setting plugin_otlp_headers, and not those of the service's own environment.
func TestPluginsGetTheConfiguredOTLPHeaders(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=service")
	dir := t.TempDir()
	_, err := pluginhost.Add(t.Context(), pluginhost.Options{Dir: dir}, testserver.Program(t, "testdata/puppet"))
	must(t, err)
	host, err := openHost(settings.Config{PluginDir: dir, PluginOTLPHeaders: "authorization=plugins"}, nil, slog.New(slog.DiscardHandler))
	must(t, err)
	defer host.Close()
	connection := func(context.Context) (wire.Connection, error) { return wire.Connection{}, nil }
	environment, err := host.Mail("puppet", connection).For("t").Domains(t.Context()) // puppet returns each environment variable as a domain
	must(t, err)
	var headers []string
	for _, variable := range environment {
		if strings.HasPrefix(variable.Name, "OTEL_EXPORTER_OTLP_HEADERS") {
			headers = append(headers, variable.Name)
		}
	}
	if !slices.Equal(headers, []string{"OTEL_EXPORTER_OTLP_HEADERS=authorization=plugins"}) {
		t.Errorf("the plugin has the variables %v, want only the headers of the setting", headers)
	}
}
