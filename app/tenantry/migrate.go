// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/bunstore"
)

type migrated struct {
	Status string `json:"status"`
}

func (m migrated) columns() [][2]string { return [][2]string{{"status", m.Status}} }

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(cmd.Flags(), nil)
			if err != nil {
				return usageError{err}
			}
			if err := dataFolder(c); err != nil {
				return err
			}
			if err := migrateNow(cmd.Context(), c, slog.New(slog.DiscardHandler)); err != nil {
				return err
			}
			return show(cmd, migrated{"migrated"})
		},
	}
	Config{}.flags(cmd.Flags())
	return cmd
}

func migrateNow(ctx context.Context, c Config, log *slog.Logger) error {
	store, err := bunstore.Open(ctx, c.DatabaseURL, bunstore.Options{Log: log})
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	if err := store.Migrate(ctx); err != nil {
		return errors.Join(fmt.Errorf("migrate: %w", err), store.Close())
	}
	return store.Close()
}

// dataFolder makes the folder of an embedded database.
func dataFolder(c Config) error {
	if !strings.HasPrefix(c.DatabaseURL, "sqlite:") {
		return nil
	}
	return os.MkdirAll(c.DataDir, 0o700)
}
