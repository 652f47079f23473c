// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/app/cli"
	"github.com/tenantry/tenantry/app/server"
	"github.com/tenantry/tenantry/app/settings"
	"github.com/tenantry/tenantry/app/wiring"
	"github.com/tenantry/tenantry/core/audit"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API",
		Long: "Serve the API, on an embedded SQLite database unless a PostgreSQL one is set.\n" +
			"Without the settings of the mail platform it starts too: it logs a warning, and answers requests that need the\n" +
			"mail platform with 503.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			log := telemetry.NewLogger(cmd.ErrOrStderr(), c.Level())
			for _, name := range settings.UnknownVariables(os.Environ()) {
				log.Warn("a variable that is not a setting has no effect", "variable", name)
			}
			return server.Serve(cmd.Context(), c, log)
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}

type migrationRow struct {
	Status     string   `json:"status"`
	Migrations []string `json:"migrations"` // the migrations that the command applied
}

// Columns implements cli.Row.
func (m migrationRow) Columns() [][2]string {
	return [][2]string{{"STATUS", m.Status}, {"MIGRATIONS", cmp.Or(strings.Join(m.Migrations, ", "), "none were pending")}}
}

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the database to the schema of this version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := settings.Load(cmd.Flags(), nil)
			if err != nil {
				return cli.UsageError(err)
			}
			if err := wiring.CreateDataFolder(c); err != nil {
				return err
			}
			applied, err := wiring.MigrateNow(cmd.Context(), c, slog.New(slog.DiscardHandler))
			var recordErr error
			if len(applied) > 0 {
				recordErr = wiring.RecordAction(cmd.Context(), c, audit.Migrate, map[string]string{"migrations": strings.Join(applied, ", "), "version": cli.Version})
			}
			if err != nil {
				return errors.Join(err, recordErr)
			}
			return errors.Join(recordErr, cli.Show(cmd, migrationRow{"migrated", append([]string{}, applied...)}))
		},
	}
	settings.Config{}.AddFlags(cmd.Flags())
	return cmd
}
