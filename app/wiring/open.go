// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/wire"
	"github.com/tenantry/tenantry/ports"
)

// FixMigrations is the fix for a database that lacks migrations of this release.
const FixMigrations = "run `tenantry migrate` with the same database settings"

// OpenStore opens the database. It migrates an embedded database. On PostgreSQL it does not
// migrate, and fails when `tenantry migrate` has to be run first. It also fails when the database
// is unreachable or its schema requires a newer release. OpenStore sets the fields Operator and
// AllowNoSMTPAuth of o from the settings.
func OpenStore(ctx context.Context, c settings.Config, o bunstore.Options) (*bunstore.Store, error) {
	embedded := strings.HasPrefix(c.DatabaseURL, "sqlite:")
	if err := CreateDataFolder(c); err != nil {
		return nil, err
	}
	openCtx, cancel := context.WithTimeout(ctx, databaseOpenTimeout)
	defer cancel()
	o.Operator, o.AllowNoSMTPAuth = c.Operator, !c.RequireSMTPAuth
	store, err := bunstore.Open(openCtx, c.DatabaseURL, o)
	if err != nil {
		return nil, DatabaseError(err)
	}
	if embedded {
		err = store.Migrate(ctx) // not openCtx: a migration may take longer than the timeout
	} else {
		err = checkMigrated(openCtx, store)
	}
	if err != nil {
		return nil, errors.Join(DatabaseError(err), store.Close())
	}
	return store, nil
}

// RequireDatabase returns an error when the embedded database does not exist. `tenantry backup` and
// the commands in app/operator that need the database call it first. Otherwise a command in a
// wrong folder or with wrong settings would create an empty database and succeed.
func RequireDatabase(c settings.Config) error {
	if path, embedded := strings.CutPrefix(c.DatabaseURL, "sqlite://"); embedded {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return cli.WithFix(fmt.Errorf("there is no database at %s", path),
				"run the command in the working directory and with the settings of the service (data_dir or database_url); for a new installation: `tenantry migrate`")
		}
	}
	return nil
}

// checkMigrated returns an error when the database lacks migrations of this release.
func checkMigrated(ctx context.Context, store *bunstore.Store) error {
	pending, err := store.PendingMigrations(ctx)
	if err == nil && len(pending) > 0 {
		err = cli.WithFix(fmt.Errorf("%d migrations are missing", len(pending)), FixMigrations)
	}
	return err
}

// CreateDataFolder creates data_dir, with its parents, if the database is embedded. It does nothing
// for PostgreSQL.
func CreateDataFolder(c settings.Config) error {
	if !strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return nil
	}
	return os.MkdirAll(c.DataDir, 0o700)
}

// DatabaseError converts an error of opening or migrating a database to an error for the operator.
// The result has the reason, and the fix if one is known.
func DatabaseError(err error) error {
	const fixUnavailable = "start the database and check its disk and memory, or correct database_url; `tenantry doctor` reports details"
	wrapped := fmt.Errorf("database: %w", err)
	switch {
	case cli.HasFix(err):
		return wrapped
	case errors.Is(err, database.ErrTooOld):
		return cli.WithFix(wrapped, "install a newer tenantry")
	case database.RefusesURL(err):
		return cli.WithFix(cli.UsageError(fmt.Errorf("database_url: %w", database.OperatorError(err))), "correct database_url")
	case errors.Is(err, context.DeadlineExceeded):
		return cli.WithFix(fault.ServiceUnavailable.With("the database did not answer in time"), fixUnavailable)
	case fault.ErrorOf(err).Code.Kind == fault.Unavailable:
		return cli.WithFix(fault.ServiceUnavailable.With("database: %s", database.OperatorError(err)), fixUnavailable)
	default:
		return wrapped
	}
}

// MigrateNow migrates the store's tables and the queue's tables. It returns the names of the
// migrations that it applied, also if it then fails.
func MigrateNow(ctx context.Context, c settings.Config, log *slog.Logger) ([]string, error) {
	store, err := bunstore.Open(ctx, c.DatabaseURL, bunstore.Options{Log: log})
	if err != nil {
		return nil, DatabaseError(err)
	}
	storeMigrations, err := store.ApplyMigrations(ctx)
	var queueMigrations []string
	if err == nil {
		queueMigrations, err = MigrateQueue(ctx, c)
	}
	if err != nil {
		err = DatabaseError(fmt.Errorf("migrate: %w", err))
	}
	return append(storeMigrations, queueMigrations...), errors.Join(err, store.Close())
}

// openHost opens the plugin folder. Each plugin starts on its first call.
func openHost(c settings.Config, waits ports.Waits, log *slog.Logger) (*pluginhost.Host, error) {
	host, err := pluginhost.New(pluginhost.Options{
		Dir: c.PluginDir, Waits: waits, Log: log, Env: os.Environ(), Limits: PluginLimits(c),
		TelemetryHeaders: secret.New(c.PluginOTLPHeaders),
	})
	if err != nil {
		return nil, cli.WithFix(fmt.Errorf("plugins: %w", err), CatalogFix(c.PluginDir, err))
	}
	return host, nil
}

// PluginLimits returns the limits of plugin processes.
func PluginLimits(c settings.Config) wire.Limits {
	return wire.Limits{Memory: uint64(c.PluginMemoryMiB) << 20, Processes: uint64(c.PluginProcesses), OpenFiles: uint64(c.PluginOpenFiles)}
}

// CatalogFix returns the fix for the plugin folder dir, whose catalog could not be opened
// because of err.
func CatalogFix(dir string, err error) string {
	add := "tenantry plugin add FILE…"
	if dir != "" {
		add = "tenantry plugin add --plugin-dir " + dir + " FILE…"
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "correct plugin_dir, or create the catalog: " + add
	}
	return "create the catalog again: " + add
}

// RecordAction writes an audit event about an action that was not recorded in a transaction, for
// example the addition of a plugin. It does nothing when the embedded database does not exist, or
// when the database has no audit table yet. details must not contain secrets. If the event cannot
// be written, the error says that the action was done but not recorded. RecordAction also works
// after ctx was cancelled, because the action is done. A command calls RecordAction before it
// prints its result, because printing can fail.
func RecordAction(ctx context.Context, c settings.Config, action audit.Action, details map[string]string) error {
	if RequireDatabase(c) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), databaseOpenTimeout)
	defer cancel()
	store, err := bunstore.Open(ctx, c.DatabaseURL, bunstore.Options{Operator: c.Operator})
	if err != nil {
		return unrecordedError(action, err)
	}
	hasAuditTable, err := store.HasAuditTable(ctx)
	if err == nil && hasAuditTable {
		err = store.RecordAction(ctx, action, details)
	}
	if err = errors.Join(err, store.Close()); err != nil {
		return unrecordedError(action, err)
	}
	return nil
}

func unrecordedError(action audit.Action, err error) error {
	return cli.WithFix(fault.ServiceUnavailable.With("the action %s is done, but could not be recorded: %s", action, database.OperatorError(err)),
		"check the database settings; do not repeat the action")
}
