// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/fault"
)

const fixMigrations = "run `tenantry migrate` with the same database settings"

// migratedAlready refuses a server's database that lacks this release's schema.
func migratedAlready(ctx context.Context, store *bunstore.Store) error {
	pending, err := store.Pending(ctx)
	if err == nil && len(pending) > 0 {
		err = cli.WithFix(fmt.Errorf("%d migrations are missing", len(pending)), fixMigrations)
	}
	return err
}

// openStore opens the database. The embedded one is migrated on the spot; a
// server's is migrated by `tenantry migrate`.
func openStore(ctx context.Context, c settings.Config, log *slog.Logger) (*bunstore.Store, error) {
	embedded := strings.HasPrefix(c.DatabaseURL, "sqlite:")
	if err := dataFolder(c); err != nil {
		return nil, err
	}
	asked, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	store, err := bunstore.Open(asked, c.DatabaseURL, bunstore.Options{Log: log, Operator: c.Operator})
	if err != nil {
		return nil, databaseError(err)
	}
	if embedded {
		err = store.Migrate(ctx)
	} else {
		err = migratedAlready(asked, store)
	}
	if err != nil {
		return nil, errors.Join(databaseError(err), store.Close())
	}
	return store, nil
}

// databaseError says what can be done about a database that does not open.
func databaseError(err error) error {
	err = fmt.Errorf("database: %w", err)
	switch {
	case cli.HasFix(err):
		return err
	case errors.Is(err, bunstore.ErrTooOld):
		return cli.WithFix(err, "install a newer tenantry")
	case errors.Is(err, context.DeadlineExceeded):
		return databaseError(fault.ServiceUnavailable.With("the database did not answer in %s", answerTime))
	case fault.Of(err).Code.Kind == fault.Unavailable:
		return cli.WithFix(err, "start the database, or correct database_url; `tenantry doctor` looks closer")
	default:
		return err
	}
}

// openHost opens the plugin folder. Plugins start on first use.
func openHost(c settings.Config, log *slog.Logger) (*pluginhost.Host, error) {
	host, err := pluginhost.New(pluginhost.Options{Dir: c.PluginDir, Log: log, Env: os.Environ()})
	if err != nil {
		return nil, cli.WithFix(fmt.Errorf("plugins: %w", err), catalogFix(c.PluginDir, err))
	}
	return host, nil
}

// catalogFix is what to do about a plugin folder that does not open.
func catalogFix(dir string, err error) string {
	add := "tenantry plugin add FILE…"
	if dir != "" {
		add = "tenantry plugin add --plugin-dir " + dir + " FILE…"
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "correct plugin_dir, or make the catalog: " + add
	}
	return "make the catalog anew: " + add
}

// openKeyset opens the keyset, which is made where there is none yet. Beside a
// database that holds what an earlier one sealed, a new one would hide its
// loss until nothing opens.
func openKeyset(ctx context.Context, c settings.Config, store *bunstore.Store, create bool) (*secrets.Sealer, error) {
	if _, err := os.Stat(c.KeysetFile); create && errors.Is(err, fs.ErrNotExist) {
		lost, err := store.HoldsSealed(ctx)
		if err != nil {
			return nil, databaseError(err)
		}
		if lost {
			return nil, cli.WithFix(
				fmt.Errorf("there is no keyset at %s, and the database holds what was sealed with one", c.KeysetFile),
				"put the keyset back from its backup, or correct keyset_file; to give up what it sealed: `tenantry keyset create`",
			)
		}
	}
	sealer, err := secrets.OpenKeyset(c.KeysetFile, create)
	if err != nil {
		return nil, keysetFailure(c.KeysetFile, err)
	}
	return sealer, nil
}
