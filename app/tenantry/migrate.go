// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/core/audit"
)

type migrated struct {
	Status     string   `json:"status"`
	Migrations []string `json:"migrations"` // those that it ran
}

func (m migrated) Columns() [][2]string {
	return [][2]string{{"STATUS", m.Status}, {"MIGRATIONS", cmp.Or(strings.Join(m.Migrations, ", "), "none were missing")}}
}

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.Usage(err)
			}
			if err := dataFolder(c); err != nil {
				return err
			}
			ran, err := migrateNow(cmd.Context(), c, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			if err := cli.Show(cmd, migrated{"migrated", append([]string{}, ran...)}); err != nil || len(ran) == 0 {
				return err
			}
			return recordAct(cmd.Context(), c, audit.Migrate, map[string]string{"migrations": strings.Join(ran, ", "), "version": version})
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

// migrateNow migrates a database and names the migrations that it lacked.
func migrateNow(ctx context.Context, c settings.Config, log *slog.Logger) ([]string, error) {
	store, err := bunstore.Open(ctx, c.DatabaseURL, bunstore.Options{Log: log})
	if err != nil {
		return nil, databaseError(err)
	}
	lacked, err := store.Pending(ctx)
	if err == nil {
		err = store.Migrate(ctx)
	}
	var queued []string
	if err == nil {
		queued, err = migrateQueue(ctx, c)
	}
	if err != nil {
		return nil, errors.Join(databaseError(fmt.Errorf("migrate: %w", err)), store.Close())
	}
	return append(lacked, queued...), store.Close()
}

// dataFolder makes the folder of an embedded database.
func dataFolder(c settings.Config) error {
	if !strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return nil
	}
	return os.MkdirAll(c.DataDir, 0o700)
}
